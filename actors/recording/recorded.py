"""The machines of an endpoint, with a tracer that records each input.

Without recording the shell calls the `Context` itself. With recording it calls a `Recorded`:
another view of the same tables, which tells the tracer of each input and passes the input on to the
context. Calls that the context makes to itself are not inputs, so the tracer does not hear of them.

Most inputs of the user's code make one message. If a reader can tell the whole input from that
message, the message's row names the input (`by`), and the input has no row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...protocol.context import Context
from ...protocol.effects import Effect
from ...protocol.ids import CallId, RRefId, WorkerId
from ...protocol.messages import Busy, Cargo, Descriptor, Message, Passing
from .tracing import Tracer


class Recorded(Context):
    """*plain*, with each input told to *tracer*. See `Context` for each method."""

    __slots__ = ("_tracer", "plain")

    def __init__(self, plain: Context, tracer: Tracer) -> None:
        self.__dict__ = plain.__dict__  # the same tables: a call of either one changes both
        self.plain = plain
        self._tracer = tracer

    # ---- actions of the user's code

    def own(self, *, serial: bool = True) -> RRefId:
        rref = self.plain.own(serial=serial)
        self._tracer.did("own", rref, *_unusual(serial))
        self._tracer.flush()  # this is not part of a step, and neither is the next row
        return rref

    def hold(self, *rrefs: RRefId) -> None:
        for rref in rrefs:
            self._tracer.did("hold", rref)
            self._tracer.flush()
        self.plain.hold(*rrefs)

    def take_up(self, descriptor: Descriptor) -> list[Effect]:
        self._tracer.did("take_up", (descriptor,))
        return self.plain.take_up(descriptor)

    def drop(self, *rrefs: RRefId) -> list[Effect]:
        self._tracer.did("drop", rrefs)
        return self.plain.drop(*rrefs)

    def fork_all(
        self, rrefs: Sequence[RRefId], to: WorkerId, *, lost: bool = False
    ) -> tuple[Descriptor, ...]:
        made = self.plain.fork_all(rrefs, to, lost=lost)
        for rref in rrefs:
            self._tracer.did("fork", rref, to)
        return made

    def lend_all(
        self, rrefs: Sequence[RRefId], to: WorkerId, *, replies: bool = True
    ) -> tuple[Descriptor, ...]:
        made = self.plain.lend_all(rrefs, to, replies=replies)
        for rref in rrefs:
            self._tracer.did("lend", rref, to, replies)
        return made

    def give_all(self, rrefs: Sequence[RRefId], call: CallId) -> tuple[Descriptor, ...]:
        made = self.plain.give_all(rrefs, call)
        for rref, each in zip(rrefs, made, strict=True):
            if each.passing is not Passing.BACK:  # giving back is not an input
                self._tracer.did("fork", rref, call.caller)
        return made

    # ---- its requests

    def create(
        self, to: WorkerId, cargo: Cargo, target: RRefId | None = None
    ) -> tuple[RRefId, list[Effect]]:
        rref, effects = self.plain.create(to, cargo, target)
        whole = _names(effects, "target", target)
        self._tracer.told(effects, whole, "create", to, cargo.descriptors, target)
        return rref, effects

    def call(
        self, to: WorkerId, cargo: Cargo, chain: tuple[Busy, ...] = (), by: object = None
    ) -> tuple[CallId, list[Effect]]:
        call, effects = self.plain.call(to, cargo, chain, by)
        self._tracer.told(effects, True, "call", to, cargo.descriptors, chain)
        return call, effects

    def invoke(
        self,
        rref: RRefId,
        cargo: Cargo,
        chain: tuple[Busy, ...] = (),
        to: WorkerId | None = None,
        by: object = None,
    ) -> tuple[CallId, list[Effect]]:
        call, effects = self.plain.invoke(rref, cargo, chain, to, by)
        whole = _names(effects, "rref", rref)
        self._tracer.told(effects, whole, "invoke", rref, cargo.descriptors, chain, to)
        return call, effects

    def fetch(
        self,
        rref: RRefId,
        chain: tuple[Busy, ...] = (),
        *,
        copy: bool = True,
        direct: bool = False,
        follow: bool = True,
        by: object = None,
    ) -> tuple[CallId, list[Effect]]:
        call, effects = self.plain.fetch(
            rref, chain, copy=copy, direct=direct, follow=follow, by=by
        )
        whole = _names(effects, "rref", rref) and (not direct or follow)
        self._tracer.told(effects, whole, "fetch", rref, chain, copy, direct, follow)
        return call, effects

    def cancel(self, call: CallId, *, interrupt: bool = False) -> list[Effect]:
        self._tracer.did("cancel", call, *([True] if interrupt else ()))
        return self.plain.cancel(call, interrupt=interrupt)

    # ---- its answers

    def resolve(self, rref: RRefId, *, serial: bool = True) -> list[Effect]:
        self._tracer.did("resolve", rref, *_unusual(serial))
        return self.plain.resolve(rref, serial=serial)

    def suspect_cycle(self, rrefs: Iterable[RRefId], *, cuts: bool = True) -> list[Effect]:
        rrefs = tuple(rrefs)
        self._tracer.did("suspect_cycle", rrefs, cuts)
        return self.plain.suspect_cycle(rrefs, cuts=cuts)

    # ---- messages and deaths

    def take(self, sender: WorkerId, message: Message) -> list[Effect]:
        return self.plain.take(sender, message)  # the shell records it, with its number

    def died(self, worker: WorkerId, unacknowledged: Iterable[Message] = ()) -> list[Effect]:
        lost = tuple(unacknowledged)
        self._tracer.died(worker, lost)
        return self.plain.died(worker, lost)

    def bury(self, worker: WorkerId) -> list[Effect]:
        self._tracer.buried(worker)
        return self.plain.bury(worker)


def _told_as_it_is(name: str) -> Callable[..., list[Effect]]:
    """The method *name* of an input whose row has the arguments, in their order.

    An argument that is iterable is a tuple or a list: the row reads it first.
    """

    def told(self: Recorded, *arguments: Any) -> list[Effect]:
        self._tracer.did(name, *arguments)
        effects: list[Effect] = getattr(self.plain, name)(*arguments)
        return effects

    return told


def _told_by_its_message(name: str) -> Callable[..., list[Effect]]:
    """The method *name* of an input that its message shows as a whole: a receiver, and a cargo."""

    def told(self: Recorded, to: Any, cargo: Cargo) -> list[Effect]:
        effects: list[Effect] = getattr(self.plain, name)(to, cargo)
        self._tracer.told(effects, True, name, to, cargo.descriptors)
        return effects

    return told


for _name in ("tell", "reply", "refuse"):
    setattr(Recorded, _name, _told_by_its_message(_name))
for _name in (
    *(
        "abandon",
        "release",
        "refuse_cancel",
        "stand_for",
        "pause",
        "resume",
        "done",
        "waits",
        "suspect",
    ),
    *("scanned", "weigh_cycle", "give_up_cycle"),
):
    setattr(Recorded, _name, _told_as_it_is(_name))


def _unusual(serial: bool) -> tuple[bool, ...]:
    """The field *serial* of a row, which is left out if it is true."""
    return () if serial else (False,)


def _names(effects: list[Effect], field: str, rref: RRefId | None) -> bool:
    """Whether the message that is sent at once, if any, names the same object as the input."""
    message = getattr(effects[0], "message", None) if effects else None
    return getattr(message, field, None) == rref
