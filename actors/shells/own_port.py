"""A program's endpoint on our own base: the thread that waits runs it.

A background thread receives, so the program takes part in the protocol while it is idle. But a
thread that waits for a reply receives the reply itself, and everything that comes before it. So a
call wakes no thread (see `base.leadership`). Any thread sends.
"""

from __future__ import annotations

import concurrent.futures
import time
from functools import partial
from typing import Any

from thespian.actors import ActorAddress, WakeupMessage

from ...printable import logger
from ...protocol.errors import OverloadedError
from ...serialization.failures import details_of
from ..base.envelopes import AwaitedIntent, Received, UserIntent
from ..base.framing import Raw
from ..base.transport import Transport
from ..calls.futures import Future, is_over
from ..hosting import bases
from ..wire.messages import Nudge
from .endpoint import Endpoint
from .ports import Alarm, check_not_receiving
from .receiving import OutsidePort

log = logger(__name__)


class OwnPort(OutsidePort):
    def __init__(self, asys: Any) -> None:
        super().__init__(asys)
        self._transport: Transport = self._base.transport
        self._loop = self._transport.loop
        self.send_raw = self._transport.send_raw
        self.connection_to = self._transport.connection_to
        self._main.transport.stop_listening()  # nobody would accept there
        self._alarm = Alarm(lambda seconds: self._transport.addWakeup(seconds, Nudge()))

    def serve(self, endpoint: Endpoint) -> None:
        endpoint.run_on(self._loop, self._alarm, self._drain, guests=True)

    def stop(self) -> None:
        """Receive no more. Messages sent before are written."""
        with self._loop.lent():
            self._stopping = True
            self._transport.abort_run()
            self._thread.join(5)
            self._base._run_transport(0.2, txonly=True)
            self._context.__exit__(None, None, None)

    def post(self, address: ActorAddress, message: object) -> None:
        """Send. What the kernel does not take at once is written by the thread that runs."""
        if not self._transport.closed:
            undelivered = self._base._undeliverable
            try:
                self._transport.enqueue(None, UserIntent(address, message, undelivered))
            except OSError as error:
                raise OverloadedError(
                    f"cannot send a message to {address}: {error}; raise the limit of descriptors "
                    "(`ulimit -n`), or close some"
                ) from error

    def post_last(self, address: ActorAddress, message: object, patience: float) -> None:
        intent = AwaitedIntent(address, message, self._base._undeliverable)
        connection = None if self._transport.closed else self._transport.enqueue(None, intent)
        if connection is not None:
            self._transport.await_handled(connection, patience)

    def wake(self) -> None:
        self._loop.nudge()

    def wait(self, future: concurrent.futures.Future[Any], timeout: float) -> bool:
        """Receive in the calling thread, unless another waiting thread does."""
        check_not_receiving(self._loop)
        end = time.monotonic() + timeout
        if isinstance(future, Future):
            future.leader = self._loop.leadership
            if self._loop.lead(partial(is_over, future), timeout):
                return True
        if self._loop.is_leader():  # in a signal handler that has interrupted another wait
            with self._loop.lent():
                return super().wait(future, timeout)
        with self._loop.leadership.following():
            return super().wait(future, max(0.0, end - time.monotonic()))

    def holds_back(self, address: ActorAddress) -> bool:
        return self._transport.queued_bytes(address) > 0

    def timers(self) -> int:
        return self._transport.wakeups

    def largest(self) -> int:
        return bases.largest(self._transport)

    # ---- the mailbox thread

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._transport.run(self._handle)
            except Exception as error:
                log.error("the program could not receive, and tries again:\n%s", details_of(error))
                time.sleep(0.05)  # no busy loop if it fails every time

    def _handle(self, envelope: Received) -> bool:
        """Take one message. Returns whether to receive another one."""
        try:
            self._take(envelope.message, envelope.sender)
        except Exception as error:
            log.error("the program could not handle a message, and goes on:\n%s", details_of(error))
        return not self._stopping

    def _drain(self) -> None:
        endpoint = self.endpoint
        if endpoint is None:
            return
        try:
            endpoint.drain()
            self._alarm.set(endpoint.pause)
        except Exception as error:
            log.error(
                "the program could not do the work that its threads left, and goes on:\n%s",
                details_of(error),
            )

    def _take(self, message: Any, sender: ActorAddress) -> None:
        endpoint = self.endpoint
        if endpoint is None:
            self.begin(message, lambda: self._take(message, sender))
            return
        match message:
            case Raw():
                endpoint.take_packet(message.data, sender)
            case WakeupMessage(payload=Nudge()):
                self._alarm.rang()
                endpoint.tick()
            case _:
                self.dispatch(message)
        self._alarm.set(endpoint.pause)
