"""The machines of an endpoint, each input of which is told to a tracer.

Where nothing is recorded the shell calls the `Context` itself. Where something is, it calls one of
these: another view of the same tables, which tells the tracer what it is asked to do and has the
context do it. What the context asks of itself is no input, and is not told.

Most inputs of the user's come to one message: then the line of that message says so (`by`), if all
that the input was can be read from it, and there is none of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.context import Context
from ..protocol.effects import Send
from ..protocol.messages import Create, Fetch, Invoke
from . import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..protocol.effects import Effect
    from ..protocol.ids import CallId, RRefId, WorkerId
    from ..protocol.messages import Cargo, Descriptor, Message
    from .tracing import Tracer


class Recorded(Context):
    """*plain*, with *tracer* told of each input. See `Context` for what each does."""

    __slots__ = ("_tracer", "plain")

    def __init__(self, plain: Context, tracer: Tracer) -> None:
        self.__dict__ = plain.__dict__  # the same tables: whichever is called changes both
        self.plain = plain
        self._tracer = tracer

    def _did(self, kind: Callable[..., steps.Input], *arguments: object) -> None:
        tracer = self._tracer
        tracer.did(kind(tracer.clock(), tracer.me, *arguments))

    def _told(
        self, effects: list[Effect], kind: Callable[..., steps.Input], *arguments: object
    ) -> None:
        """An input that comes to *effects*, and if that is one message, to no more than it."""
        tracer = self._tracer
        step = kind(tracer.clock(), tracer.me, *arguments)
        if len(effects) == 1:
            (effect,) = effects
            if isinstance(effect, Send) and _says_all(effect.message, step):
                tracer.did_say(step, effect.message)
                return
        tracer.did(step)

    # ---- what the user's code does

    def own(self) -> RRefId:
        rref = self.plain.own()
        self._did(steps.Own, rref)
        return rref

    def hold(self, rref: RRefId) -> None:
        self._did(steps.Hold, rref)
        self.plain.hold(rref)

    def take_up(self, descriptor: Descriptor) -> list[Effect]:
        self._did(steps.TakeUp, (descriptor,))
        return self.plain.take_up(descriptor)

    def drop(self, *rrefs: RRefId) -> list[Effect]:
        self._did(steps.Drop, rrefs)
        return self.plain.drop(*rrefs)

    def fork(self, rref: RRefId, to: WorkerId) -> Descriptor:
        made = self.plain.fork(rref, to)
        self._did(steps.Fork, rref, to)
        return made

    def lend(self, rref: RRefId, to: WorkerId, *, replies: bool = True) -> Descriptor:
        made = self.plain.lend(rref, to, replies=replies)
        self._did(steps.Lend, rref, to, replies)
        return made

    def abandon(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        carries = tuple(descriptors)
        self._did(steps.Abandon, carries)
        return self.plain.abandon(carries)

    def release(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        carries = tuple(descriptors)
        self._did(steps.Release, carries)
        return self.plain.release(carries)

    # ---- what it asks for

    def create(
        self, to: WorkerId, cargo: Cargo, target: RRefId | None = None
    ) -> tuple[RRefId, list[Effect]]:
        rref, effects = self.plain.create(to, cargo, target)
        self._told(effects, steps.Create, to, cargo.descriptors, target)
        return rref, effects

    def call(
        self, to: WorkerId, cargo: Cargo, chain: tuple[RRefId, ...] = ()
    ) -> tuple[CallId, list[Effect]]:
        call, effects = self.plain.call(to, cargo, chain)
        self._told(effects, steps.Call, to, cargo.descriptors, chain)
        return call, effects

    def invoke(
        self, rref: RRefId, cargo: Cargo, chain: tuple[RRefId, ...] = (), to: WorkerId | None = None
    ) -> tuple[CallId, list[Effect]]:
        call, effects = self.plain.invoke(rref, cargo, chain, to)
        self._told(effects, steps.Invoke, rref, cargo.descriptors, chain, to)
        return call, effects

    def fetch(
        self,
        rref: RRefId,
        chain: tuple[RRefId, ...] = (),
        *,
        copy: bool = True,
        direct: bool = False,
        follow: bool = True,
    ) -> tuple[CallId, list[Effect]]:
        call, effects = self.plain.fetch(rref, chain, copy=copy, direct=direct, follow=follow)
        self._told(effects, steps.Fetch, rref, chain, copy, direct, follow)
        return call, effects

    def cancel(self, call: CallId) -> list[Effect]:
        self._did(steps.Cancel, call)
        return self.plain.cancel(call)

    def tell(self, to: WorkerId, cargo: Cargo) -> list[Effect]:
        effects = self.plain.tell(to, cargo)
        self._told(effects, steps.Tell, to, cargo.descriptors)
        return effects

    # ---- what it answers

    def reply(self, call: CallId, cargo: Cargo) -> list[Effect]:
        effects = self.plain.reply(call, cargo)
        self._told(effects, steps.Reply, call, cargo.descriptors)
        return effects

    def refuse(self, call: CallId, cargo: Cargo) -> list[Effect]:
        effects = self.plain.refuse(call, cargo)
        self._told(effects, steps.Refuse, call, cargo.descriptors)
        return effects

    def resolve(self, rref: RRefId) -> list[Effect]:
        self._did(steps.Resolve, rref)
        return self.plain.resolve(rref)

    def stand_for(self, rref: RRefId, target: RRefId) -> list[Effect]:
        self._did(steps.StandFor, rref, target)
        return self.plain.stand_for(rref, target)

    def done(self, rref: RRefId) -> list[Effect]:
        self._did(steps.Done, rref)
        return self.plain.done(rref)

    # ---- messages and deaths

    def take(self, sender: WorkerId, message: Message) -> list[Effect]:
        return self.plain.take(sender, message)  # the shell tells of it, with its number

    def died(self, worker: WorkerId, unacknowledged: Iterable[Message] = ()) -> list[Effect]:
        lost = tuple(unacknowledged)
        self._tracer.died(worker, lost)
        return self.plain.died(worker, lost)

    def bury(self, worker: WorkerId) -> list[Effect]:
        self._tracer.buried(worker)
        return self.plain.bury(worker)


def _says_all(message: Message, step: steps.Input) -> bool:
    """Whether *message* names the object as the input does, and leaves nothing of it out."""
    match step:
        case steps.Fetch(rref=rref, direct=direct, follow=follow):
            return isinstance(message, Fetch) and message.rref == rref and (not direct or follow)
        case steps.Invoke(rref=rref):
            return isinstance(message, Invoke) and message.rref == rref
        case steps.Create(target=target):
            return isinstance(message, Create) and message.target == target
        case _:
            return True
