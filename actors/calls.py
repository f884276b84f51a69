"""The calls that the user's code makes: pack, make the protocol's move, return a future.

Everything here runs in a thread of the user's, never in the mailbox thread. A call that the
protocol refuses (its callee just died) undoes the forks of the message it would have sent.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..protocol.errors import OverloadedError, WorkerDiedError
from ..protocol.messages import Cargo
from ..protocol.requests import ElsewhereError
from ..serialization.payload import Origin, Payload
from . import sites
from .base.interrupts import undisturbed
from .futures import Future
from .rref import RRef
from .settings import check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.effects import Effect
    from ..protocol.ids import CallId, RRefId, WorkerId
    from ..protocol.messages import Flow
    from ..serialization.frozen import Frozen
    from .endpoint import Endpoint
    from .packing import Pack, Share
    from .resolving import Invocation
    from .wire import WorkerInfo

    Chain = tuple[RRefId, ...]

MAX_BACKLOG = 10_000
"""Messages that one peer has not acknowledged; a user's thread that sends more waits (G6)."""


MAX_UNSENT = 100_000
"""The same for what handlers send, which may not wait: a further message is refused."""
MAX_BACKLOG_BYTES = 64 << 20
"""Bytes that one peer has not taken, of one flow (`protocol.room`); a thread that sends more waits.

Results of functions, too: the thread that has run one waits until the caller has taken others."""
MAX_UNSENT_BYTES = 1 << 30
"""The same for what handlers send."""
MAX_UNFETCHED_BYTES = 4 << 30
"""Bytes of results that wait in futures of one endpoint; a thread that calls for more waits."""
NESTED_PATIENCE = 1.0
"""Seconds after which a function's own call goes ahead: what takes the room may wait for it."""


