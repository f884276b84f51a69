"""The messages of the user's between a program and actors: `System.tell`, `ask` and `listen`."""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
from operator import index
from typing import TYPE_CHECKING, Any

from thespian.actors import ActorAddress, ActorSystemMessage, PoisonMessage

from ...protocol.errors import FetchTimeoutError, NotAnEndpointError
from ..calls.futures import Future
from ..core import port
from ..core.current import running_in
from ..shells.ordinary import refuse_references
from ..shells.program import CallInPort
from ..wire.messages import ReplyAddress, WorkerInfo
from ..wire.settings import check_timeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta

    from ...protocol.messages import Cargo
    from ..core.core import Core
    from ..shells.endpoint import Endpoint
    from .stay import Stay

LOOK = 1.0
"""Seconds between two looks at the end of the system, while `messages` waits."""


class ProgramMail:
    """The messages of one program in one system. `System` documents its methods."""

    def __init__(self, stay: Stay) -> None:
        self._stay = stay
        self._port = stay.port

    @property
    def _endpoint(self) -> Endpoint:
        self._stay.check_up()
        return self._stay.endpoint

    def hand(self, cargo: Cargo, address: ActorAddress) -> None:
        """Take a message to this program, from *address*."""
        tag = getattr(cargo.payload, "tag", None)
        sender = ReplyAddress(address, tag[1]) if isinstance(tag, tuple) else address
        self._port.inbox.put(_Unopened(self._stay.endpoint, cargo, sender))

    def tell(self, to: str | WorkerInfo | ActorAddress, message: Any) -> None:
        """Send *message*."""
        endpoint = self._endpoint
        info = self._find_or_plain(to)
        if isinstance(message, ActorSystemMessage) and not isinstance(message, PoisonMessage):
            self._port.post(info.address if isinstance(info, WorkerInfo) else info, message)
        elif isinstance(info, WorkerInfo):
            endpoint.calls.tell(info, message)
        else:
            refuse_references(message, info)
            self._port.post(info, message)

    def ask(
        self,
        to: str | WorkerInfo | ActorAddress,
        message: Any,
        timeout: float | timedelta | None,
        answers: int | None = None,
    ) -> Any:
        """Send *message* and return the answer, or a list of so many *answers*."""
        endpoint = self._endpoint
        core, calls = endpoint.core, endpoint.calls
        core.check_may_block("the answer", "`await system.ask_async(...)`")
        seconds = check_timeout(timeout, core.settings.timeout)
        info = self._asked(to, answers)
        if not isinstance(info, WorkerInfo):
            return self._ask_plain(info, message, seconds)
        futures = calls.ask(info, message, seconds, answers or 1)
        try:
            got = [each.result() for each in futures]
            return got[0] if answers is None else got
        finally:
            calls.drop(futures[-1])
            del futures  # an error's traceback holds this frame

    def ask_async(
        self,
        to: str | WorkerInfo | ActorAddress,
        message: Any,
        timeout: float | timedelta | None,
        answers: int | None = None,
    ) -> Future[Any]:
        """Send *message* and return a future for that which `ask` returns."""
        endpoint = self._endpoint
        core = endpoint.core
        seconds = check_timeout(timeout, core.settings.timeout)
        info = self._asked(to, answers)
        if isinstance(info, WorkerInfo):
            futures = endpoint.calls.ask(info, message, seconds, answers or 1)
            last = futures[-1]  # it is done last
            return last if answers is None else last.then(lambda _: [f.result() for f in futures])
        refuse_references(message, info)
        with running_in(core):
            answer: Future[Any] = Future()

        def wait() -> None:
            try:
                answer.set_result(self._ask_plain(info, message, seconds))
            except BaseException as error:
                with contextlib.suppress(concurrent.futures.InvalidStateError):  # cancelled
                    answer.set_exception(error)

        core.pool.submit(wait)
        return answer

    def _ask_plain(self, address: ActorAddress, message: Any, seconds: float) -> Any:
        refuse_references(message, address)
        if isinstance(self._port, CallInPort):
            self._port.post(address, message)
            return self.listen(seconds)
        # A context of its own for each question: a late answer reaches no other.
        with self._stay.asys.private() as context:
            answer = context.ask(address, message, seconds)
        if answer is None:
            raise FetchTimeoutError(
                f"the plain actor at {address} did not answer in {seconds:g} s; ask again with a "
                "longer timeout, or see whether its handler answers this message"
            )
        return answer

    def listen(self, timeout: float | timedelta | None) -> Any:
        """The next message to this program, answers excepted."""
        core = self._endpoint.core
        core.check_may_block("listen", "`async for message in system.messages()`")
        seconds = check_timeout(timeout, core.settings.timeout)
        try:
            if isinstance(self._port, CallInPort):
                message = self._port.receive(seconds)
            else:
                message = self._port.inbox.get(timeout=seconds)
        except queue.Empty as error:
            raise FetchTimeoutError(
                f"no message came to {core.me} within {seconds:g} s; listen again, "
                "or with a longer timeout"
            ) from error
        return self._opened(message, core)

    async def messages(self) -> AsyncIterator[Any]:
        """The messages to this program, as they come."""
        import asyncio  # noqa: PLC0415 - the running loop has loaded it

        core = self._endpoint.core
        loop, came, inbox = asyncio.get_running_loop(), asyncio.Event(), self._port.inbox

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended
                loop.call_soon_threadsafe(came.set)

        inbox.wakers.add(wake)
        try:
            while not self._stay.down:
                came.clear()
                try:
                    message = inbox.get_nowait()
                except queue.Empty:
                    core.check_open()
                    if self._port.call_in():  # in-process actors run only while somebody calls in
                        await asyncio.sleep(0.002)
                        continue
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK):
                            await came.wait()
                else:
                    yield self._opened(message, core)
        finally:
            inbox.wakers.discard(wake)

    def _opened(self, message: Any, core: Core) -> Any:
        if self._port.inbox.qsize() == port.MAX_INBOX // 2:
            core.wake()  # senders that wait may send again
        return message() if isinstance(message, _Unopened) else message

    def _asked(
        self, to: str | WorkerInfo | ActorAddress, answers: int | None
    ) -> WorkerInfo | ActorAddress:
        """The actor that is asked for so many *answers*."""
        if answers is not None and index(answers) < 1:
            raise ValueError(f"answers must be a number of at least 1, not {answers!r}")
        info = self._find_or_plain(to)
        if answers is not None and not isinstance(info, WorkerInfo):
            raise NotAnEndpointError(
                f"the actor at {info} is a plain Thespian actor, of which `ask` has one answer; "
                "`tell` it the message, and `listen` for each answer"
            )
        return info

    def _find_or_plain(self, to: str | WorkerInfo | ActorAddress) -> WorkerInfo | ActorAddress:
        registrar_client = self._endpoint.registrar_client
        if isinstance(to, ActorAddress):
            return registrar_client.at(to) or to
        return registrar_client.find(to)


class _Unopened:
    """A message to the program, unpickled by the thread that listens."""

    def __init__(self, endpoint: Endpoint, cargo: Cargo, sender: ActorAddress) -> None:
        self._endpoint = endpoint
        self._cargo = cargo
        self._hold = endpoint.core.discards.hold(self, None, cargo.descriptors)
        self.sender = sender

    def __call__(self) -> Any:
        try:
            with running_in(self._endpoint.core):
                return self._endpoint.packer.open(self._cargo)
        finally:
            self._endpoint.core.discards.settle(self._hold)

    def __del__(self) -> None:
        self._endpoint.core.discards.gone(self._hold)
