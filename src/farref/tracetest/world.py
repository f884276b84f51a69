"""Named endpoints, each a real `Context`, and the messages in flight between them.

A message stays in flight until a command delivers it, so a trace can tell every order. The
endpoints are shells (see `farref.world`) that show all their actions. A shell's automatic steps
need no command: it answers a refused request, it resolves an object that can get no value any more
with an error, a reply ends the request that it answers, and the news of a death brings the messages
that the dead may not have received. Like the actors' shell, it can record the steps of its
endpoints, so that a trace can be drawn (`draw`).
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ..actors.recording.tables_json import SnapshotError, context_of
from ..actors.recording.tracefile import FileSink
from ..actors.recording.tracing import Tracer
from ..protocol.context import Context
from ..protocol.delivery import Packet
from ..protocol.effects import Effect, Free, Look, Send, Settle
from ..protocol.errors import FarrefError, ProtocolError
from ..protocol.ids import CallId, RRefId, WorkerId
from ..protocol.messages import (
    Create,
    Delete,
    Descriptor,
    Fetch,
    Message,
    RefRemoved,
    Request,
    Tell,
    target_of,
)
from ..protocol.sharing import Sharing
from ..world.net import Net, Transit
from ..world.shell import Shell
from .errors import BadCommandError, Stopped
from .links import WorldLinks
from .reasons import why_kept, why_queued, why_silent
from .show import effect_text, message_text, name_text, owner_text, table_lines, user_text

T = TypeVar("T")


class WorldEndpoint(Shell):
    """One endpoint: its machines, and the references handed to its user's code."""

    def __init__(self, world: World, machines: Context, tracer: Tracer | None = None) -> None:
        super().__init__(machines, tracer)
        self.world = world
        self.machines = machines
        self.alive = True
        self.running: dict[str, Request] = {}
        """Started and unanswered requests, by the id that `reply` names."""
        self.handled: deque[tuple[Descriptor, ...]] = deque()
        """The references of each delivered message whose handler has not ended."""
        self.pickled: tuple[Descriptor, ...] = ()
        """Forks made for a message that is being pickled."""
        self.blocked: dict[CallId, tuple[CallId, int]] = {}
        """The call that each request's code waits for, and the number of that wait."""
        self.waits = 0
        """The number of waits so far."""

    # ---- one input to its machines

    def attempt(self, action: Callable[[], T]) -> T:
        """Let the user's code, or the shell, act; show the error that it gets, if any."""
        try:
            return action()
        except FarrefError as error:
            self.world.say(f"{self.me} gets {type(error).__name__}: {error}")
            raise Stopped from error
        except AssertionError as error:
            raise BadCommandError(f"no shell may do this: {error}") from error

    def act(self, action: Callable[[], list[Effect]]) -> bool:
        """The same for one input to the machines. Returns whether an effect follows."""
        before = len(self.world.lines)
        self.attempt(lambda: self.obey(action()))
        return len(self.world.lines) > before

    def act_on(self, rref: RRefId, action: Callable[[], list[Effect]]) -> None:
        """The same for an action on one reference; say why, if no effect follows."""
        if not self.act(action):
            self.world.say(why_kept(self.context, rref))

    def receive(self, sender: WorkerId, message: Message, number: int | None = None) -> None:
        """Give *message* to the machines; a refused message must change nothing."""
        before, said = _snapshot(self.machines), len(self.world.lines)
        try:
            super().receive(sender, message, number)
        except ProtocolError as error:
            self.world.say(f"{self.me} raises ProtocolError: {error}")
            if _snapshot(self.machines) != before:
                raise AssertionError("the refused message changed something") from error
            return
        queued = why_queued(self.context, message)
        if queued is not None:
            self.world.say(queued)
        elif len(self.world.lines) == said:
            for line in why_silent(self.context, sender, message):
                self.world.say(line)

    # ---- effects

    def note(self, effect: Effect) -> None:
        """Show and record *effect*."""
        self.world.say(effect_text(self.me, effect))
        super().note(effect)

    def carry_out(self, effect: Effect) -> None:
        """Carry out *effect*; in a recording the shell's own steps are commands instead."""
        if self.world.recorded and not isinstance(effect, Send | Free):
            return
        said = len(self.world.lines)
        super().carry_out(effect)
        if isinstance(effect, Look) and len(self.world.lines) == said:
            run = effect.run
            self.world.say(f"({self.me}'s {run} waits for nothing that has not been answered)")

    def post(self, to: WorkerId, message: Message) -> None:
        """Send *message*; a command delivers it."""
        self.world.send(self.me, to, message)

    def start(self, sender: WorkerId, message: Request | Tell) -> None:  # noqa: ARG002 - `note` has shown it
        """Note the request; a command ends it."""
        if not isinstance(message, Tell):
            self.running[run_key(message)] = message
        elif message.cargo.descriptors:
            self.handled.append(message.cargo.descriptors)

    def settle(self, effect: Settle) -> None:
        """Note the references in the reply; `release` lets them go."""
        if descriptors := effect.reply.cargo.descriptors:
            self.handled.append(descriptors)

    def free(self, rref: RRefId) -> None:
        """Free *rref*, and show every endpoint that still holds it (against G4)."""
        for endpoint in self.world.endpoints.values():
            user = endpoint.context.users.get(rref)
            if endpoint.alive and user and not user.lost and (user.handles or user.messages):
                self.world.say(f"(but {endpoint.me} still holds {rref}!)")
        super().free(rref)

    def awaited(self, run: CallId) -> tuple[CallId | None, int, str]:
        """The wait that the command `blocked` set."""
        call, number = self.blocked.get(run, (None, 0))
        return call, number, f"{run} waits for {call}"

    # ---- actions of the user's code

    def drop_each(self, rrefs: Sequence[RRefId]) -> None:
        """One handle of each of *rrefs* dies, all in one step, as when finalizers run."""
        objects = [self.context.whereabouts(rref) for rref in rrefs]
        effects: list[Effect] = []

        def drop() -> list[Effect]:
            effects.extend(self.context.drop(*rrefs))
            return effects

        self.act(drop)
        done = {rref for effect in effects for rref in _ended_by(effect)}
        for rref in objects:
            if rref not in done:
                self.world.say(why_kept(self.context, rref))

    def end(self, key: str, brings: Sequence[RRefId] = ()) -> None:
        """The code that runs under *key* returns *brings* and releases its arguments."""
        request = self._ended(key)
        said = len(self.world.lines)
        self.attempt(lambda: self.finish(request, brings=tuple(brings)))
        if len(self.world.lines) > said:
            return
        if isinstance(request, Create):
            self.world.say(why_kept(self.context, request.rref))
        else:
            self.world.say(f"(nothing leaves {self.me}: {request.call.caller} is dead)")

    def alias(self, rref: RRefId, target: RRefId) -> None:
        """A creation's function has returned the reference *target*: its own handle goes."""
        request = self._ended(f"creation {rref}")
        self.attempt(lambda: self.finish(request, (target,), (target,), bare=True))

    def take_up(self, rref: RRefId) -> list[Effect]:
        """Make one more handle called *rref*.

        If a message that is handled here brought a reference of this name, the handle is of that
        reference: the name may be an alias, and the reference of its canonical object.
        """
        brought = [
            *self.handled,
            *(it.cargo.descriptors for it in self.running.values() if not isinstance(it, Fetch)),
        ]
        for descriptors in brought:
            for each in descriptors:
                if rref == each.name:
                    return self.context.take_up(each)
        self.context.hold(rref)
        return []

    def _ended(self, key: str) -> Request:
        if key not in self.running:
            running = ", ".join(self.running) or "nothing"
            raise BadCommandError(f"{self.me} does not run {key}; it runs {running}")
        return self.running.pop(key)

    def object_of(self, call: CallId) -> RRefId:
        """The object on which the method call *call* has begun."""
        request = self.running.get(f"call {call}")
        rref = target_of(request) if request is not None else None
        if rref is None or not self.context.owners[rref].has_begun(call):
            raise BadCommandError(f"{self.me} runs no {call} on an object")
        return rref

    def release(self) -> None:
        """The oldest handler of a message with references ends."""
        if not self.handled:
            raise BadCommandError(f"{self.me} handles no message that holds references")
        descriptors = self.handled.popleft()
        if not self.act(lambda: self.context.release(descriptors)):
            for rref in dict.fromkeys(descriptor.rref for descriptor in descriptors):
                self.world.say(why_kept(self.context, rref))

    # ---- death

    def told_of_death(self, worker: WorkerId, arrived: Sequence[Message] = ()) -> None:
        """*worker* died; *arrived* arrived there, but this endpoint had no acknowledgement yet."""
        context = self.context
        unknown = [*arrived, *self.world.on_the_way(self.me, worker)]
        if not self.act(lambda: context.died(worker, unknown)):
            lost = [user_text(self.me, u) for u in context.users.values() if u.owner == worker]
            for line in lost or [f"({self.me} waits for nothing of {worker})"]:
                self.world.say(line)

    def bury(self, worker: WorkerId) -> None:
        """The orphan grace after the death of *worker* ends."""
        before = set(table_lines(self.context))
        if not self.act(lambda: self.context.bury(worker)):
            changed = [line for line in table_lines(self.context) if line not in before]
            for line in changed or [f"({self.me} has nothing that was {worker}'s)"]:
                self.world.say(line)


