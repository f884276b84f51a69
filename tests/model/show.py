"""A step of a program as one line of text."""

from __future__ import annotations

from dataclasses import fields
from typing import assert_never

from farref.protocol.ids import ForkId, WorkerId
from farref.protocol.messages import (
    Ack,
    AliasGone,
    AliasRef,
    Call,
    Cancel,
    Canonical,
    Cargo,
    ChildAck,
    Create,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Invoke,
    Message,
    Moved,
    NotifyRefRemoved,
    Probe,
    RefRemoved,
    Reply,
    Report,
    Returned,
    RoomAsked,
    RoomGiven,
    Tell,
)

from .endpoint import Endpoint
from .script import Action, Script
from .steps import Act, Bury, Deliver, Notice, Step, Suspect
from .task import Stage, Task
from .world import Crash, Envelope


def message_line(message: Message) -> str:
    """*message*, short."""
    match message:
        case ForkRequest(rref=rref, fork=fork) | Ack(rref=rref, fork=fork):
            what = f"{rref} fork {fork}"
        case ChildAck(rref=rref, fork=fork):
            what = f"{rref} fork {fork}"
        case Delete(rref=rref, forks=forks, borrowers=borrowers):
            what = f"{rref} forks {' '.join(map(str, forks))}{_table(borrowers)}"
        case RefRemoved(removed=removed):
            what = " ".join(message_line(each) for each in removed)
        case NotifyRefRemoved(loans=loans):
            what = " ".join(f"{rref} fork {fork}" for rref, fork in loans)
        case Returned(loans=loans):
            what = _reports(loans)
        case Cancel(call=call):
            what = f"call {call}"
        case Tell(cargo=cargo):
            what = _cargo(cargo)
        case AliasRef(call=call, rref=rref, alias=alias, label=label):
            what = f"call {call} of {rref} alias {alias} label {label}"
        case Canonical(call=call, rref=rref, moved=moved):
            what = f"call {call} of {rref}{_moved(moved)}"
        case AliasGone(rref=rref, alias=alias):
            what = f"{rref} alias {alias}"
        case Probe(start=start, call=call, path=path, before=before):
            way = ", ".join(f"{hop.run} for {hop.call}" for hop in path)
            what = f"by {start} call {call}: {way}{' (second lap)' if before else ''}"
        case RoomAsked(flow=flow) | RoomGiven(flow=flow):
            what = flow
        case Call(call=call, cargo=cargo):
            what = f"call {call} {_cargo(cargo)}"
        case Reply(call=call, cargo=cargo, loans=loans, moved=moved):
            what = f"call {call} {_cargo(cargo)} {_reports(loans)}{_moved(moved)}"
        case Create(rref=rref, fork=fork, cargo=cargo, target=target):
            what = f"{rref} fork {fork}{f' method of {target}' if target else ''} {_cargo(cargo)}"
        case Invoke(call=call, rref=rref, cargo=cargo):
            what = f"call {call} of {rref} {_cargo(cargo)}"
        case Fetch(call=call, rref=rref):
            what = f"call {call} of {rref}"
        case _:
            assert_never(message)
    return f"{type(message).__name__}({what.strip()})"


def _cargo(cargo: Cargo) -> str:
    return " ".join(map(_reference, cargo.descriptors))


def _reference(each: Descriptor) -> str:
    called = f" called {each.name}" if each.name is not None else ""
    return f"[{each.rref} as {each.passing.value} {each.fork}{called}]"


def _moved(moved: Moved | None) -> str:
    return f" moved to {_reference(moved.fork)}" if moved is not None else ""


def _reports(loans: tuple[Report, ...]) -> str:
    return " ".join(
        f"<{'held' if each.held else 'returned'} {each.fork} of {each.rref}"
        f"{_table(each.borrowers)}>"
        for each in loans
    )


def _table(borrowers: tuple[tuple[ForkId, WorkerId], ...]) -> str:
    return "".join(f", {worker} borrowed {fork}" for fork, worker in borrowers)


def action_line(action: Action) -> str:
    """*action* as its author wrote it: what has its default is not said."""
    said = []
    for number, field in enumerate(fields(action)):
        value = getattr(action, field.name)
        if value != field.default:
            text = _script(value) if field.name in SCRIPTS else repr(value)
            said.append(f"{field.name}={text}" if number else text)
    return f"{type(action).__name__}({', '.join(said)})"


SCRIPTS = ("body", "then")


def _script(script: Script) -> str:
    return f"[{' '.join(action_line(action) for action in script)}]"


def step_line(
    who: WorkerId, endpoint: Endpoint | None, step: Step | Crash, sent: list[Envelope]
) -> str:
    """*step* of *who*, who was *endpoint* before, and what it sent."""
    match step:
        case Deliver(sender=sender, message=message):
            what = f"gets {message_line(message)} from {sender}"
        case Act(task=task) if task is not None:
            what = _task(task)
        case Act():
            what = f"does {action_line(endpoint.script[0]) if endpoint else ''}"
        case Notice(worker=worker, unacknowledged=messages):
            unsaid = "".join(f"\n       maybe lost: {message_line(each)}" for each in messages)
            what = f"hears that {worker} died{unsaid}"
        case Bury(worker=worker):
            what = f"buries {worker}"
        case Suspect(rref=rref):
            what = f"suspects {rref}"
        case Crash():
            what = "dies"
        case _:
            assert_never(step)
    sends = "".join(f"\n       {who} -> {to}  {message_line(each)}" for _, to, each in sent)
    return f"{who} {what}{sends}"


def _task(task: Task) -> str:
    name = message_line(task.message)
    if task.refused:
        return f"refuses {name}"
    if task.todo:
        return f"does {action_line(task.todo[0])} in {name}"
    return f"{'ends' if task.stage is Stage.BEGUN else 'starts'} {name}"
