"""The transport that Thespian drives: one per actor, admin, logger or outside program.

**Threads.**  ``scheduleTransmit`` (every send), ``addWakeup`` and ``interrupt_wait`` may be
called by any thread.  One thread at a time runs the loop: the one in :meth:`Transport.run`, or one
that waits, in :meth:`.loop.RunLoop.lead`.  Handlers and all callbacks run in that thread and in no
other, and so does the unpickling of messages.
"""

# ruff: noqa: N803, N815 (Thespian chose the names and the order of arguments)

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, Final, cast

from . import addresses, framing, rundir
from ._thespian import (
    CONV_ADDR_IPV4_CAPABILITY,
    ActorAddress,
    ActorAddressManager,
    ActorExitRequest,
    ActorLocalAddress,
    ActorSystemStartupFailure,
    CannotPickleAddress,
    ChildMayHaveDied,
    Duration,
    ExpirationTimer,
    InvalidActorAddress,
    SendStatus,
    TransmitIntent,
    address_details,
    thesplog,
    timePeriodSeconds,
)
from .addresses import Address
from .dormant import Dormant
from .endpoints import ChildInit, CloneInit, live
from .envelopes import Received, UserIntent
from .errors import InvalidAddress, MessageTooLarge, PeerStalled
from .inbox import Inbox
from .interrupts import undisturbed
from .listener import Listener, bind
from .loop import RunLoop
from .outbox import Outbox
from .outgoing import OutConnection
from .poller import Poller
from .settings import SystemSettings
from .timers import Timers

GLANCE: Final = 0.01  # seconds; see `Transport.await_handled`


