"""Spans and metrics are kept in the memory of each process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporters: dict[int, InMemorySpanExporter] = {}
"""By process: a worker may inherit the program's exporter, which is not its own."""
readers: list[Any] = []
"""The reader of this process, or of the program that it was forked from."""


def remember() -> None:
    """Each process of a test keeps its spans and metrics in memory."""
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    if not isinstance(trace.get_tracer_provider(), TracerProvider):  # once in each process
        trace.set_tracer_provider(TracerProvider())
        reader = InMemoryMetricReader()
        metrics.set_meter_provider(MeterProvider([reader]))
        readers.append(reader)
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    exporters[os.getpid()] = exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))


def forget() -> None:
    """Forget the spans of this process."""
    exporters[os.getpid()].clear()
