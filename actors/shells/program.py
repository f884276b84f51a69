"""The outside program as an endpoint: it owns, uses and receives like any actor.

For our own base see `own_port`. On another multi-process base only a background thread, the
*pump*, touches the program's Thespian context: it receives, and sends the messages that other
threads leave it. So the program takes part in the protocol while it is idle. The in-process base
has no background: actors run only during the program's calls, so each wait of the program pumps
the system itself.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from thespian.actors import ActorAddress, WatchMessage
from thespian.system.transport import ReceiveEnvelope

from ...printable import logger
from ...protocol.delivery import ACK_DELAY
from ...serialization.failures import details_of
from ..base.bell import Bell
from ..hosting import bases, simple
from ..wire.messages import Envelope
from .own_port import OwnPort
from .receiving import OutsidePort, Receiver

log = logger(__name__)

IDLE = 1.0
"""The longest sleep of the pump, in seconds."""


class PumpPort(OutsidePort):
    """The port of a program on one of Thespian's multi-process bases."""

    def __init__(self, asys: Any) -> None:
        super().__init__(asys)
        self._bell = Bell()
        self._left: deque[tuple[ActorAddress, object]] = deque()

    def stop(self) -> None:
        """Send the remaining messages, then receive no more."""
        self._stopping = True
        self._bell.ring()
        self._thread.join(5)
        self._context.__exit__(None, None, None)

    def post(self, address: ActorAddress, message: object) -> None:
        if not isinstance(message, Envelope):
            bases.check_plain(self._base.transport, address)
        self._left.append((address, message))
        self._bell.ring()

    def wake(self) -> None:
        self._bell.ring()

    def largest(self) -> int:
        return bases.largest(self._base.transport)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping:
            try:
                self._base.transport.set_watch([self._bell.descriptor])
                pause = min(IDLE, max(0.0, due - time.monotonic()))
                came = self._base._run_transport(timedelta(seconds=max(pause, 0.001)))
                if isinstance(came, ReceiveEnvelope):
                    self._came(came.message)
                due = self._tick(due)
                self._send_left()
            except Exception as error:
                if not self._stopping:
                    text = details_of(error)
                    log.error("the program could not receive, and tries again:\n%s", text)
                    time.sleep(0.05)  # no busy loop if it fails every time
        self._send_left()
        self._base._run_transport(timedelta(seconds=0.2), txonly=True)

    def _came(self, message: Any) -> None:
        if isinstance(message, WatchMessage):
            self._bell.silence()
            if self.endpoint is not None:
                self.endpoint.drain()
        else:
            self.dispatch(message)

    def _tick(self, due: float) -> float:
        """Do everything that is due. Returns the time of the next call."""
        now = time.monotonic()
        if self.endpoint is None or now < due <= now + ACK_DELAY:
            return due  # nothing can be due sooner than that
        pause = self.endpoint.pause()
        if pause is not None and pause <= 0:
            pause = self.endpoint.tick()
        return time.monotonic() + (IDLE if pause is None else pause)

    def _send_left(self) -> None:
        while self._left:
            address, message = self._left.popleft()
            self._base._tx_to_actor(address, message)


class CallInPort(Receiver):
    """The port of a program on the in-process base."""

    runs_by_itself = False

    def __init__(self, asys: Any) -> None:
        super().__init__()
        self._asys = asys
        self._base = asys._systemBase
        self._me = ActorAddress("System:ExternalRequester")
        self._pumping = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        """Do nothing: nothing runs in the background."""

    def stop(self) -> None:
        """Let the actors settle the program's last messages, then run them no more.

        The system ends next. Another thread that pumps must not find it half gone.
        """
        self.pump()
        self._stopped = True
        if self._pumping.acquire(timeout=5):
            self._pumping.release()

    def end(self) -> None:
        """End the actors in this process: the system ends."""
        simple.close_actors(self._base)

    def post(self, address: ActorAddress, message: object) -> None:
        simple.put(self._base, self._me, address, message)

    def wake(self) -> None:
        """Have the next call of the program check for work."""
        simple.rung.set()

    def wait(self, future: concurrent.futures.Future[Any], timeout: float) -> bool:
        """Wait. The actors run meanwhile."""
        return self.run_until(future.done, timeout)

    def call_in(self) -> bool:
        self.pump()
        return True

    def receive(self, timeout: float) -> Any:
        """The next message to the program; the actors run meanwhile. Raises `queue.Empty`."""
        got: list[Any] = []

        def came() -> bool:
            if not got:
                with contextlib.suppress(queue.Empty):  # or another thread took it
                    got.append(self.inbox.get_nowait())
            return bool(got)

        if not self.run_until(came, timeout):
            raise queue.Empty
        return got[0]

    def largest(self) -> int:
        """No limit of a transport: nothing is copied."""
        return bases.largest(None)

    def run_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Run the actors until *done*, for *timeout* seconds at most."""
        end = time.monotonic() + timeout
        while not done():
            if time.monotonic() >= end:
                return False
            self.pump()
            if not done():
                simple.rung.wait(min(0.01, max(0.0, end - time.monotonic())))
        return True

    def pump(self) -> None:
        """Run the actors once, unless another thread runs them."""
        if not self._pumping.acquire(blocking=False):
            return
        try:
            if self._stopped:
                return
            simple.ring_alarms(self._base)
            while (message := self._asys.listen(timedelta(milliseconds=1))) is not None:
                self.dispatch(message)
            if self.endpoint is not None:
                self.endpoint.drain()
                pause = self.endpoint.pause()
                if pause is not None and pause <= 0:
                    self.endpoint.tick()
        finally:
            self._pumping.release()


ProgramPort = OwnPort | PumpPort | CallInPort


def port_of(asys: Any) -> ProgramPort:
    if simple.runs(asys):
        return CallInPort(asys)
    return PumpPort(asys) if bases.own(asys._systemBase.transport) is None else OwnPort(asys)
