"""Named endpoints, each a real `Context`, and what is in flight between them.

A message stays in flight until a command delivers it, so that a trace can tell every order.
The world is also the *shell* of its endpoints: it carries out effects and decides nothing,
as the actors do. What a shell always does follows by itself: a refused request is answered,
an object that can get no value any more is resolved with an error, a reply ends the
request that it answers, and the news of a death come with the messages that the dead may not
have received. Like the actors' shell it records what its endpoints do, if it is told where: so a
trace can be drawn (`draw`).
"""

from __future__ import annotations

import pickle
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..actors.tables_json import SnapshotError, context_of
from ..actors.tracefile import FileSink
from ..actors.tracing import Tracer
from ..protocol.context import Context
from ..protocol.delivery import Packet
from ..protocol.effects import Effect, Free, Hand, Look, Lose, Refuse, Run, Send, Settle
from ..protocol.errors import FarrefError, ProtocolError
from ..protocol.ids import RRefId, WorkerId
from ..protocol.messages import (
    Cargo,
    Create,
    Delete,
    Descriptor,
    Fetch,
    Invoke,
    Message,
    RefRemoved,
    Request,
)
from .reasons import why_kept, why_queued, why_silent
from .show import effect_text, message_text, name_text, owner_text, table_lines, user_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ..protocol.ids import CallId
    from ..protocol.sharing import Sharing
    from .links import Links


class BadCommandError(Exception):
    """A command that the language does not know, or that makes no sense here."""


@dataclass(slots=True)
class Transit:
    """A message, or a packet of messages, on its way."""

    sender: WorkerId
    to: WorkerId
    what: Message | Packet
    text: str
    number: int | None = None
    """A message's number between the two, from 0; those in packets come in order."""


@dataclass(slots=True)
class Endpoint:
    """One endpoint: its machines, and what its user's code has been handed."""

    context: Context
    tracer: Tracer | None = None
    alive: bool = True
    running: dict[str, Run] = field(default_factory=dict)
    """Requests that were started and not answered, by the id that `reply` names."""
    handled: deque[tuple[Descriptor, ...]] = field(default_factory=deque)
    """The references of each message handed over whose handler has not ended."""
    pickled: tuple[Descriptor, ...] = ()
    """Forks made for a message that is being pickled."""
    blocked: dict[CallId, tuple[CallId, int]] = field(default_factory=dict)
    """Which call the code of a request waits for, and the number of that wait."""
    waits: int = 0
    """Waits so far."""

    @property
    def me(self) -> WorkerId:
        return self.context.me


