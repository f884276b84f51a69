"""The counters of endpoints as metrics: names, kinds, labels, and Prometheus' text.

Names are Prometheus': base units, ``_total`` for a value that only grows. OpenTelemetry's come from
the same table (`instruments`). Each sample has the labels ``system`` and ``endpoint``, the
endpoint's name as `farref refs` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from ...printable import printable
from ..core.counters import Counters

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of `text`, for HTTP."""
UP = "farref_up"
"""Whether an endpoint answered. It is the only sample of an endpoint that did not."""


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    """Without ``farref_`` and ``_total``."""
    help: str
    read: Callable[[Counters], float | dict[str, int]] | None = None
    """Its value, or its values by *label*; by default the counter with its name."""
    label: str = ""
    grows: bool = False
    """It is a counter, not a gauge."""
    unit: str = ""

    @property
    def prometheus(self) -> str:
        return f"farref_{self.name}{'_total' if self.grows else ''}"

    def samples(self, counters: Counters) -> Iterator[tuple[dict[str, str], float]]:
        """Its values, each with its own labels."""
        value = self.read(counters) if self.read else getattr(counters, self.name)
        if isinstance(value, dict):
            yield from (({self.label: key}, each) for key, each in sorted(value.items()))
        else:
            yield {}, value


ROLES = dict.fromkeys(("owner", "alias", "user", "borrower"), 0)
_total = partial(Metric, grows=True)
METRICS = (
    Metric(
        "references", "References that exist now.", lambda c: ROLES | c.references, label="role"
    ),
    Metric("loans_given", "Loans in its calls that are not answered now.", lambda c: c.lent),
    Metric("loans_taken", "Loans in the calls that wait or run here now.", lambda c: c.borrowed),
    Metric("calls_in_flight", "Requests that wait for an answer now.", lambda c: c.in_flight),
    _total("requests_served", "Requests that it began to serve.", lambda c: c.served),
    _total("request_errors", "Requests that raised exceptions.", lambda c: c.errors),
    Metric("pool_queue", "Requests that wait for a thread now.", lambda c: c.waiting),
    Metric("inbox_messages", "Messages that wait for the user's code now.", lambda c: c.inbox),
    Metric("backlog_messages", "Messages sent and not acknowledged now.", lambda c: c.backlog),
    Metric("timers", "Wakeups that were asked for and have not come."),
    Metric("memory_bytes", "Main memory of its process now.", lambda c: c.memory, unit="By"),
    Metric("threads", "Threads of its process now."),
    _total("cpu_seconds", "Processor time of its process.", lambda c: c.cpu, unit="s"),
    _total(
        "messages_sent", "Messages sent, by kind.", lambda c: {**c.control, **c.user}, label="kind"
    ),
    _total("messages_received", "Messages received, without repeated ones."),
    _total(
        "payload_sent_bytes",
        "Bytes of the program's values sent, pickled.",
        lambda c: c.payload_bytes,
        unit="By",
    ),
    _total("searches", "Searches for garbage in rings."),
    _total("collected", "Objects found to be such garbage."),
    Metric(
        "search_pause_seconds",
        "The longest time for which such a search has held up messages, or all threads.",
        lambda c: c.pause,
        unit="s",
    ),
    _total("packets_sent", "Packets sent."),
    _total("packets_received", "Packets received."),
    _total("retransmissions", "Messages sent again, because no acknowledgement came in time."),
    _total("duplicates", "Messages that came a second time, and were dropped."),
    _total("refused", "Messages that were malformed, or came from a stranger."),
    _total("deaths", "Endpoints that died without leaving."),
)


def text(system: str, counters: dict[str, Counters], silent: dict[str, str]) -> str:
    """All metrics of *system* as Prometheus' text, version 0.0.4."""
    up = {**dict.fromkeys(counters, 1), **dict.fromkeys(silent, 0)}
    lines = _head(UP, "Whether the endpoint answered.", "gauge")
    lines += [_line(UP, system, name, {}, value) for name, value in sorted(up.items())]
    for metric in METRICS:
        name = metric.prometheus
        lines += _head(name, metric.help, "counter" if metric.grows else "gauge")
        for endpoint, each in sorted(counters.items()):
            for labels, value in metric.samples(each):
                lines.append(_line(name, system, endpoint, labels, value))
    return "\n".join((*lines, ""))


def as_dict(system: str, counters: dict[str, Counters], silent: dict[str, str]) -> dict[str, Any]:
    """The counters as a dictionary, for ``--json``."""
    by_name = {name: msgspec.structs.asdict(each) for name, each in counters.items()}
    return {"system": system, "endpoints": by_name, "silent": silent}


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _line(name: str, system: str, endpoint: str, labels: dict[str, str], value: float) -> str:
    told = {"system": system, "endpoint": endpoint, **labels}
    inside = ",".join(f'{key}="{_escaped(each)}"' for key, each in told.items())
    return f"{name}{{{inside}}} {value}"


def _escaped(value: str) -> str:
    said = printable(value, lines=True)
    return said.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
