"""The metrics of this process's endpoints, as OpenTelemetry's observable instruments.

Their names come from the table in `metrics`: ``farref_messages_sent_total`` is
``farref.messages.sent``.
"""

from __future__ import annotations

import os
import weakref
from functools import partial
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Observation, get_meter

from .metrics import METRICS, Metric

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .endpoint import Endpoint

_endpoints: weakref.WeakSet[Endpoint] = weakref.WeakSet()


def observe(endpoint: Endpoint) -> None:
    """Have the process's meter provider read what *endpoint* counts, until that ends."""
    _endpoints.add(endpoint)


def _read(metric: Metric, _: CallbackOptions) -> Iterable[Observation]:
    for endpoint in list(_endpoints):
        if endpoint.closed or endpoint.pid != os.getpid():  # inherited by a fork, with its lock
            continue
        told = {"system": endpoint.settings.system, "endpoint": endpoint.me.name}
        labels = {f"farref.{name}": value for name, value in told.items()}
        for more, value in metric.samples(endpoint.delivery.tally.read(endpoint)):
            yield Observation(value, {**labels, **{f"farref.{k}": v for k, v in more.items()}})


_meter = get_meter("farref")
for _metric in METRICS:
    _make = _meter.create_observable_counter if _metric.grows else _meter.create_observable_gauge
    _make(
        f"farref.{_metric.name.replace('_', '.')}",
        [partial(_read, _metric)],
        unit=_metric.unit or "1",
        description=_metric.help,
    )