class World:
    """Every endpoint of a trace and everything between them."""

    def __init__(self, record: Path | None = None) -> None:
        """Endpoints record into the folder *record*, if there is one."""
        self.sharing: Sharing = "fork"
        """How references in calls are shared; the old traces are of forking."""
        self.record = record
        self.endpoints: dict[str, Endpoint] = {}
        self.flight: list[Transit] = []
        self.delivered: list[Transit] = []
        self.lines: list[str] = []
        """What the command that runs now has shown so far."""
        self.links: Links | None = None
        self.recorded = False
        """Nothing follows by itself: each step of the shell is a command, as a recording has it."""
        self._sent: Counter[tuple[WorkerId, WorkerId]] = Counter()

    def close(self) -> None:
        """End the recording, if there is one."""
        for endpoint in self.endpoints.values():
            if endpoint.tracer:
                endpoint.tracer.close()

    def say(self, line: str) -> None:
        self.lines.append(line)

    # ---- endpoints

    def add(self, name: str) -> None:
        if name in self.endpoints:
            raise BadCommandError(f"there is an endpoint {name} already")
        me = self._numbered(name)
        tracer = None
        if self.record:
            tracer = Tracer(me, clock=lambda: 0.0)
            tracer.begin(FileSink(str(self.record), me), self.sharing)
        self.endpoints[name] = Endpoint(Context(me, self.sharing), tracer)

    def _numbered(self, name: str) -> WorkerId:
        return WorkerId(name, len(self.endpoints))

    def give(self, name: str, tables: object) -> None:
        """The endpoint *name* has these *tables* from now on."""
        me = self.worker(name)
        try:
            context = context_of(me, self.sharing, tables, self.worker)
        except SnapshotError as error:
            raise BadCommandError(f"these are no tables: {error}") from error
        self.endpoints[name] = Endpoint(context)

    def worker(self, name: str) -> WorkerId:
        if name not in self.endpoints:
            raise BadCommandError(f"there is no endpoint {name!r}; `endpoints` names them")
        return self.endpoints[name].me

    def living(self, name: str) -> Endpoint:
        self.worker(name)
        endpoint = self.endpoints[name]
        if not endpoint.alive:
            raise BadCommandError(f"{name} is dead and does nothing any more")
        return endpoint

    # ---- one input to one machine

    def act(self, endpoint: Endpoint, action: Callable[[], list[Effect]]) -> list[Effect]:
        """Let the user's code, or the shell, of *endpoint* do something; show what follows."""
        try:
            effects = action()
        except FarrefError as error:
            self.say(f"{endpoint.me} gets {type(error).__name__}: {error}")
            raise Stopped from error
        except AssertionError as error:
            raise BadCommandError(f"no shell may do this: {error}") from error
        self.perform(endpoint, effects)
        return effects

    def act_on(self, endpoint: Endpoint, rref: RRefId, action: Callable[[], list[Effect]]) -> None:
        """The same for an action on one reference; say why, if nothing follows."""
        if not self.act(endpoint, action):
            self.say(why_kept(endpoint.context, rref))

    def receive(
        self, endpoint: Endpoint, sender: WorkerId, message: Message, number: int | None = None
    ) -> None:
        """Give *message*, the *number*-th of *sender*, to the machines of *endpoint*."""
        before = _snapshot(endpoint.context)
        try:
            effects = endpoint.context.receive(sender, message)
        except ProtocolError as error:
            self.say(f"{endpoint.me} raises ProtocolError: {error}")
            if _snapshot(endpoint.context) != before:
                raise AssertionError("the refused message changed something") from error
            return
        if endpoint.tracer:
            endpoint.tracer.received(sender, message, number)
        self.perform(endpoint, effects)
        queued = why_queued(endpoint.context, message)
        if queued is not None:
            self.say(queued)
        elif not effects:
            for line in why_silent(endpoint.context, sender, message):
                self.say(line)

    def perform(self, endpoint: Endpoint, effects: list[Effect]) -> None:
        """Carry out *effects*, as every shell does, and show them."""
        for effect in effects:
            self.say(effect_text(endpoint.me, effect))
            if endpoint.tracer:
                endpoint.tracer.effect(effect)
            match effect:
                case Send(to=to, message=message):
                    if endpoint.tracer:
                        endpoint.tracer.sent(to, message)
                    self._send(endpoint.me, to, message)
                case Free(rref=rref):
                    self._look_for_holders(rref)
                case _ if self.recorded:
                    pass
                case Run(request=request):
                    endpoint.running[run_key(request)] = effect
                case Hand(message=message) | Settle(reply=message):
                    if message.cargo.descriptors:
                        endpoint.handled.append(message.cargo.descriptors)
                case Refuse(request=request):
                    self._refuse(endpoint, request)
                case Look(run=run):
                    self._look(endpoint, run)
                case Lose(rref=rref):
                    self.perform(endpoint, endpoint.context.resolve(rref))
                case _:
                    pass

    def _send(self, sender: WorkerId, to: WorkerId, message: Message) -> None:
        if self.links is not None and sender != to:
            self.links.send(sender, to, message)
        else:
            text = f"{sender} -> {to}  {message_text(message)}"
            self.flight.append(Transit(sender, to, message, text, self._sent[sender, to]))
            self._sent[sender, to] += 1

    def _refuse(self, endpoint: Endpoint, request: Request) -> None:
        if isinstance(request, Create):
            self.perform(endpoint, endpoint.context.resolve(request.rref))
            return
        error = Cargo(payload="the error")
        self.perform(endpoint, endpoint.context.refuse(request.call, error))

    def _look(self, endpoint: Endpoint, run: CallId) -> None:
        call, number = endpoint.blocked.get(run, (None, 0))
        effects = endpoint.context.waits(run, call, number, f"{run} waits for {call}")
        if not effects:
            self.say(f"({endpoint.me}'s {run} waits for nothing that has not been answered)")
        self.perform(endpoint, effects)

    def _look_for_holders(self, rref: RRefId) -> None:
        """Point at every violation of G4, whether a trace expects it or not."""
        for endpoint in self.endpoints.values():
            user = endpoint.context.users.get(rref)
            if not endpoint.alive or user is None or user.lost:
                continue
            if user.handles or user.messages:
                self.say(f"(but {endpoint.me} still holds {rref}!)")

    # ---- what the user's code does

    def forks(
        self, endpoint: Endpoint, to: WorkerId, rrefs: Iterable[RRefId]
    ) -> tuple[Descriptor, ...]:
        """Share *rrefs* for good, as pickling a one-way message for *to* does."""
        return self._share(endpoint, rrefs, lambda rref: endpoint.context.fork(rref, to))

    def loans(
        self, endpoint: Endpoint, to: WorkerId, rrefs: Iterable[RRefId], *, replies: bool = True
    ) -> tuple[Descriptor, ...]:
        """Share *rrefs* for a call on *to*, or (not *replies*) for a creation."""
        context = endpoint.context
        return self._share(endpoint, rrefs, lambda rref: context.lend(rref, to, replies=replies))

    def _results(
        self, endpoint: Endpoint, call: CallId, rrefs: Iterable[RRefId]
    ) -> tuple[Descriptor, ...]:
        """Share *rrefs* with the caller; those that it lent for this call go back."""
        context = endpoint.context
        return self._share(
            endpoint,
            rrefs,
            lambda rref: context.give_back(rref, call) or context.fork(rref, call.caller),
        )

    def _share(
        self,
        endpoint: Endpoint,
        rrefs: Iterable[RRefId],
        share: Callable[[RRefId], Descriptor],
    ) -> tuple[Descriptor, ...]:
        """Share each of *rrefs*; undo all if one can not be."""
        made: list[Descriptor] = []

        def share_all() -> list[Effect]:
            try:
                made.extend(map(share, rrefs))
            except FarrefError:
                self.perform(endpoint, endpoint.context.abandon(made))
                raise
            return []

        self.act(endpoint, share_all)
        return tuple(made)

    def drop(self, endpoint: Endpoint, rrefs: Sequence[RRefId]) -> None:
        """One handle of each of *rrefs* dies, all in one step, as the finalizers' are."""
        objects = [endpoint.context.whereabouts(rref) for rref in rrefs]
        effects = self.act(endpoint, lambda: endpoint.context.drop(*rrefs))
        done = {rref for effect in effects for rref in _ended_by(effect)}
        for rref in objects:
            if rref not in done:
                self.say(why_kept(endpoint.context, rref))

    def reply(self, endpoint: Endpoint, key: str, rrefs: Sequence[RRefId]) -> None:
        """A call's function has returned: reply, which lets the arguments go; let the next in."""
        run = self._ended(endpoint, key)
        request = run.request
        assert not isinstance(request, Create)
        context = endpoint.context
        cargo = Cargo(descriptors=self._results(endpoint, request.call, rrefs))
        effects = self.act(endpoint, lambda: context.reply(request.call, cargo))
        if isinstance(request, Invoke | Fetch):
            effects += self.act(endpoint, lambda: context.done(request.rref))
        if not effects:
            self.say(f"(nothing leaves {endpoint.me}: {request.call.caller} is dead)")

    def resolve(self, endpoint: Endpoint, rref: RRefId) -> None:
        """A creation's function has returned: there is a value."""
        run = self._ended(endpoint, f"creation {rref}")
        request = run.request
        assert isinstance(request, Create)
        context = endpoint.context
        effects = self.act(endpoint, lambda: context.resolve(rref))
        if (target := request.target) is not None:
            effects += self.act(endpoint, lambda: context.done(target))
        if not effects:
            self.say(why_kept(context, rref))

    def alias(self, endpoint: Endpoint, rref: RRefId, target: RRefId) -> None:
        """A creation's function has returned the reference *target*: its own handle goes."""
        run = self._ended(endpoint, f"creation {rref}")
        request = run.request
        assert isinstance(request, Create)
        context = endpoint.context
        self.act(endpoint, lambda: context.stand_for(rref, target))
        self.act(endpoint, lambda: context.drop(target))
        if (on := request.target) is not None:
            self.act(endpoint, lambda: context.done(on))

    def take_up(self, endpoint: Endpoint, rref: RRefId) -> list[Effect]:
        """One more handle called *rref*, maybe of what came under this name."""
        running = (run.request for run in endpoint.running.values())
        brought = [
            *endpoint.handled,
            *(each.cargo.descriptors for each in running if not isinstance(each, Fetch)),
        ]
        for descriptors in brought:
            for each in descriptors:
                if rref == each.name:
                    return endpoint.context.take_up(each)
        endpoint.context.hold(rref)
        return []

    def _ended(self, endpoint: Endpoint, key: str) -> Run:
        if key not in endpoint.running:
            running = ", ".join(endpoint.running) or "nothing"
            raise BadCommandError(f"{endpoint.me} does not run {key}; it runs {running}")
        return endpoint.running.pop(key)

    def release(self, endpoint: Endpoint) -> None:
        """The oldest handler of a message with references ends."""
        if not endpoint.handled:
            raise BadCommandError(f"{endpoint.me} handles no message that holds references")
        descriptors = endpoint.handled.popleft()
        if not self.act(endpoint, lambda: endpoint.context.release(descriptors)):
            for rref in dict.fromkeys(descriptor.rref for descriptor in descriptors):
                self.say(why_kept(endpoint.context, rref))

    # ---- death

    def died(
        self, endpoint: Endpoint, worker: WorkerId, unacknowledged: Sequence[Message] = ()
    ) -> None:
        """*endpoint* is told; *unacknowledged* has arrived, but it has not heard so."""
        context = endpoint.context
        if endpoint.tracer:
            endpoint.tracer.died(worker)
        unknown = [*unacknowledged, *self._on_the_way(endpoint, worker)]
        if not self.act(endpoint, lambda: context.died(worker, unknown)):
            lost = [user_text(context.me, u) for u in context.users.values() if u.owner == worker]
            for line in lost or [f"({context.me} waits for nothing of {worker})"]:
                self.say(line)

    def _on_the_way(self, endpoint: Endpoint, worker: WorkerId) -> list[Message]:
        """What *worker* may not have received of *endpoint*."""
        if self.links is not None:
            return self.links.unacknowledged(endpoint.me, worker)
        return [
            transit.what
            for transit in self.flight
            if (transit.sender, transit.to) == (endpoint.me, worker)
            and not isinstance(transit.what, Packet)
        ]

    def bury(self, endpoint: Endpoint, worker: WorkerId) -> None:
        context = endpoint.context
        if endpoint.tracer:
            endpoint.tracer.buried(worker)
        before = set(table_lines(context))
        if not self.act(endpoint, lambda: context.bury(worker)):
            changed = [line for line in table_lines(context) if line not in before]
            for line in changed or [f"({context.me} has nothing that was {worker}'s)"]:
                self.say(line)

    # ---- looking

    def leftovers(self) -> list[str]:
        """What is not settled: entries, waits, handlers and messages."""
        left = [transit.text for transit in self.flight]
        for endpoint in self.endpoints.values():
            context = endpoint.context
            if endpoint.alive:
                left += [owner_text(context.me, each) for each in context.owners.values()]
                left += [user_text(context.me, each) for each in context.users.values()]
                left += [name_text(context.me, *each) for each in context.state.names.items()]
                left += [
                    f"{context.me} remembers the alias {each}" for each in context.state.aliases
                ]
                left += [f"{context.me} waits for call {call}" for call in context.waiting]
                left += [f"{context.me} runs {key}" for key in endpoint.running]
                left += [f"{context.me} serves request {call}" for call in context.state.serving]
                left += [f"{context.me} handles a message" for _ in endpoint.handled]
        return left + (self.links.leftovers() if self.links is not None else [])


def _snapshot(context: Context) -> bytes:
    """All that *context* knows, to compare; nothing of a big one, which would take too long."""
    big = len(context.owners) + len(context.users) > 100
    return b"" if big else pickle.dumps(context)


class Stopped(Exception):
    """The user's code got an exception, which has been shown; its command ends here."""


def run_key(request: Request) -> str:
    return f"creation {request.rref}" if isinstance(request, Create) else f"call {request.call}"


def _ended_by(effect: Effect) -> tuple[RRefId, ...]:
    """The references that *effect* says are gone from the endpoint."""
    match effect:
        case Send(message=Delete(rref=rref)) | Free(rref=rref):
            return (rref,)
        case Send(message=RefRemoved(removed=removed)):
            return tuple(each.rref for each in removed)
        case _:
            return ()
