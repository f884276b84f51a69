"""What an outside program calls: tell, ask, listen, create, from any number of threads.

Thread rules of one context (``ActorSystem`` or one ``private()``):

- ``tell`` may be called by any thread at any time, also while another thread is in ``listen()``
  for ever.  It writes at once, in the calling thread, and returns when the kernel has taken the
  whole message.  So a slow receiver slows its senders down.
- ``tell`` of an ``ActorExitRequest`` also waits until the actor has handled it, for `EXIT` seconds
  at most.  By then the news of the exit is on its way to the actor's parent.  So the parent learns
  of it before it sees any later effect of this program.
- ``listen`` and ``ask`` receive *any* message for this context, one caller at a time.  While a
  thread listens for ever, others must not ``ask`` here: they use a ``private()`` of their own.
- ``createActor`` uses an endpoint of its own for the answer: any thread.
- ``shutdown`` and ``leave`` end a ``listen`` in progress; it returns None.
"""

# ruff: noqa: N803, N815 (Thespian chose the names and the order of arguments)

from __future__ import annotations

import contextlib
from collections.abc import Sized
from time import perf_counter
from typing import Any, Final

from ._thespian import (
    ActorAddress,
    ActorExitRequest,
    ActorSystemFailure,
    BaseContext,
    DeadEnvelope,
    Duration,
    ReceiveEnvelope,
    SendStatus,
    Status,
    TransmitIntent,
    TransmitOnly,
    isInternalActorSystemMessage,
    timePeriodSeconds,
)
from .envelopes import AwaitedIntent, UserIntent
from .errors import TransportClosed
from .outgoing import OutConnection
from .transport import Transport

EXIT: Final = 2.0
"""Seconds that an actor may take until it handles an exit request, before ``tell`` returns."""


class Outside:
    """The common part of the base and its private contexts; mixed into Thespian's classes."""

    transport: Transport
    adminAddr: ActorAddress
    _cv: Any
    _transport_runner: bool

    def tell(self, anActor: ActorAddress, msg: object) -> None:
        """Send *msg*.  Any thread; see the module's text.

        Raises :class:`PeerStalled` when the receiver takes nothing, and the errors of pickling.
        """
        if isinstance(msg, ActorExitRequest):
            connection = self._post(AwaitedIntent(anActor, msg, self._undeliverable))
            if connection is not None:
                self.transport.await_handled(connection, EXIT)
                self._complete()
        else:
            self._post(UserIntent(anActor, msg, self._undeliverable))

    def ask(self, anActor: ActorAddress, msg: object, timeout: Duration | None) -> Any:
        """Send *msg* and return the next message from anybody.

        None after *timeout* seconds, or when *msg* could not be delivered.
        """
        failures: list[Status] = []

        def failed(status: Status, intent: TransmitIntent) -> None:
            failures.append(status)
            self._undeliverable(status, intent)
            self.transport.abort_run()

        self._post(UserIntent(anActor, msg, failed))
        received = self._next(timeout, failures)
        if received is None and SendStatus.BadPacket in failures:
            raise ActorSystemFailure(
                f"{anActor} could not unpickle the message, a {type(msg).__name__}: the log of its"
                " system tells the reason"
            )
        return received

    def listen(self, timeout: Duration | None) -> Any:
        """The next message from anybody; None after *timeout* seconds or when closed."""
        return self._next(timeout)

    def _next(self, timeout: Duration | None, failures: Sized = ()) -> Any:
        """The next message; None after *timeout*, when closed, or when *failures* come first."""
        seconds = None if timeout is None else timePeriodSeconds(timeout)
        deadline = None if seconds is None else perf_counter() + seconds
        while not failures:
            received = self._run_transport(seconds)
            if deadline is not None:
                seconds = max(0.0, deadline - perf_counter())
            if isinstance(received, ReceiveEnvelope):
                if not isInternalActorSystemMessage(received.message):
                    return received.message
            elif seconds == 0 or self.transport.closed:
                break
        return None

    def leave(self) -> None:
        """Close this endpoint only; the system goes on."""
        self.transport.close()

    exit_context = leave  # Thespian's name, for a private context

    def _post(self, intent: TransmitIntent) -> OutConnection | None:
        transport = self.transport
        if transport.closed:
            raise TransportClosed("this endpoint was closed by leave() or shutdown()")
        connection = transport.enqueue(None, intent)
        if connection is not None and connection.queued_bytes:
            transport.write_out(connection)
        self._complete()
        return connection

    def _complete(self) -> None:
        """Have callbacks called by the thread that runs the loop, or else by this one."""
        if not self.transport.has_finished:
            return
        with self._cv:
            if self._transport_runner:
                return  # the running thread has been woken
            self._transport_runner = True
        try:
            self.transport.run(TransmitOnly, 0)
        finally:
            with self._cv:
                self._transport_runner = False
                self._cv.notify()

    def _undeliverable(self, status: Status, intent: TransmitIntent) -> None:
        dead = status is SendStatus.DeadTarget and intent.targetAddr != self.adminAddr
        if dead and not isinstance(intent.message, DeadEnvelope):
            letter = DeadEnvelope(intent.targetAddr, intent.message)
            self.transport.scheduleTransmit(
                None, UserIntent(self.adminAddr, letter, lambda *_: None)
            )

    def _run_transport(
        self,
        maximumDuration: Duration | None = None,
        txonly: bool = False,
        incomingHandler: object = None,
    ) -> Any:
        if txonly:
            # Any thread can write: do not wait for a thread that listens.
            self.transport.write_all_out()
            self._complete()
            return 0
        return super()._run_transport(maximumDuration, False, incomingHandler)  # type: ignore[misc]  # Thespian's mixins have no types


class PrivateContext(Outside, BaseContext):
    """The result of ``ActorSystem.private()``: an address and an inbox for one thread."""

    def __del__(self) -> None:
        # Thespian's private() does not close it when its block is left by an exception.
        with contextlib.suppress(Exception):
            self.leave()