class Transport:
    """Implements the contract of Thespian's transports; see the module's text."""

    # Thespian makes further transports from ``transport.__class__``; static methods that it
    # calls there find the configuration of this process here.
    _process_settings: ClassVar[SystemSettings | None] = None

    def __init__(self, init: object, *_: object) -> None:
        """Make a transport from a parent's :class:`ChildInit`, or from a :class:`CloneInit`."""
        match init:
            case ChildInit(settings=settings, sockets=sockets, admin=admin):
                self.outside = False
            case CloneInit(settings=settings, admin=admin):
                sockets = bind(settings, addresses.new_address(settings, addresses.OUTSIDE))
                self.outside = True
            case _:
                raise ActorSystemStartupFailure(f"cannot make a transport from {init!r}")
        self.pid = os.getpid()
        self.settings = settings
        self.myAddress = ActorAddress(sockets.address)
        self._me = sockets.address
        self._admin = admin
        Transport._process_settings = settings
        self._poller = Poller(settings.spin)
        inbox = Inbox()
        self._listener = Listener(settings, sockets, self._poller, inbox)
        self._outbox = Outbox(settings, self._me, self._poller)
        self._encoder = framing.Encoder()
        self._timers = Timers()
        self.loop = RunLoop(
            me=self.myAddress,
            poller=self._poller,
            inbox=inbox,
            listener=self._listener,
            outbox=self._outbox,
            timers=self._timers,
        )
        self._manager: ActorAddressManager | None = None
        self._flow_control = True
        self.closed = False
        live.add(self)

    # -- addresses --------------------------------------------------------------------

    def getAdminAddr(self, capabilities: object) -> ActorAddress:  # noqa: ARG002 (contract)
        return self._admin

    @classmethod
    def getAddressFromString(cls, spec: object) -> ActorAddress:
        """The admin at ``host:port``; see :func:`.addresses.parse`."""
        settings = cls._process_settings
        if settings is None:
            raise AssertionError("no transport was made in this process")
        try:
            return ActorAddress(addresses.parse(settings, spec))
        except InvalidAddress as error:
            raise InvalidActorAddress(spec, str(error)) from error

    @classmethod
    def getConventionAddress(cls, capabilities: dict[str, Any]) -> list[ActorAddress] | None:
        """The possible leaders of the convention, best first; None if there is no convention."""
        spec = capabilities.get(CONV_ADDR_IPV4_CAPABILITY)
        if not spec:
            return None
        return [cls.getAddressFromString(s) for s in (spec if isinstance(spec, list) else [spec])]

    @staticmethod
    def probeAdmin(address: ActorAddress) -> bool:
        """Whether a process listens at the admin's socket on this host."""
        return rundir.answers(address.addressDetails.path)

    # -- children ---------------------------------------------------------------------

    def prepEndpoint(self, address: ActorAddress, capabilities: object) -> ChildInit:  # noqa: ARG002 - contract
        """Bind the sockets of a child that is about to be started."""
        details = address.addressDetails
        if not isinstance(details, ActorLocalAddress):
            return ChildInit(self.settings, None, bind(self.settings, details), address)
        instance = details.addressInstanceNum
        sockets = bind(self.settings, addresses.new_address(self.settings, self.settings.system_id))
        if self._manager is not None and instance >= 0:
            self._manager.associateUseableAddress(
                self.myAddress, instance, ActorAddress(sockets.address)
            )
        return ChildInit(self.settings, instance, sockets, self._admin)

    def when_dialled(self, endpoint: ChildInit, start: Callable[[], None]) -> Dormant:
        """Call *start* when somebody first dials *endpoint*, whose process it starts."""
        return Dormant(endpoint.sockets, self._poller, start)

    @staticmethod
    def connectEndpoint(endpoint: ChildInit) -> None:
        """Close our copies of the child's sockets, which it has now that it was started."""
        endpoint.sockets.close()

    @staticmethod
    def protectedFileNumList() -> list[int]:
        """No descriptors: a child closes those that it inherits; see :mod:`.endpoints`."""
        return []

    childResetFileNumList = protectedFileNumList

    def external_transport_clone(self) -> Transport:
        """A further, independent endpoint of this outside program."""
        return self.__class__(CloneInit(self.settings, self._admin))

    def setAddressManager(self, manager: ActorAddressManager) -> None:
        """Thespian calls this with the *manager* that translates the addresses of children."""
        self._manager = manager

    # -- sending ----------------------------------------------------------------------

    def scheduleTransmit(
        self,
        manager: ActorAddressManager | None,
        intent: TransmitIntent,
        has_exclusive_flag: bool = False,  # noqa: ARG002 (contract)
    ) -> None:
        """Send *intent* from any thread.

        Raises :class:`CannotPickleAddress` while an address in it is not known yet, and
        the errors of pickling.  Waits while too much is queued for that peer.
        """
        self.wait_for_room(self.enqueue(manager, intent))

    def wait_for_room(self, connection: OutConnection | None) -> None:
        """Like :meth:`throttle`, for messages of Thespian itself.

        Thespian could not handle an error: if the peer stalls, log it and go on.
        """
        try:
            self.throttle(connection)
        except PeerStalled as error:
            thesplog("%s", error, level=40, primary=True)

    def enqueue(
        self, manager: ActorAddressManager | None, intent: TransmitIntent
    ) -> OutConnection | None:
        """Like :meth:`scheduleTransmit`, but never waits. Returns the connection."""
        target = intent.targetAddr
        if manager is not None:
            known, message = manager.prepMessageSend(target, intent.message)
            if message is SendStatus.DeadTarget:
                self._outbox.finish(intent, SendStatus.Sent)  # Thespian: pretend, or it recurs
                return None
            if known is None:
                raise CannotPickleAddress(target)
            if known is not target:
                intent.changeTargetAddr(known)
                target = known
            if message is not intent.message:
                intent.changeMessage(message)
        details = target.addressDetails
        if not isinstance(details, Address):
            raise CannotPickleAddress(target)
        if details.key == self._me.key:
            self.loop.deliver_local(Received(self.myAddress, intent.message))
            self._outbox.finish(intent, SendStatus.Sent)
            return None
        # Every intent except a user's has a waiting sender.
        kind = framing.DATA if type(intent) is UserIntent else framing.DATA_ACK_NOW
        parts = self._encoder.encode(intent.message, kind)
        self._check_size(sum(map(len, parts)), target)
        with undisturbed:  # the thread with the answers needs its lock
            return self._outbox.post(details, parts, intent)

    def send_raw(self, address: ActorAddress, data: bytes) -> bool:
        """Send *data* to the handler of `RunLoop.take_raw` there, from any thread; never blocks.

        If the connection breaks, the data is lost without a notice.  Returns false if Thespian must
        translate *address* first.  Raises :class:`MessageTooLarge`.
        """
        details = address_details(address)
        if type(details) is not Address:
            return False
        if len(data) > self.settings.limits.max_message_bytes:
            self._check_size(len(data), address)
        header = framing.HEADER.pack(len(data), 0, framing.RAW)
        if self.closed:
            return True
        small = len(data) < framing.JOIN
        self._outbox.post(details, [header + data] if small else [header, data], None)
        return True

    def connection_to(self, address: ActorAddress) -> OutConnection | None:
        """The open connection to *address*, for raw frames; None if there is none."""
        details = address_details(address)
        return self._outbox.open_to(details) if type(details) is Address else None

    def _check_size(self, size: int, target: ActorAddress) -> None:
        limit = self.settings.limits.max_message_bytes
        if size > limit:
            raise MessageTooLarge(
                f"a message of {size} bytes for {target}; this system sends at most {limit}:"
                " raise Limits.max_message_bytes, or send it in parts"
            )

    def queued_bytes(self, address: ActorAddress) -> int:
        """Bytes for *address* that the kernel has not taken yet."""
        return self._outbox.queued_bytes(address.addressDetails)

    def throttle(self, connection: OutConnection | None) -> None:
        """Wait until *connection*, if there is one, has room; raises :class:`PeerStalled`."""
        outbox = self._outbox
        if connection is None or outbox.has_room(connection) or not self._flow_control:
            return
        has_room = partial(outbox.has_room, connection)
        if self.loop.is_leader():
            with self.loop.reading_on() as go_on:
                outbox.wait_until(connection, has_room, go_on)
        else:
            outbox.wait_until(connection, has_room)

    def write_out(self, connection: OutConnection) -> None:
        """Wait until the messages now queued in *connection* are written, or it has failed.

        For threads that do not run the loop.
        """
        end = connection.enqueued
        self._outbox.wait_until(connection, lambda: connection.written >= end)

    def await_handled(self, connection: OutConnection, seconds: float) -> None:
        """Wait until the peer has handled all its messages, or is gone: *seconds* at most.

        For threads that do not run the loop.  The thread that does may read the acknowledgement,
        and does not wake this one, which looks again every ``GLANCE`` seconds.
        """
        deadline = perf_counter() + seconds
        while connection.unacked and (left := deadline - perf_counter()) > 0:
            self._outbox.write_alone(connection, min(left, GLANCE))

    def write_all_out(self) -> None:
        """Like :meth:`write_out` for every connection."""
        for connection in self._outbox.snapshot():
            if connection.queued_bytes:
                self.write_out(connection)

    @property
    def refused(self) -> int:
        """The number of connections closed and messages rejected as malformed, so far."""
        return self._listener.refused + self.loop.rejected

    @property
    def has_finished(self) -> bool:
        """Whether callbacks of finished sends wait to be called."""
        return bool(self._outbox.finished)

    def enableRXPauseFlowControl(self, enable: bool = True) -> None:
        """An admin never waits for one peer: all others depend on it."""
        self._flow_control = enable

    def deadAddress(self, manager: object, address: ActorAddress) -> None:  # noqa: ARG002 - contract
        """Remove the socket of a child that has exited, if it was killed and has left it.

        The connection to it ends by itself, after its acknowledgements.
        """
        details = address.addressDetails
        if (
            isinstance(details, Address)
            and not details.well_known
            and os.path.dirname(details.path) == str(self.settings.directory)
        ):
            rundir.remove_if_dead(details.path)

    def lostRemote(self, address: ActorAddress) -> None:
        """Stop waiting for the admin at *address*, which has left the convention."""
        self._outbox.drop(cast(Address, address.addressDetails))

    # -- running ----------------------------------------------------------------------

    def run(self, handler: Any, maximumDuration: Duration | None = None) -> Any:
        """Thespian's main loop.

        *handler* None returns the next envelope; ``TransmitOnly`` delivers nothing and returns
        the number of messages left to write; a callable is given envelopes until it returns
        something falsy.  Returns ``Thespian__Run_Expired`` after *maximumDuration*.
        """
        seconds = None if maximumDuration is None else timePeriodSeconds(maximumDuration)
        return self.loop.run(handler, seconds)

    def abort_run(self, drain: bool = False) -> None:
        """End :meth:`run`; with *drain* after everything was written and confirmed (bounded)."""
        self.loop.abort(drain=drain)

    def interrupt_wait(self, signal_shutdown: bool = False, check_children: bool = False) -> None:
        """Thespian's signal handlers call this, so it takes no lock."""
        if check_children:
            self.loop.interrupt(ChildMayHaveDied())
        if signal_shutdown:
            self.loop.interrupt(ActorExitRequest())
        self._poller.wake()

    def addWakeup(self, period: Duration, payload: object) -> None:
        """Deliver a ``WakeupMessage`` after *period*.  Any thread."""
        self._timers.add(period, payload)
        if not self.loop.is_leader():
            self._poller.wake()

    @property
    def wakeups(self) -> int:
        """The wake-ups that have not been delivered.  Any thread."""
        return len(self._timers)

    def set_watch(self, descriptors: list[int]) -> None:
        """Deliver a ``WatchMessage`` when one of *descriptors* is readable."""
        self._poller.watch(descriptors)

    def _updateStatusResponse(self, response: Any) -> None:
        for connection in self._outbox.snapshot():
            for intent in connection.unwritten_intents():
                response.addPendingMessage(self.myAddress, intent.targetAddr, intent.identify())
        response.addWakeups(
            [(self.myAddress, ExpirationTimer(wait)) for wait in self._timers.pending()]
        )

    # -- the end ----------------------------------------------------------------------

    def stop_listening(self) -> None:
        """Accept no more connections, for an endpoint whose loop no thread runs."""
        self._listener.close(unlink=True)

    def close(self) -> None:
        """Leave: write as much as possible at once, close everything, remove our socket."""
        if self.closed:
            return
        self.closed = True
        self.loop.stop()
        self.loop.acknowledge()
        self._outbox.close()
        self._listener.close(unlink=True)
        self._poller.close()

    def abandon(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._poller.close()
        self._listener.abandon()
        self._outbox.abandon()