class World(Net[WorldEndpoint]):
    """Every endpoint of a trace, and everything between them."""

    def __init__(self, record: Path | None = None) -> None:
        """Endpoints record into the folder *record*, if there is one."""
        super().__init__()
        self.sharing: Sharing = "fork"
        """The discipline of references in calls; the old traces use forking."""
        self.record = record
        self.delivered: list[Transit] = []
        self.lines: list[str] = []
        """The output of the current command so far."""
        self.recorded = False
        """No step follows by itself: each step of the shell is a command, as in a recording."""
        self._links: WorldLinks | None = None

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
        me = WorkerId(name, len(self.endpoints))
        tracer = None
        if self.record:
            tracer = Tracer(me, clock=lambda: 0.0)
            tracer.begin(FileSink(str(self.record), me), self.sharing)
        self.endpoints[name] = WorldEndpoint(self, Context(me, self.sharing), tracer)

    def give(self, name: str, tables: object) -> None:
        """The endpoint *name* has these *tables* from now on."""
        me = self.worker(name)
        try:
            context = context_of(me, self.sharing, tables, self.worker)
        except SnapshotError as error:
            raise BadCommandError(f"these are not tables: {error}") from error
        self.endpoints[name] = WorldEndpoint(self, context)

    def worker(self, name: str) -> WorkerId:
        if name not in self.endpoints:
            raise BadCommandError(f"there is no endpoint {name!r}; `endpoints` names them")
        return self.endpoints[name].me

    def living(self, name: str) -> WorldEndpoint:
        self.worker(name)
        endpoint = self.endpoints[name]
        if not endpoint.alive:
            raise BadCommandError(f"{name} is dead and does nothing any more")
        return endpoint

    # ---- the net

    @property
    def links(self) -> WorldLinks:
        """The channels; they exist only after the command ``channels``."""
        if self._links is None:
            raise BadCommandError("there are no channels here; `channels` makes them")
        return self._links

    def connect(self) -> None:
        """From now on messages travel in packets of channels."""
        self._links = WorldLinks(self.flight, self.say, lambda name: self.endpoints[name].alive)

    def send(self, sender: WorkerId, to: WorkerId, message: Message) -> None:
        """Put *message* in the channel, if there are channels; else in flight."""
        if self._links is not None and sender != to:
            self._links.send(sender, to, message)
            return
        super().send(sender, to, message)
        self.flight[-1].text = f"{sender} -> {to}  {message_text(message)}"

    def arrive(self, transit: Transit) -> None:
        """Give *transit* to its receiver, if that is alive."""
        self.delivered.append(transit)
        endpoint = self.endpoints[transit.to.name]
        if not endpoint.alive:
            self.say(f"({transit.to} is dead: nobody gets it)")
        elif isinstance(transit.what, Packet):
            self.links.receive(endpoint, transit.sender, transit.what)
        else:
            super().arrive(transit)

    def on_the_way(self, sender: WorkerId, to: WorkerId) -> list[Message]:
        """The messages from *sender* that *to* may not have received."""
        if self._links is not None:
            return self._links.unacknowledged(sender, to)
        return [
            transit.what
            for transit in self.flight
            if (transit.sender, transit.to) == (sender, to) and not isinstance(transit.what, Packet)
        ]

    # ---- inspection

    def leftovers(self) -> list[str]:
        """Everything unsettled: entries, waits, handlers and messages."""
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
        return left + (self._links.leftovers() if self._links is not None else [])


def _snapshot(context: Context) -> bytes:
    """The state of *context*, for comparison; empty for a big one, which would take too long."""
    big = len(context.owners) + len(context.users) > 100
    return b"" if big else pickle.dumps(context)


def run_key(request: Request) -> str:
    return f"creation {request.rref}" if isinstance(request, Create) else f"call {request.call}"


def _ended_by(effect: Effect) -> tuple[RRefId, ...]:
    """The references that *effect* removes from the endpoint."""
    match effect:
        case Send(message=Delete(rref=rref)) | Free(rref=rref):
            return (rref,)
        case Send(message=RefRemoved(removed=removed)):
            return tuple(each.rref for each in removed)
        case _:
            return ()
