"""A recorded step as plain sentences, in which `notes` looks for published steps.

The sentences name endpoints and objects as the trace does (``F lends F/1 to G``). A sentence is
about the one endpoint that took the step: the sender's sentence and the receiver's differ. Only
steps that published examples have make sentences.
"""

from __future__ import annotations

from collections.abc import Iterator

from .names import TraceNames
from .records import Record
from .view import View

_PASSES = {"loan": "lends {rref} to", "fork": "shares {rref} with", "back": "gives {rref} back to"}


def facts(record: Record, names: TraceNames, view: View) -> Iterator[str]:
    """The sentences of one step. *view* is the state before the step."""
    at, peer = names.of(record.at), names.of(record.peer)
    match record.kind:
        case "send":
            said = [*_sent(record, names), *_aliases(record, names, view, "says")]
        case "receive":
            said = [*_received(record, names, view), *_aliases(record, names, view, "learns")]
        case "free":
            said = [f"frees {names.id(record.text('rref'))}"]
        case "confirmed":
            said = [f"is counted for {names.id(record.text('rref'))}"]
        case _:
            said = []
    yield from (f"{at} {each.replace('{peer}', peer)}" for each in said)


def _sent(record: Record, names: TraceNames) -> Iterator[str]:
    if record.message in ("Call", "Invoke", "Create"):
        yield f"calls {record.text('label')} on {{peer}}"
    if record.message == "Reply":
        yield "replies to {peer}"
    for each in record.brings:
        yield _PASSES[each.passing].format(rref=names.id(each.rref)) + " {peer}"
    for report in record.reports:
        if report.held:
            yield f"tells {{peer}} that it holds {names.id(report.rref)}"
    for asked, _ in record.notices:
        yield f"asks {{peer}} for word of the end of {names.id(asked)}"
    for removal in record.removals:
        yield f"tells {{peer}} that it let go of {names.id(removal.rref)}"


def _aliases(record: Record, names: TraceNames, view: View, verb: str) -> Iterator[str]:
    """Sentences about aliases: the endpoint *says* or *learns* a fact, as *verb* has it."""
    rref, alias = names.id(record.text("rref")), names.id(record.text("alias"))
    if record.message == "AliasRef":
        yield f"{verb} that {alias} is an alias of {rref}"
    if record.message == "Canonical" and record.moved is None:
        yield f"{verb} that {rref} is canonical"
    if record.moved is not None:
        found = names.id(record.moved.fork.rref)
        yield f"{verb} that {names.id(stands_for(record, view))} is {found}"


def stands_for(record: Record, view: View) -> str:
    """The alias that the `Moved` of *record* is about."""
    return record.text("rref") or view.about.get(record.text("call"), "an alias")


def _received(record: Record, names: TraceNames, view: View) -> Iterator[str]:
    for each in record.brings:
        yield f"gets {names.id(each.rref)} from {{peer}}"
    if record.message == "Reply":
        yield "has the reply of {peer}"
        held = {report.fork for report in record.reports if report.held}
        for loan in view.lent.get(record.text("call"), ()):
            if loan.id not in held:
                yield f"has {names.id(loan.rref)} back from {{peer}}"
    for report in record.reports:
        if report.held:
            yield f"learns that {{peer}} holds {names.id(report.rref)}"
    for asked, _ in record.notices:
        yield f"is asked by {{peer}} for word of the end of {names.id(asked)}"
    for removal in record.removals:
        yield f"learns that {{peer}} let go of {names.id(removal.rref)}"
