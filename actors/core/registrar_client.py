"""The client side of the registrar: what an endpoint asks the registrar, and tells it.

Questions are numbered, and their answers may come in any order, because a stock Thespian transport
reorders messages when both sides send.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import time
from collections.abc import Collection, Hashable, Iterator
from typing import Any

from thespian.actors import ActorAddress

from ...protocol.errors import (
    CreationError,
    FarrefError,
    FetchTimeoutError,
    NameTakenError,
    NotAnEndpointError,
    SystemDownError,
    WorkerDiedError,
    WorkerNotFoundError,
)
from ...protocol.ids import WorkerId
from ...serialization.library import whole
from ..hosting import processes
from ..wire.messages import (
    AllocatedId,
    AllocateId,
    EndpointLeave,
    Exited,
    Found,
    Heard,
    Heartbeat,
    HostInfo,
    Inspected,
    Lookup,
    Meddled,
    ReplyAddress,
    Settled,
    Spawn,
    Spawned,
    StillMaking,
    Typed,
    WorkerInfo,
    beat_frame,
)
from .core import Core

PATIENCE = 20.0
"""Seconds that the registrar may take to answer; it does no work of the user's."""
BELIEVED = 1.0
"""Seconds for which an actor counts as plain. One that a plain actor created is an endpoint only
from its first message on."""
CREATION_PATIENCE = 60.0
"""Seconds that an actor may take from its creation until it has joined."""


