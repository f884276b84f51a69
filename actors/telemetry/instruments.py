"""The metrics of this process's endpoints, as OpenTelemetry's observable instruments.

Their names come from the table in `metrics`: ``farref_messages_sent_total`` is
``farref.messages.sent``.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable
from functools import partial

from opentelemetry.metrics import CallbackOptions, Observation, get_meter

from ..inspect.counting import Counting
from ..inspect.metrics import METRICS, Metric

_counted: weakref.WeakSet[Counting] = weakref.WeakSet()


def observe(counting: Counting) -> None:
    """Have the process's meter provider read an endpoint's counters, until the endpoint ends."""
    _counted.add(counting)


def _read(metric: Metric, _: CallbackOptions) -> Iterable[Observation]:
    for counting in list(_counted):
        core = counting.core
        if core.closed or core.pid != os.getpid():  # a fork inherited it, with its lock
            continue
        told = {"system": core.settings.system, "endpoint": core.me.name}
        labels = {f"farref.{name}": value for name, value in told.items()}
        for more, value in metric.samples(counting.read()):
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