class Calls:
    """Makes the calls of one endpoint, and completes their futures."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._waiting: dict[CallId, Future[Any]] = {}
        self._asks: dict[int, tuple[WorkerId, weakref.ref[Future[Any]]]] = {}
        """Weakly: an interrupt may take a question's future from who was about to wait for it."""
        self._ask_numbers = itertools.count(1)
        self._unfetched = endpoint.delivery.intakes["results"]
        self._pressing: dict[int, tuple[WorkerId, Flow]] = {}
        """By thread: where its next message goes ahead, though there is no room for it."""

    # ---- made by the user

    def remote(self, to: WorkerInfo, what: Invocation, target: RRefId | None = None) -> RRef[Any]:
        """Have *to* own the result of *what*; returns its reference at once."""
        endpoint = self._endpoint
        pack = self._pack_request(to, what)
        site = sites.here() if endpoint.sites.wanted else None
        made: list[RRefId] = []

        def move(cargo: Cargo) -> list[Effect]:
            if site is not None and isinstance(cargo.payload, Payload):
                origin = (cargo.payload.origin or Origin())._replace(site=site)
                payload = replace(cargo.payload, origin=origin)
                cargo = Cargo(payload=payload, descriptors=cargo.descriptors)
            rref, effects = endpoint.context.create(to.id, cargo, target)
            made.append(rref)
            if site is not None:
                endpoint.note_site(rref, cargo)
            return effects

        with undisturbed:
            self._send(pack, self._lend(to, replies=False), move)
            endpoint.check_open()  # it may have closed since the message was packed
            return RRef._of(endpoint, made[0])

    def remote_method(self, rref: RRef[Any], what: Invocation) -> RRef[Any]:
        """Run a method of the object; its owner owns the result too."""
        self._endpoint.check_open()
        while True:
            try:
                return self.remote(self._endpoint.owner(rref.id), what, rref.id)
            except ElsewhereError:
                continue  # it turned out to be an alias just now

    def call(
        self, to: WorkerInfo, what: Invocation, timeout: float | None, chain: Chain
    ) -> Future[Any]:
        """Run *what* on *to*."""
        if self._unfetched.bytes >= MAX_UNFETCHED_BYTES:
            self._await_fetching()
        future = self._future(f"the reply of {to} to {_label(what)}()", timeout)
        endpoint, pack = self._endpoint, self._pack_request(to, what)
        return self._request(
            future, pack, to, lambda cargo: endpoint.context.call(to.id, cargo, chain)
        )

    def invoke(
        self, rref: RRef[Any], what: Invocation, timeout: float | None, chain: Chain
    ) -> Future[Any]:
        """Run a method of the object."""
        if self._unfetched.bytes >= MAX_UNFETCHED_BYTES:
            self._await_fetching()
        label = f"the reply of {what[0]}() of {rref.id}"
        future = self._future(label, timeout, rref.id)
        while True:
            to = self._endpoint.owner(rref.id)
            move = partial(self._invoke, rref.id, chain, to.id)
            try:
                return self._request(future, self._pack_request(to, what), to, move)
            except ElsewhereError:
                continue  # it turned out to be an alias just now

    def _invoke(
        self, rref: RRefId, chain: Chain, to: WorkerId, cargo: Cargo
    ) -> tuple[CallId, list[Effect]]:
        return self._endpoint.context.invoke(rref, cargo, chain, to)

    def fetch(
        self,
        rref: RRefId,
        timeout: float | None,
        chain: Chain,
        *,
        copy: bool = True,
        direct: bool = False,
        follow: bool = True,
    ) -> Future[Any]:
        """Ask for a copy of the value, or with *copy* false whether there is one.

        *direct* and *follow*: see `Context.fetch`. Without *direct* the value of an alias comes by
        way of the alias's owner, in turn with all that was asked of it before and after.
        """
        if copy and self._unfetched.bytes >= MAX_UNFETCHED_BYTES:
            self._await_fetching()
        future = self._future(f"the value of {rref}", timeout, rref)
        endpoint = self._endpoint
        self._endpoint.step(
            lambda: self._mine(
                future,
                *endpoint.context.fetch(rref, chain, copy=copy, direct=direct, follow=follow),
            )
        )
        endpoint.check_open()  # closed meanwhile: nobody would complete the future
        return future

    def known(self, rref: RRefId, timeout: float | None, frozen: Frozen) -> Any:
        """What was fetched once and never changes. Raises what a fetch from the dead does."""
        self._patience(timeout)
        self._endpoint.owner(rref)
        return frozen.thaw()

    def known_already(self, rref: RRefId, timeout: float | None, frozen: Frozen) -> Future[Any]:
        """The same as a future, which is done."""
        future = self._future(f"the value of {rref}", timeout, rref)
        future.known(self.known(rref, timeout, frozen))
        return future

    def tell(self, to: WorkerInfo, message: object, tag: tuple[str, int] | None = None) -> None:
        """Send a one-way message."""
        name = type(message).__name__  # for traces: the receiver's too, before it unpickles
        self._admit(to, "results" if tag is not None and tag[0] == "answer" else "mail")
        endpoint = self._endpoint
        self._send(
            endpoint.packer.pack(message, to.id, (*tag, name) if tag else name),
            lambda rref: endpoint.context.fork(rref, to.id),
            lambda cargo: endpoint.context.tell(to.id, cargo),
        )

    def ask(self, to: WorkerInfo, message: object, timeout: float) -> Future[Any]:
        """Send a message; a future for what is sent back to the address it came from."""
        number = next(self._ask_numbers)
        future = self._future(f"the answer of {to}", timeout)
        asks = self._asks
        noted = weakref.ref(future, lambda _: asks.pop(number, None))
        with self._endpoint.lock:
            asks[number] = to.id, noted
        try:
            self.tell(to, message, tag=("ask", number))
        except BaseException:
            self.ask_answered(number)  # if nobody has failed it already
            raise
        return future

    def forget(self, ask: Future[Any]) -> None:
        """Nobody waits for this answer any more: if it comes, it is dropped."""
        for number, (_, noted) in self._asks.copy().items():
            if noted() is ask:
                self._asks.pop(number, None)

    def cancel(self, call: CallId) -> None:
        """Take back a call that has not started."""
        self._endpoint.step(lambda: self._endpoint.context.cancel(call))

    @property
    def in_flight(self) -> int:
        """Calls, fetches and questions that are not answered."""
        return len(self._waiting) + len(self._asks)

    # ---- completed by the endpoint

    def answered(self, call: CallId) -> Future[Any] | None:
        """The future of a call that is over, one way or the other."""
        return self._waiting.pop(call, None)

    def ask_answered(self, number: int) -> Future[Any] | None:
        """The future of an ask, if anybody waits for it still."""
        with self._endpoint.lock:  # or `end` might fail it too
            _, noted = self._asks.pop(number, (None, None))
        return noted() if noted is not None else None

    def asked(self, dead: WorkerId) -> list[Future[Any]]:
        """The asks of an actor that died: it will not answer any more."""
        with self._endpoint.lock:
            mine = [number for number, (worker, _) in self._asks.copy().items() if worker == dead]
            futures = [self.ask_answered(number) for number in mine]
        return [future for future in futures if future is not None]

    def end(self) -> list[Future[Any]]:
        """The endpoint closes: the futures that nobody will complete any more. Under its lock."""
        asked = [noted() for _, noted in self._asks.copy().values()]
        left = [*self._waiting.values(), *(future for future in asked if future is not None)]
        self._waiting.clear()
        self._asks.clear()
        return left

    # ---- inside

    def _future(self, what: str, timeout: float | None, rref: RRefId | None = None) -> Future[Any]:
        return Future(self._endpoint, what, self._patience(timeout), rref)

    def _patience(self, timeout: float | None) -> float:
        """The seconds that a wait may take. Raises `ValueError`, or why the endpoint has ended."""
        seconds = check_timeout(timeout, self._endpoint.settings.timeout)
        self._endpoint.check_open()  # first: what has died with the system is no news
        return seconds

    def _pack_request(self, to: WorkerInfo, what: Invocation) -> Pack:
        """Pickle a request."""
        self._admit(to, "requests")
        return self._endpoint.packer.pack(what, to.id, _label(what))

    def _lend(self, to: WorkerInfo, *, replies: bool = True) -> Share:
        """The references in a request are lent."""
        endpoint = self._endpoint
        return lambda rref: endpoint.context.lend(rref, to.id, replies=replies)

    def _request(
        self,
        future: Future[Any],
        pack: Pack,
        to: WorkerInfo,
        move: Callable[[Cargo], tuple[CallId, list[Effect]]],
    ) -> Future[Any]:
        self._send(pack, self._lend(to), lambda cargo: self._mine(future, *move(cargo)))
        self._endpoint.check_open()  # closed meanwhile: nobody would complete the future
        return future

    def _mine(self, future: Future[Any], call: CallId, effects: list[Effect]) -> list[Effect]:
        """*future* is that of *call*."""
        future.call = call
        self._waiting[call] = future
        return effects

    def _send(self, pack: Pack, share: Share, move: Callable[[Cargo], list[Effect]]) -> None:
        """Share the references in the message, and make the *move* that sends it, or undo both."""
        pressing = None
        if self._pressing:
            pressing = self._pressing.pop(threading.get_ident(), None)
        with undisturbed:
            cargo = pack.cargo(share)
            try:
                self._endpoint.step(lambda: move(cargo))
                if pressing:
                    self._endpoint.delivery.press(*pressing)
            except BaseException:
                self._endpoint.step(lambda: self._endpoint.context.abandon(cargo.descriptors))
                raise

    def _admit(self, to: WorkerInfo, flow: Flow) -> None:
        """Refuse the dead, learn the address, and wait while the peer is far behind."""
        endpoint, delivery = self._endpoint, self._endpoint.delivery
        endpoint.check_open()
        with endpoint.lock:
            if to.id in endpoint.context.dead:
                how = endpoint.context.entries.how(to.id)
                raise WorkerDiedError(f"worker {to} died{how}; choose another one")
            endpoint.book.learn(to.id, to.address)
        handler = endpoint.in_loop()
        messages, size = delivery.load(to.id, flow)
        if messages < (MAX_UNSENT if handler else MAX_BACKLOG) and size < (
            MAX_UNSENT_BYTES if handler else MAX_BACKLOG_BYTES
        ):
            return
        if handler:  # it may not block
            raise OverloadedError(
                f"{to} has not taken {messages} messages of handlers of {endpoint.me}, and "
                f"{size} bytes of {flow}; make the handler `async`, and `await` something now "
                "and then while it sends, or send less"
            )
        if not self.wait_for_room(to.id, flow):
            messages, size = delivery.load(to.id, flow)
            raise OverloadedError(
                f"{to} has not taken {messages} messages, and {size} bytes of {flow}, for "
                f"{endpoint.settings.timeout:g} s; it is stopped, cut off, or slower than you: "
                "wait, or end it"
            )

    def _await_fetching(self) -> None:
        """Wait while results of too many bytes lie in futures, and nobody asks for them."""
        endpoint = self._endpoint

        def ready() -> bool:
            return not self._unfetched.over(MAX_UNFETCHED_BYTES)

        if not endpoint.in_loop() and not self._wait(ready, endpoint.settings.timeout):
            raise OverloadedError(
                f"{self._unfetched.bytes} bytes of results lie in futures of {endpoint.me}, and "
                f"nobody has asked for them for {endpoint.settings.timeout:g} s; ask for them, or "
                "drop the futures, before you call again"
            )

    def wait_for_room(self, to: WorkerId, flow: Flow) -> bool:
        """Wait until *to* may be sent more; false if it may not when the system's timeout is over.

        Blocks. A function's own call goes ahead sooner. Those who have taken the room may wait for
        that function.
        """
        endpoint, seconds = self._endpoint, self._endpoint.settings.timeout
        nested = flow != "results" and endpoint.pool.inside
        patience = time.monotonic() + NESTED_PATIENCE

        def ready() -> bool:
            messages, size = endpoint.delivery.load(to, flow)
            if to in endpoint.context.dead:
                return True
            if messages >= MAX_BACKLOG or size < MAX_BACKLOG_BYTES:
                return messages < MAX_BACKLOG
            if not nested or size >= MAX_UNSENT_BYTES or time.monotonic() < patience:
                return False
            self._pressing[threading.get_ident()] = to, flow
            return True

        # A thread that has a result to send keeps its place: or more would be made, and wait.
        return self._wait(ready, seconds, lend=flow != "results")

    def _wait(self, ready: Callable[[], bool], seconds: float, *, lend: bool = True) -> bool:
        """Wait until *ready*, or closed, for *seconds* at most; whether it is. Blocks."""
        endpoint, room = self._endpoint, self._endpoint.delivery.room
        end = time.monotonic() + seconds

        def over() -> bool:
            with endpoint.lock:
                return ready() or endpoint.closed

        while not over() and time.monotonic() < end and endpoint.port.call_in():
            time.sleep(0)  # in-process actors run only while the program calls in
        with endpoint.pool.waiting() if lend else contextlib.nullcontext(), room:
            while not over():
                left = end - time.monotonic()
                if left <= 0:
                    return False
                room.wait(min(left, 0.1))  # a finalizer that makes room notifies nobody
        return True


def _label(what: Invocation) -> str:
    return str(getattr(what[0], "__name__", what[0]))