class RegistrarClient:
    """Asks the registrar, and remembers the answers that may be kept."""

    def __init__(self, core: Core, registrar: ActorAddress) -> None:
        self.registrar = registrar
        self.answered = False
        """Whether the registrar must answer beats, as this endpoint cannot watch its process."""
        self.unheard = 0
        """Beats since the last message of the registrar."""
        self._core = core
        self._port = core.port
        answers = (Found, Spawned, AllocatedId, Heard, Meddled, Inspected, StillMaking, Typed)
        core.takers |= dict.fromkeys(answers, self.receive)
        core.on_deaths.append(self._died)
        self._tokens = itertools.count(1)
        self._asked: dict[int, tuple[concurrent.futures.Future[Any], WorkerId | None]] = {}
        """Questions without answer, each with the endpoint that was asked; None: the registrar."""
        self._plain: dict[Hashable, float] = {}
        """Addresses of actors that were no endpoints yet, and the time until which that is
        assumed."""

    # ---- questions; they block the calling thread, never the mailbox thread

    def find(self, to: str | WorkerInfo | ActorAddress) -> WorkerInfo:
        """The endpoint that *to* means: a worker's name, its info, or its address.

        Raises:
            WorkerNotFoundError: no worker of that name.
            WorkerDiedError: it has died.
            NotAnEndpointError: the address is of a plain Thespian actor.
            TypeError: *to* is something else.
        """
        if isinstance(to, str):
            known = self._core.peers.named.get(to)
            return known if known is not None else self._named(to)
        if isinstance(to, WorkerInfo):
            return to
        if not isinstance(to, ActorAddress):
            raise TypeError(f"`to` must be a worker's name, WorkerInfo or ActorAddress, not {to!r}")
        found = self.at(to)
        if found is None:
            raise NotAnEndpointError(
                f"the actor at {to} is a plain Thespian actor, which cannot hold references or "
                "run calls; send it a message without references, or make it a RefActor"
            )
        return found

    def at(self, address: ActorAddress) -> WorkerInfo | None:
        """The endpoint at *address*, or None if that is a plain Thespian actor."""
        known = self._core.peers.worker_at(address)
        if known is not None:
            return WorkerInfo(known, self._core.peers.addresses.get(known) or address)
        key = _key(address)
        if key is not None and time.monotonic() < self._plain.get(key, 0.0):
            return None
        found = self.ask(Lookup, PATIENCE, address=_bare(address))
        if found.dead:
            raise WorkerDiedError(f"the worker at {address} died; choose another one")
        if found.workers:
            info: WorkerInfo = found.workers[0]
            with self._core.lock:
                self._core.learn(info)
            return info
        if key is not None:
            now = time.monotonic()
            self._plain = {each: until for each, until in self._plain.items() if until > now}
            self._plain[key] = now + BELIEVED
        return None

    def near(self, worker: WorkerId) -> bool:
        """Whether *worker* sees this process, and so can open its shared memory. Asks once."""
        if worker == self._core.me or not self._port.runs_by_itself:
            return True  # the in-process base has one process
        near = self._core.peers.near.get(worker)
        if near is None:
            try:
                found = self.ask(Lookup, PATIENCE, name=worker.name)
            except FetchTimeoutError:
                return False
            there = any(info.id == worker for info in found.workers)
            near = there and found.host == processes.host()
            with self._core.lock:  # if it dies just now, no code would forget it
                if worker not in self._core.context.dead:
                    self._core.peers.near[worker] = near
        return near

    def surely_near(self, worker: WorkerId) -> bool:
        """Whether `near` is already known to be true. Does not block."""
        return not self._port.runs_by_itself or bool(self._core.peers.near.get(worker))

    def workers(self, *, only: bool = False) -> list[WorkerInfo]:
        """Every living endpoint of the system, programs included, sorted by name.

        With *only*: only the workers, not programs nor other actors.
        """
        found = self.ask(Lookup, PATIENCE, workers=only).workers
        return sorted(found, key=lambda info: info.name)

    def hosts(self) -> list[HostInfo]:
        return list(self.ask(Lookup, PATIENCE, hosts=True).hosts)

    def spawn(self, actor_class: type, **what: Any) -> WorkerInfo:
        """Have the registrar create an actor; returns once it has joined.

        Raises `NameTakenError`, `CreationError`, and the errors of pickling the class.
        """
        pickled = whole(actor_class, self._core.me)
        spawned = self.ask(Spawn, CREATION_PATIENCE, actor_class=pickled, **what)
        if spawned.info is None:
            kind = NameTakenError if spawned.taken else CreationError
            raise kind(f"worker {what['name']!r} could not be created: {spawned.reason}")
        return self._known(spawned.info)

    def allocate(self, name: str) -> WorkerId:
        """The id for an actor of this *name*, which this endpoint is about to create."""
        me: WorkerId = self.ask(AllocateId, CREATION_PATIENCE, name=name).me
        return me

    def exited(self, address: ActorAddress, cause: str) -> None:
        """Tell the registrar that a child of this actor exited; *cause* is the reason, if known."""
        child = self._core.peers.worker_at(address)
        self._port.post(self.registrar, Exited(address, child, cause))

    def leave(self, worker: WorkerId | None = None) -> None:
        """Tell that this endpoint has ended, or that *worker*, its child, will never exist."""
        self._port.post(self.registrar, EndpointLeave(worker or self._core.me))

    def leave_at_last(self, patience: float) -> None:
        """Tell that this program has left, before its process ends.

        Wait *patience* seconds until the registrar has taken that. Or it might see first that the
        process has ended, and report a death.
        """
        self._port.post_last(self.registrar, EndpointLeave(self._core.me), patience)

    def settled(self, dead: tuple[WorkerId, ...]) -> None:
        self._port.post(self.registrar, Settled(self._core.me, dead))

    def beat(self) -> None:
        self.unheard += self.answered
        beat, send_raw = Heartbeat(self._core.me, self.answered), self._port.send_raw
        if send_raw is None or not send_raw(self.registrar, beat_frame(beat)):
            self._port.post(self.registrar, beat)

    def _named(self, name: str) -> WorkerInfo:
        found = self.ask(Lookup, PATIENCE, name=name)
        if not found.workers:
            error = WorkerDiedError if found.dead else WorkerNotFoundError
            there = ", ".join(info.name for info in self.workers()) or "none"
            raise error(
                f"worker {name!r} {'is gone' if found.dead else 'does not exist'}; "
                f"in this system there are: {there}"
            )
        return self._known(found.workers[0])

    def _known(self, info: WorkerInfo) -> WorkerInfo:
        """Remember *info* while its endpoint lives, and return it."""
        with self._core.lock:
            if info.id not in self._core.context.dead:
                self._core.peers.named[info.name] = info
        return info

    def ask(self, kind: Any, patience: float, to: WorkerInfo | None = None, **what: Any) -> Any:
        """The answer of *to*, the registrar by default, to a question of this *kind*."""
        patience = min(patience, self._core.settings.timeout)  # no wait is longer (G6)
        self._core.check_no_step()
        with self.posed(kind, to, **what) as answer:
            if not self._port.wait(answer, patience):
                who = f"the endpoint {to}" if to else "the registrar"
                raise FetchTimeoutError(
                    f"{who} of system {self._core.settings.system!r} did not answer "
                    f"within {patience:g} s; the system is overloaded or has ended"
                )
            return answer.result(0)

    @contextlib.contextmanager
    def posed(
        self, kind: Any, to: WorkerInfo | None, **what: Any
    ) -> Iterator[concurrent.futures.Future[Any]]:
        """The answer to a question that is sent to *to*, the registrar by default.

        If *to* dies first, the answer is a `WorkerDiedError`.
        """
        token = next(self._tokens)
        answer: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._asked[token] = answer, to.id if to else None
        try:
            # The question is noted before these checks. So `end` and `receive` see it, or we see
            # their effect.
            self._core.check_open()
            if to is not None and to.id in self._core.context.dead:
                _fail(answer, WorkerDiedError(f"{to} died before it answered"))
            self._port.post(to.address if to else self.registrar, kind(token=token, **what))
            yield answer
        finally:
            self._asked.pop(token, None)

    # ---- messages of the registrar, in the mailbox thread

    def receive(
        self,
        message: Found | Spawned | AllocatedId | Heard | Meddled | Inspected | StillMaking | Typed,
    ) -> None:
        """Take a message of the registrar, or another endpoint's answer."""
        self.unheard = 0
        if isinstance(message, Heard):
            return
        asked = self._asked.get(message.token)
        if asked is not None:
            with contextlib.suppress(concurrent.futures.InvalidStateError):  # we end meanwhile
                asked[0].set_result(message)

    def _died(self, workers: Collection[WorkerId]) -> None:
        for question, of in list(self._asked.values()):
            if of in workers:
                _fail(question, WorkerDiedError(f"{of} died before it answered"))

    def end(self, reason: str) -> None:
        """Fail all questions, as the endpoint closes. In any thread."""
        for answer, _ in list(self._asked.values()):
            _fail(answer, SystemDownError(reason))


def _fail(answer: concurrent.futures.Future[Any], error: FarrefError) -> None:
    with contextlib.suppress(concurrent.futures.InvalidStateError):  # it has come
        answer.set_exception(error)


def _bare(address: ActorAddress) -> ActorAddress:
    return ActorAddress(address.addressDetails) if isinstance(address, ReplyAddress) else address


def _key(address: ActorAddress) -> Hashable | None:
    try:
        hash(address.addressDetails)
    except TypeError:
        return None
    details: Hashable = address.addressDetails
    return details
