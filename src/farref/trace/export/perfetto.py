"""A trace as Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing show.

Each endpoint is a thread, each step is a slice, and each message is an arrow from its sending to
its effect. Times are in microseconds from the first step, by the clocks of the endpoints' hosts
(Trace Event Format: `ph`, `ts`, `pid`, `tid`). Those clocks may differ. If by the clocks a message
would arrive before it left, or an endpoint's steps would change their order, the later step moves
to just after the earlier one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...printable import json_text, printable
from ..labels import Labels
from ..progress import Progress, silent
from ..view import View

if TYPE_CHECKING:
    from ..records import Record
    from ..story import Story

PID = 1
STEP = 1.0
"""The drawn length of a step, in microseconds."""


def perfetto(story: Story, progress: Progress = silent) -> str:
    events = _events(story, progress)
    return json_text({"displayTimeUnit": "ns", "traceEvents": events}) + "\n"


def _events(story: Story, progress: Progress) -> list[dict[str, Any]]:
    threads = {lane: number for number, lane in enumerate(story.lanes, 1)}
    events: list[dict[str, Any]] = [_about("process_name", 0, name=story.title or "farref")]
    for lane, tid in threads.items():
        events.append(_about("thread_name", tid, name=story.names.of(lane)))
        events.append(_about("thread_sort_index", tid, sort_index=tid))
    begun = min((float(record.fields.get("time", 0)) for record in story.records), default=0.0)
    free = dict.fromkeys(threads, 0.0)
    sent: dict[tuple[str, str, int], float] = {}
    flows: dict[tuple[str, str, int], int] = {}
    shown = {place for first, last in story.spans for place in range(first, last)}
    view = View()
    labels = Labels(story.names, view, owners=True)
    for place, record in enumerate(story.records):
        progress(place, len(story.records))
        changes = view.take(record)
        said = labels.of(record)[0] if record.kind == "send" else ""
        if place not in shown or record.at not in threads:
            continue
        at = max((float(record.fields.get("time", 0)) - begun) * 1e6, free[record.at])
        if record.kind == "receive" and record.name in sent:
            at = max(at, sent[record.name] + STEP)
        free[record.at] = at + STEP
        tid = threads[record.at]
        what = {"ph": "X", "ts": at, "dur": STEP, "pid": PID, "tid": tid, "cat": _category(record)}
        args = {
            name: _shown(value)
            for name, value in record.fields.items()
            if name not in ("at", "kind", "time", "user", "tables")
        }
        if changes:
            args["view"] = [f"{story.names.id(c.fork.id)} {c.stage.value}" for c in changes]
        events.append({**what, "name": printable(_name(record, story, said)), "args": args})
        if record.kind == "send":
            sent[record.name], flows[record.name] = at, len(flows) + 1
            events.append(_flow("s", flows[record.name], at, tid, record))
        elif record.kind == "receive" and record.name in flows:
            events.append({**_flow("f", flows[record.name], at, tid, record), "bp": "e"})
    return events


def _shown(value: Any) -> Any:
    """*value*, with every text in it printable: a viewer shows them."""
    match value:
        case str():
            return printable(value)
        case list() | tuple():
            return [_shown(each) for each in value]
        case dict():
            return {printable(name): _shown(each) for name, each in value.items()}
        case _:
            return value


def _category(record: Record) -> str:
    if record.kind in ("send", "receive"):
        return "user" if record.user else "protocol"
    return "reference"


def _name(record: Record, story: Story, said: str) -> str:
    peer = story.names.of(record.peer)
    match record.kind:
        case "send":
            return f"{said} to {peer}"
        case "receive":
            return f"{record.message} of {peer}"
        case "do":
            return " ".join(filter(None, (record.text("do"), story.names.id(record.text("rref")))))
        case "run":
            return f"{record.text('label')}() starts"
        case kind:
            about = story.names.id(record.text("rref")) or peer
            return f"{kind} {about}".rstrip()


def _flow(phase: str, number: int, at: float, tid: int, record: Record) -> dict[str, Any]:
    name = record.message
    return {
        "ph": phase, "id": number, "ts": at, "pid": PID, "tid": tid, "cat": "message", "name": name
    }  # fmt: skip


def _about(what: str, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": PID, "tid": tid, "args": args}
