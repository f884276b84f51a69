"""A step of a program as one line of text."""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import fields

from farref.protocol.ids import WorkerId
from farref.tracetest.show import message_text

from .endpoint import ScriptedEndpoint
from .script import Action, Script
from .steps import Act, Answer, Arrival, Bury, Forget, Judge, Notice, Search, Step, Suspect
from .task import Stage, Task
from .world import Crash, InFlight


def action_line(action: Action) -> str:
    """*action* as its author wrote it, without default arguments."""
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
    who: WorkerId, endpoint: ScriptedEndpoint | None, step: Step | Crash, sent: list[InFlight]
) -> str:
    """*step* of *who*, in its state *endpoint* before the step, and the messages sent."""
    match step:
        case Arrival(sender=sender, message=message):
            what = f"gets {message_text(message)} from {sender}"
        case Act(task=task) if task is not None:
            what = _task(task)
        case Act():
            what = f"does {action_line(endpoint.script[0]) if endpoint else ''}"
        case Notice(worker=worker, unacknowledged=messages):
            unsaid = "".join(f"\n       maybe lost: {message_text(each)}" for each in messages)
            what = f"hears that {worker} died{unsaid}"
        case Bury(worker=worker):
            what = f"buries {worker}"
        case Suspect(rref=rref):
            what = f"suspects {rref}"
        case Search(rref=rref):
            what = f"searches for a ring from {rref}"
        case Forget(rref=rref):
            what = f"gives up the search from {rref}"
        case Crash():
            what = "dies"
        case Answer(asker=asker, look=look):
            what = f"answers look {look} of {asker}"
        case Judge(start=start):
            what = f"weighs its search from {start}"
        case _:
            assert_never(step)
    sends = "".join(f"\n       {who} -> {to}  {message_text(each)}" for _, to, each in sent)
    return f"{who} {what}{sends}"


def _task(task: Task) -> str:
    name = message_text(task.message)
    if task.refused:
        return f"refuses {name}"
    if task.todo:
        return f"does {action_line(task.todo[0])} in {name}"
    return f"{'ends' if task.stage is Stage.BEGUN else 'starts'} {name}"
