"""Recordings made by hand, for the tests of reading, merging and showing traces."""

from __future__ import annotations

from typing import Any

from farref.actors.recording.tracing import encode, worker_of
from farref.protocol.ids import RRefId
from farref.trace.inputs import message_of
from farref.trace.records import Record, Recording, group, parse
from farref.trace.story import Arrow, ArrowPart, Story


class Tape:
    """Records the steps of endpoints, in the order of the calls; numbers the messages."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._counts: dict[tuple[str, str, str], int] = {}

    def send(self, at: str, to: str, message: str, **fields: Any) -> None:
        self._message("send", at, to, message, fields)

    def receive(self, at: str, sender: str, message: str, **fields: Any) -> None:
        self._message("receive", at, sender, message, fields)

    def pass_on(self, at: str, to: str, message: str, **fields: Any) -> None:
        """Send a message, and receive it before any other event."""
        self.send(at, to, message, **fields)
        self.receive(to, at, message, **fields)

    def note(self, at: str, kind: str, **fields: Any) -> None:
        for carried in fields.get("carries", ()):
            if len(carried) == 3:
                carried.append("fork")
        self.records.append(Record(at, kind, {"at": at, "kind": kind, **fields}))

    def _message(self, kind: str, at: str, peer: str, message: str, fields: dict[str, Any]) -> None:
        number = self._counts[kind, at, peer] = self._counts.get((kind, at, peer), 0) + 1
        user = message in ("Call", "Create", "Fetch", "Invoke", "Reply", "Tell")
        self.note(at, kind, peer=peer, number=number, message=message, user=user, **fields)

    def recording(self) -> Recording:
        return group(self.records)


_WRITTEN = ("send", "receive", "confirmed", "free")
"""The kinds of steps that have rows here."""


def rows(recording: Recording) -> dict[str, list[str]]:
    """The rows that each endpoint writes for these steps."""
    return {
        at: [step.line or _row(step) for step in steps if step.kind in _WRITTEN]
        for at, steps in recording.steps.items()
    }


def _row(step: Record) -> str:
    at = worker_of(step.at)
    if step.kind in ("confirmed", "free"):
        creator, _, number = step.text("rref").rpartition("/")
        return encode((step.kind, 0.0, at, RRefId(worker_of(creator), int(number)))).decode()
    message = message_of(step.fields, worker_of)
    last = (None, None) if step.kind == "send" else (None,)
    number = step.fields["number"]
    return encode((step.kind, 0.0, at, worker_of(step.peer), number, message, *last)).decode()


def written(tape: Tape) -> Recording:
    """*tape*, read from its rows; they imply steps of further kinds."""
    lines = (line for of_one in rows(tape.recording()).values() for line in of_one)
    return group(step for line in lines for step in parse(line))


def labels(story: Story, message: str) -> list[str]:
    """The labels of each message, once, where it leaves."""
    rows = (
        row for row in story.rows if isinstance(row, Arrow) and row.part is not ArrowPart.ARRIVES
    )
    return [row.labels[0] for row in rows if row.kind == message]


def user_to_user() -> Recording:
    """A shares B's object with C; the ACK is overtaken by C's fetch."""
    tape, rref, mine, its = Tape(), "A@1/1", "A@1/1", "A@1/2"
    a, b, c = "A@1", "B@2", "C@3"
    tape.pass_on(a, b, "Create", call="A@1/9", rref=rref, fork=mine, label="add")
    tape.pass_on(b, a, "Ack", rref=rref, fork=mine)
    tape.pass_on(a, c, "Call", call="A@1/1", label="func", carries=[[rref, its, b]])
    tape.pass_on(c, b, "ForkRequest", rref=rref, fork=its)
    tape.send(b, c, "Ack", rref=rref, fork=its)
    tape.pass_on(c, b, "Fetch", call="C@3/1", rref=rref)
    tape.receive(c, b, "Ack", rref=rref, fork=its)
    tape.pass_on(c, a, "ChildAck", rref=rref, fork=its)
    tape.pass_on(b, c, "Reply", call="C@3/1")
    tape.pass_on(c, a, "Reply", call="A@1/1")
    tape.pass_on(c, b, "Delete", rref=rref, forks=[its])
    tape.pass_on(a, b, "Delete", rref=rref, forks=[mine])
    tape.note(b, "free", rref=rref)
    return written(tape)


def crowd(size: int, forks: int = 1) -> Recording:
    """One owner shares its object with each of *size* others, *forks* times each."""
    tape = Tape()
    for number in range(1, size + 1):
        user = f"worker-{number:02}@{number:x}"
        ids = [f"owner@0/{number * forks + fork}" for fork in range(forks)]
        carries = [["owner@0/1", each, "owner@0"] for each in ids]
        tape.pass_on("owner@0", user, "Tell", label="Look", carries=carries)
        tape.pass_on(user, "owner@0", "Delete", rref="owner@0/1", forks=ids)
    tape.note("owner@0", "free", rref="owner@0/1")
    return tape.recording()


def forwarding() -> Recording:
    """The borrowing note's first example: F lends to G, and G to H; F asks G to report its end."""
    tape, x = Tape(), "F@1/1"
    f, g, h = "F@1", "G@2", "H@3"
    mine, its = "F@1/1", "G@2/1"
    held = {"rref": x, "fork": mine, "owner": f, "held": True, "borrowers": []}
    tape.pass_on(f, g, "Call", call="F@1/1", label="g", carries=[[x, mine, f, "loan"]])
    tape.pass_on(g, h, "Call", call="G@2/1", label="h", carries=[[x, its, f, "loan"]])
    tape.pass_on(g, f, "Reply", call="F@1/1", loans=[held])
    tape.pass_on(f, g, "NotifyRefRemoved", loans=[[x, mine]])
    tape.note(g, "confirmed", rref=x)
    tape.pass_on(h, g, "Reply", call="G@2/1")
    gone = {"rref": x, "forks": [mine], "borrowers": []}
    tape.pass_on(g, f, "RefRemoved", removed=[gone])
    tape.note(f, "free", rref=x)
    return written(tape)
