"""The calls that the user's code makes: pack, make the protocol's move, return a future.

Everything here runs in a thread of the user's, never in the mailbox thread. A call that the
protocol refuses (its callee just died) undoes the forks of the message it would have sent.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..protocol.errors import FarrefError, OverloadedError, WorkerDiedError
from ..protocol.messages import Cargo
from ..protocol.requests import ElsewhereError
from ..serialization.payload import Origin, Payload
from . import sites
from .futures import Future
from .rref import RRef
from .settings import check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.effects import Effect
    from ..protocol.ids import CallId, RRefId, WorkerId
    from ..protocol.messages import Descriptor
    from ..serialization.frozen import Frozen
    from .endpoint import Endpoint
    from .resolving import Invocation
    from .wire import WorkerInfo

    Chain = tuple[RRefId, ...]

MAX_BACKLOG = 10_000
"""Messages that one peer has not acknowledged; a user's thread that sends more waits (G6)."""


MAX_UNSENT = 100_000
"""The same for what handlers send, which may not wait: a further message is refused."""


class Calls:
    """Makes the calls of one endpoint, and completes their futures."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._waiting: dict[CallId, Future[Any]] = {}
        self._asks: dict[int, tuple[WorkerId, Future[Any]]] = {}
        self._ask_numbers = itertools.count(1)

    # ---- made by the user

    def remote(self, to: WorkerInfo, what: Invocation, target: RRefId | None = None) -> RRef[Any]:
        """Have *to* own the result of *what*; returns its reference at once."""
        endpoint = self._endpoint
        cargo = self._pack_request(to, what, replies=False)
        if endpoint.sites.wanted and isinstance(cargo.payload, Payload):
            origin = (cargo.payload.origin or Origin())._replace(site=sites.here())
            payload = replace(cargo.payload, origin=origin)
            cargo = Cargo(payload=payload, descriptors=cargo.descriptors)
        made: list[RRefId] = []

        def move() -> list[Effect]:
            rref, effects = endpoint.context.create(to.id, cargo, target)
            made.append(rref)
            if endpoint.sites.wanted:
                endpoint.note_site(rref, cargo)
            return effects

        self._step(cargo, move)
        self._endpoint.check_open()  # it may have closed since the message was packed
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
        future = self._future(f"the reply of {to} to {_label(what)}()", timeout)
        cargo = self._pack_request(to, what)
        endpoint = self._endpoint
        return self._request(future, cargo, lambda: endpoint.context.call(to.id, cargo, chain))

    def invoke(
        self, rref: RRef[Any], what: Invocation, timeout: float | None, chain: Chain
    ) -> Future[Any]:
        """Run a method of the object."""
        label = f"the reply of {what[0]}() of {rref.id}"
        future = self._future(label, timeout, rref.id)
        while True:
            to = self._endpoint.owner(rref.id)
            cargo = self._pack_request(to, what)
            try:
                return self._request(future, cargo, self._invocation(rref.id, cargo, chain, to))
            except ElsewhereError:
                continue  # it turned out to be an alias just now

    def _invocation(
        self, rref: RRefId, cargo: Cargo, chain: Chain, to: WorkerInfo
    ) -> Callable[[], tuple[CallId, list[Effect]]]:
        return lambda: self._endpoint.context.invoke(rref, cargo, chain, to.id)

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

        *direct* and *follow*: see `Requests.fetch`. Without *direct* the value of an alias comes by
        way of the alias's owner, in turn with all that was asked of it before and after.
        """
        future = self._future(f"the value of {rref}", timeout, rref)
        endpoint = self._endpoint
        return self._request(
            future,
            None,
            lambda: endpoint.context.fetch(rref, chain, copy=copy, direct=direct, follow=follow),
        )

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
        self._admit(to)
        cargo = self._endpoint.packer.pack(
            message,
            lambda rref: self._endpoint.context.fork(rref, to.id),
            to.id,
            (*tag, name) if tag else name,
        )
        self._step(cargo, lambda: self._endpoint.context.tell(to.id, cargo))

    def ask(self, to: WorkerInfo, message: object, timeout: float) -> Future[Any]:
        """Send a message; a future for what is sent back to the address it came from."""
        number = next(self._ask_numbers)
        future = self._future(f"the answer of {to}", timeout)
        with self._endpoint.lock:
            self._asks[number] = to.id, future
        try:
            self.tell(to, message, tag=("ask", number))
        except BaseException:
            self.ask_answered(number)  # if nobody has failed it already
            raise
        return future

    def forget(self, ask: Future[Any]) -> None:
        """Nobody waits for this answer any more: if it comes, it is dropped."""
        with self._endpoint.lock:
            for number, (_, future) in list(self._asks.items()):
                if future is ask:
                    del self._asks[number]

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
            return self._asks.pop(number, (None, None))[1]

    def asked(self, dead: WorkerId) -> list[Future[Any]]:
        """The asks of an actor that died: it will not answer any more."""
        with self._endpoint.lock:
            mine = [number for number, (worker, _) in self._asks.items() if worker == dead]
            futures = [self.ask_answered(number) for number in mine]
        return [future for future in futures if future is not None]

    def end(self) -> list[Future[Any]]:
        """The endpoint closes: the futures that nobody will complete any more. Under its lock."""
        left = [*self._waiting.values(), *(future for _, future in self._asks.values())]
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

    def _pack_request(self, to: WorkerInfo, what: Invocation, *, replies: bool = True) -> Cargo:
        """Pickle a request; the references in it are lent."""
        self._admit(to)
        endpoint = self._endpoint

        def lend(rref: RRefId) -> Descriptor:
            return endpoint.context.lend(rref, to.id, replies=replies)

        return endpoint.packer.pack(what, lend, to.id, _label(what))

    def _request(
        self,
        future: Future[Any],
        cargo: Cargo | None,
        move: Callable[[], tuple[CallId, list[Effect]]],
    ) -> Future[Any]:
        def step() -> list[Effect]:
            call, effects = move()
            future.call = call
            self._waiting[call] = future
            return effects

        self._step(cargo, step)
        self._endpoint.check_open()  # closed meanwhile: nobody would complete the future
        return future

    def _step(self, cargo: Cargo | None, move: Callable[[], list[Effect]]) -> None:
        """Make *move*; if it is refused, undo the forks of the message that it would send."""
        try:
            self._endpoint.step(move)
        except FarrefError:
            if cargo is not None:
                self._endpoint.step(lambda: self._endpoint.context.abandon(cargo.descriptors))
            raise

    def _admit(self, to: WorkerInfo) -> None:
        """Refuse the dead, learn the address, and wait while the peer is far behind."""
        endpoint, delivery = self._endpoint, self._endpoint.delivery
        endpoint.check_open()
        with endpoint.lock:
            if to.id in endpoint.context.dead:
                how = endpoint.context.how(to.id)
                raise WorkerDiedError(f"worker {to} died{how}; choose another one")
            endpoint.book.learn(to.id, to.address)
        handler = endpoint.in_loop()
        most = MAX_UNSENT if handler else MAX_BACKLOG
        if to.id == endpoint.me or delivery.backlog(to.id) < most:
            return
        if handler:  # it may not block
            raise OverloadedError(
                f"{to} has not acknowledged {delivery.backlog(to.id)} messages of handlers of "
                f"{endpoint.me}; make the handler `async`, and `await` something now and then "
                "while it sends, or send fewer and larger messages"
            )

        def ready() -> bool:
            behind = delivery.backlog(to.id) >= MAX_BACKLOG
            return not behind or to.id in endpoint.context.dead or endpoint.closed

        end = time.monotonic() + endpoint.settings.timeout
        while not ready() and time.monotonic() < end and endpoint.port.call_in():
            time.sleep(0)  # in-process actors run only while the program calls in
        with delivery.room:
            if not delivery.room.wait_for(ready, max(0.0, end - time.monotonic())):
                raise OverloadedError(
                    f"{to} has not acknowledged {delivery.backlog(to.id)} messages for "
                    f"{endpoint.settings.timeout:g} s; it is stopped or cut off: wait, or end it"
                )


def _label(what: Invocation) -> str:
    return str(getattr(what[0], "__name__", what[0]))
