"""An endpoint in memory: the shipped machines, and a shell that carries out their effects.

The actors are the other shell. This one has no thread, process, socket or clock. A subclass decides
how a message leaves (`post`), and how the program handles a request (`start`) and a reply
(`settle`): at once, later, or one step at a time.

At the end of a handler everything happens in the order of the actors. First its handles go. Then
its answer leaves, and the references in its request go. Then the object takes the next request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import assert_never

from ..actors.recording.recorded import Recorded
from ..actors.recording.tracing import Tracer
from ..protocol.context import Context
from ..protocol.effects import (
    Collect,
    Confirmed,
    Effect,
    Fail,
    Free,
    Hand,
    Look,
    Looked,
    Lose,
    Refuse,
    Resume,
    Run,
    Scan,
    Send,
    Settle,
    Stop,
    Unstopped,
    Weigh,
)
from ..protocol.holders import HolderReport
from ..protocol.ids import CallId, RRefId, WorkerId
from ..protocol.messages import (
    Cargo,
    Create,
    Descriptor,
    Message,
    Reply,
    Request,
    Tell,
    UserMessage,
    target_of,
)


class Shell(ABC):
    """The endpoint of *context*; *tracer*, if there is one, records its steps."""

    def __init__(self, context: Context, tracer: Tracer | None = None) -> None:
        self.me = context.me
        self.context = context if tracer is None else Recorded(context, tracer)
        self.tracer = tracer
        self.inside: dict[RRefId, tuple[RRefId, ...]] = {}
        """The handles in the value of each object that lives here."""

    # ---- the parts for subclasses

    @abstractmethod
    def post(self, to: WorkerId, message: Message) -> None:
        """Send *message* to *to*, which may be this endpoint."""

    @abstractmethod
    def start(self, sender: WorkerId, message: Request | Tell) -> None:
        """Handle *message* of *sender*, now or later."""

    @abstractmethod
    def settle(self, effect: Settle) -> None:
        """Take the reply to a call."""

    def awaited(self, run: CallId) -> tuple[CallId | None, int, str]:
        """The call that the request *run* waits for, the number of the wait, and its text."""
        raise NotImplementedError(f"this shell cannot tell what {run} waits for")

    def refuse(self, effect: Refuse) -> None:
        """Do not handle the request: answer its caller with an error."""
        self.reject(effect.request, "the error")

    def lose(self, effect: Lose) -> None:
        """Give the object an error in place of a value."""
        self.obey(self.context.resolve(effect.rref))

    def seen_in_values(self) -> dict[RRefId, Counter[RRefId]]:
        """The same as `held_by_values`, maybe not quite right: for the first of two looks."""
        return self.held_by_values()

    def held_by_values(self) -> dict[RRefId, Counter[RRefId]]:
        """The holders of each object: objects here. Their values have so many handles of it."""
        held: defaultdict[RRefId, Counter[RRefId]] = defaultdict(Counter)
        for holder, inside in self.inside.items():
            for each in inside:
                held[self.context.whereabouts(each)][holder] += 1
        return held

    def report(self, scan: Scan) -> HolderReport:
        """Begin the answer to *scan*, and see now which values hold which objects."""
        found = self.held_by_values() if scan.exact else self.seen_in_values()
        report = self.context.holder_reports.begin(scan.rrefs, exact=scan.exact)
        reports, everything = (
            self.context.holder_reports,
            (*self.context.owners, *self.context.users),
        )
        reports.count(report, reports.entries_of(everything))
        report.see(found)
        return report

    def answer(self, asker: WorkerId, look: int, report: HolderReport) -> None:
        """Answer look *look* of *asker*."""
        self.obey(self.context.scanned(asker, look, self.context.holder_reports.finish(report)))

    def weigh(self, start: RRefId) -> None:
        """Let the search from *start* go on."""
        self.obey(self.context.weigh_cycle(start))

    def collect(self, rref: RRefId) -> None:
        """Drop the value of *rref*, which is garbage in a ring, with the handles in it."""
        self.drop(self.inside.pop(rref, ()))

    def looked(self, effect: Looked) -> None:  # noqa: B027 - not all programs search
        """Take the end of a search for garbage in cycles."""

    def free(self, rref: RRefId) -> None:
        """Drop the value of *rref*, with the handles in it."""
        self.drop(self.inside.pop(rref, ()))

    def fail(self, effect: Fail) -> None:  # noqa: B027 - not all programs wait
        """Take the news that no reply to a call will come."""

    def resume(self, effect: Resume) -> None:  # noqa: B027 - not all programs pause
        """Let a request that has paused go on."""

    def stop(self, effect: Stop) -> None:  # noqa: B027 - not all programs cancel
        """Take the cancellation of a call, which may have begun."""

    def unstopped(self, effect: Unstopped) -> None:  # noqa: B027 - not all programs cancel
        """Take the news that a cancelled call goes on."""

    # ---- effects and messages

    def obey(self, effects: list[Effect]) -> None:
        """Carry out *effects*, in their order."""
        for effect in effects:
            self.note(effect)
            self.carry_out(effect)

    def note(self, effect: Effect) -> None:
        """Record *effect*, before it is carried out."""
        if self.tracer:
            self.tracer.effect(effect)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(to=to, message=message):
                if self.tracer:
                    self.tracer.sent(to, message)
                self.post(to, message)
            case Run(sender=sender, request=message) | Hand(sender=sender, message=message):
                self.start(sender, message)
            case Resume():
                self.resume(effect)
            case Settle():
                self.settle(effect)
            case Refuse():
                self.refuse(effect)
            case Lose():
                self.lose(effect)
            case Free(rref=rref):
                self.free(rref)
            case Look(run=run):
                self.obey(self.context.waits(run, *self.awaited(run)))
            case Scan(asker=asker, look=look):
                self.answer(asker, look, self.report(effect))
            case Weigh(start=start):
                self.weigh(start)
            case Collect(rref=rref):
                self.collect(rref)
            case Looked():
                self.looked(effect)
            case Fail():
                self.fail(effect)
            case Stop():
                self.stop(effect)
            case Unstopped():
                self.unstopped(effect)
            case Confirmed():
                pass
            case _:
                assert_never(effect)

    def receive(self, sender: WorkerId, message: Message, number: int | None = None) -> None:
        """Give *message*, the *number*-th of *sender*, to the machines."""
        effects = self.context.receive(sender, message)
        self.taken(sender, message, number)
        self.obey(effects)

    def taken(self, sender: WorkerId, message: Message, number: int | None) -> None:
        """Record that *message* has been received, before its effects are carried out."""
        if self.tracer:
            self.tracer.received(sender, message, number)

    # ---- references in messages

    def fork(self, to: WorkerId, rrefs: Iterable[RRefId], payload: object = None) -> Cargo:
        """Share *rrefs* with *to* for good, as pickling a one-way message does."""
        return Cargo(payload=payload, descriptors=self.context.fork_all(tuple(rrefs), to))

    def lend(
        self, to: WorkerId, rrefs: Iterable[RRefId], payload: object = None, *, replies: bool = True
    ) -> Cargo:
        """Share *rrefs* for a call on *to*; with *replies* false, for a creation there."""
        lent = self.context.lend_all(tuple(rrefs), to, replies=replies)
        return Cargo(payload=payload, descriptors=lent)

    def give(self, call: CallId, rrefs: Iterable[RRefId]) -> tuple[Descriptor, ...]:
        """Share *rrefs* with the caller of *call*: give its loans back, and fork the others."""
        return self.context.give_all(tuple(rrefs), call)

    def unpickle(self, cargo: Cargo) -> tuple[RRefId, ...]:
        """Make a handle for each reference in *cargo*. Returns the names of the handles."""
        for each in cargo.descriptors:
            self.obey(self.context.take_up(each))
        return tuple(each.name or each.rref for each in cargo.descriptors)

    def drop(self, rrefs: Collection[RRefId]) -> None:
        """Drop one handle of each of *rrefs*."""
        if rrefs:
            self.obey(self.context.drop(*rrefs))

    # ---- the end of a handler

    def finish(
        self,
        message: UserMessage,
        handles: Collection[RRefId] = (),
        brings: tuple[RRefId, ...] = (),
        payload: object = None,
        *,
        bare: bool = False,
    ) -> None:
        """End the handler of *message*: it had *handles*, and returns *payload* with *brings*.

        With *bare* it makes an object whose value is the one reference in *brings*.
        """
        context = self.context
        match message:
            case Tell() | Reply():
                self.drop(handles)
                self.obey(context.release(message.cargo.descriptors))
                return
            case Create(rref=rref) if bare:
                self.obey(context.stand_for(rref, *brings))
                self.drop(handles)
            case Create(rref=rref):
                for each in brings:
                    context.hold(each)
                self.inside[rref] = brings
                self.drop(handles)
                self.obey(context.resolve(rref))
            case _:
                cargo = Cargo(payload=payload, descriptors=self.give(message.call, brings))
                self.drop(handles)
                self.obey(context.reply(message.call, cargo))
        target = target_of(message)
        if target is not None:
            self.obey(context.done(target, message.call))

    def reject(self, request: Request, error: object) -> None:
        """Answer *request*, for which nothing has been done, with *error*."""
        if isinstance(request, Create):
            self.inside[request.rref] = ()
            self.obey(self.context.resolve(request.rref))
        else:
            self.obey(self.context.refuse(request.call, Cargo(payload=error)))
