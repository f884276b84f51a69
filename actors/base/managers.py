"""Thespian's managers of actors and of the system, on our transport.

These subclasses replace the parts that our transport makes unnecessary or wrong.  Thespian's own
classes, and so its bases in the same process, stay unchanged.

- Sends bypass Thespian's rate governor (4,480 messages/s) and its formatting of every message.
- Sends from any thread keep their order, also while addresses of children are pending: a message
  that waits for an address holds up later ones **to the same actor**.
- Children are registered as soon as they are started, so that a shutdown in the middle of their
  start ends them too.  (Thespian's own shutdown hangs then.)
"""

# ruff: noqa: N803, PLR0917 (Thespian chose the names and the order of arguments)

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ._thespian import (
    ActorAddress,
    ActorManager,
    ActorSystemFailure,
    CannotPickleAddress,
    ChildActorExited,
    ChildInfo,
    LoggerConnected,
    MultiProcReplicator,
    NoCompatibleSystemForActor,
    PoisonMessage,
    ReceiveEnvelope,
    SendStatus,
    ThespianAdmin,
    TransmitIntent,
    checkActorCapabilities,
    detach_child,
    loadModuleFromHashSource,
    thesplog,
)
from .children import forget_unused
from .dormant import Dormant
from .envelopes import Received, UserIntent
from .logs import adopt as adopt_loggers
from .outgoing import OutConnection
from .transport import Transport

LAST_RECORDS: Final = 5.0
"""Seconds in which the logger writes the last records."""
ENDS: Final = 100
"""The ends of children that a manager remembers."""


def forget_child(manager: Any, address: ActorAddress) -> None:
    """Forget the child of *manager* at *address*, which has exited.

    Thespian's version forgets every child that is dead by now. If two die at once and the last
    message of the second is lost, it never learns of the second, and waits for it at its own end.
    """
    manager._child_procs = [
        child
        for child in manager._child_procs
        if getattr(child, "childRealAddr", None) != address or child.childProc.is_alive()
    ]


class Replicator(MultiProcReplicator):
    """Starts child processes, and sends; the common part of admin and actors."""

    _childExited = forget_child  # noqa: N815 (Thespian's)
    transport: Transport
    actor_main: Callable[..., None]
    """The function that an actor's process runs; its maker sets it, as it makes managers itself."""

    def __init__(self, *arguments: Any) -> None:
        # Messages whose address, or an address in them, is not known yet, by their target.
        self._parked: dict[object, deque[TransmitIntent]] = {}
        self._parking = threading.RLock()
        self._child_procs: list[ChildInfo] = []
        super().__init__(*arguments)

    # -- sending ----------------------------------------------------------------------

    def _send_intent(self, intent: TransmitIntent, curtime: object = None) -> None:  # noqa: ARG002 (Thespian's)
        self._send_intent_to_transport(intent)

    def _send_intent_to_transport(self, intent: TransmitIntent) -> None:
        self.transport.wait_for_room(self._enqueue(intent))

    def _enqueue(self, intent: TransmitIntent) -> OutConnection | None:
        """Queue *intent*, or park it.  If it cannot be pickled, we get a PoisonMessage."""
        try:
            if not self._parked:
                try:
                    return self.transport.enqueue(self._addrManager, intent)
                except CannotPickleAddress:
                    pass
            with self._parking:
                route = self._route(intent.targetAddr)
                if route not in self._parked:
                    try:
                        return self.transport.enqueue(self._addrManager, intent)
                    except CannotPickleAddress:
                        self._parked[route] = deque()
                self._parked[route].append(intent)
        except Exception:
            self._poisoned(intent, traceback.format_exc())
        return None

    def _route(self, target: ActorAddress) -> object:
        """The key of *target* among parked messages."""
        known = self._addrManager.exportAddr(target)
        if known is None:
            return getattr(target.addressDetails, "addressInstanceNum", target.addressDetails)
        return getattr(known.addressDetails, "key", known.addressDetails)

    def _poisoned(self, intent: TransmitIntent, trace: str) -> None:
        thesplog("Declaring transmit of %s as Poison: %s", intent.identify(), trace, level=40)
        if not isinstance(intent.message, logging.LogRecord):
            logging.error("Declaring transmit of %s as Poison: %s", intent.identify(), trace)
        if not isinstance(intent.message, PoisonMessage):
            self.transport.loop.deliver_local(
                Received(intent.targetAddr, PoisonMessage(intent.message, trace))
            )
        intent.tx_done(SendStatus.Failed)

    def _pendingActorReady(
        self, childInstance: int, actualAddress: ActorAddress, *rest: Any, **named: Any
    ) -> None:
        # Nobody may send directly from when the address is known until the parked messages leave.
        with self._parking:
            super()._pendingActorReady(childInstance, actualAddress, *rest, **named)

    def _retryPendingChildOperations(
        self, childInstance: int, actualAddress: ActorAddress | None
    ) -> None:
        with self._parking:
            for route in list(self._parked):
                self._retry(route, None if actualAddress else childInstance)
        super()._retryPendingChildOperations(childInstance, actualAddress)

    def _retry(self, route: object, aborted: int | None) -> None:
        """Send the messages parked for *route*, in order, as far as addresses are known now."""
        waiting = self._parked[route]
        while waiting:
            intent = waiting[0]
            try:
                self.transport.enqueue(self._addrManager, intent)
            except CannotPickleAddress as unknown:
                if unknown.address.addressDetails.addressInstanceNum != aborted:
                    # An address in the message is unknown; its target's may be known by now.
                    del self._parked[route]
                    self._parked[self._route(intent.targetAddr)] = waiting
                    return
                if not isinstance(intent.message, PoisonMessage):
                    poison = PoisonMessage(intent.message, "Child Aborted")
                    self._receiveQueue.append(ReceiveEnvelope(self.myAddress, poison))
                intent.tx_done(SendStatus.Failed)
            except Exception:
                self._poisoned(intent, traceback.format_exc())
            waiting.popleft()
        del self._parked[route]

    # -- children ---------------------------------------------------------------------

    def _startChildActor(
        self,
        childAddr: ActorAddress,
        childClass: Any,
        globalName: str | None,
        parentAddr: ActorAddress,
        notifyAddr: ActorAddress,
        childRequirements: object = None,
        sourceHash: str | None = None,
        sourceToLoad: object = None,
    ) -> None:
        if self.asLogger is None:
            raise ActorSystemFailure("cannot create an actor before the logger is up")
        loader = (
            partial(loadModuleFromHashSource, sourceHash, {sourceHash: sourceToLoad})
            if sourceHash
            else None
        )
        if not checkActorCapabilities(childClass, self.capabilities, childRequirements, loader):
            raise NoCompatibleSystemForActor(childClass, "no system has compatible capabilities")
        # A class travels by name, so that a spawned process can import it.
        named = (
            f"{childClass.__module__}.{childClass.__name__}"
            if hasattr(childClass, "__name__")
            else childClass
        )
        endpoint = self.transport.prepEndpoint(childAddr, self.capabilities)
        try:
            process = self.mpcontext.Process(
                target=self.actor_main,
                args=(
                    named,
                    globalName,
                    endpoint,
                    sourceHash or self._sourceHash,
                    sourceToLoad,
                    parentAddr,
                    self._adminAddr,
                    notifyAddr,
                    self.asLogger,
                    childRequirements,
                    self.capabilities,
                    self.mpcontext,
                    self.logdefs,
                ),
                name=f"actor {named}",
                daemon=False,
            )
            process.start()
        except BaseException:
            endpoint.sockets.discard()
            raise
        # Or multiprocessing would join or terminate it when we exit.
        detach_child(process)
        self.transport.connectEndpoint(endpoint)
        child = ChildInfo(childAddr, childClass, process, endpoint.addrInst)
        child.childRealAddr = ActorAddress(endpoint.sockets.address)
        self._child_procs.append(child)
        self._registerChild(child.childRealAddr)

    def _registerChild(self, address: ActorAddress) -> None:
        if address not in self._children:
            super()._registerChild(address)

    def childDied(self) -> bool:
        """A child process ended: find out which, and tell ourselves."""
        dead = [child for child in self._child_procs if not child.childProc.is_alive()]
        self._child_procs = [child for child in self._child_procs if child not in dead]
        for child in dead:
            child.childProc.join(0.5)
            self.transport.loop.deliver_local(
                Received(self.myAddress, ChildActorExited(child.childRealAddr))
            )
        return True


class Admin(Replicator, ThespianAdmin):
    asLogger: ActorAddress | None  # noqa: N815 (Thespian's)
    asLogProc: ChildInfo | None = None  # noqa: N815
    _dormant: Dormant | None = None

    def log_to(self, address: ActorAddress, dormant: Dormant) -> None:
        """Send all records to *address*, the logger's, which is *dormant*.  The admin is ready."""
        self.asLogProc, self._dormant = None, dormant
        super().h_LoggerConnected(ReceiveEnvelope(address, LoggerConnected()))

    def h_LoggerConnected(self, envelope: ReceiveEnvelope) -> bool:  # noqa: ARG002 (Thespian's)
        """Do nothing: `log_to` has set the address of the logger already."""
        return True

    def childDied(self) -> bool:
        """A child process has ended.  If it was the logger, the next record starts it anew."""
        logger, dormant = self.asLogProc, self._dormant
        if logger is not None and not logger.childProc.is_alive() and dormant is not None:
            self.asLogProc = None
            dormant.watch()
        return super().childDied()

    def _reset_logging(self) -> None:
        """The logger ends, and gets no more records."""
        super()._reset_logging()
        adopt_loggers()

    def _cleanupAdmin(self, finish_cleanup: Callable[[], object]) -> None:
        if self._dormant is not None:
            self._dormant.finish()
            self._dormant = None
        if self.asLogProc is None:  # there is no logger to tell
            self._reset_logging()
            self.asLogger = None
        super()._cleanupAdmin(finish_cleanup)

    def _cleanupAdminFinish(self, intent: object, status: object) -> None:
        """Wait for the last records. Thespian gives the logger 20 ms for its end."""
        if self.asLogProc is not None:
            self.asLogProc.childProc.join(LAST_RECORDS)
        super()._cleanupAdminFinish(intent, status)

    def _not_compatible(self, createActorEnvelope: ReceiveEnvelope) -> Any:
        """Pass a creation on to another system of the convention.

        The answer goes directly to the asker. Thespian nevertheless keeps the request, and makes
        later requests for the same global name wait for it, for ever.
        """
        for instance, waiting in list(self._pendingChildren.items()):
            if waiting[0] is createActorEnvelope:
                del self._pendingChildren[instance]
        return super()._not_compatible(createActorEnvelope)


class Manager(Replicator, ActorManager):
    def __init__(self, *arguments: Any) -> None:
        self._ended: deque[ActorAddress] = deque(maxlen=ENDS)
        super().__init__(*arguments)
        forget_unused(self)

    def _handleOneMessage(self, envelope: ReceiveEnvelope) -> Any:
        """Handle *envelope*, but tell the actor only once that a child has exited.

        Two events tell that, in any order: the child's last message, and the end of its process.
        """
        message = envelope.message
        if isinstance(message, ChildActorExited):
            child = message.childAddress
            if child in self._ended:
                return self._handleChildExited(child)
            self._ended.append(child)
        return super()._handleOneMessage(envelope)

    def actor_send(self, targetAddr: ActorAddress, msg: object) -> None:
        """``Actor.send``, from any thread.  Raises PeerStalled; see :mod:`.errors`."""
        self._sCBStats.inc("Actor.Message Send.Generated")
        intent = UserIntent(targetAddr, msg, self.actor_send_fail)
        self.transport.throttle(self._enqueue(intent))

    def handleMessages(self, envelope: ReceiveEnvelope) -> Any:
        """Handle *envelope*, then the messages that the handler has sent to itself."""
        self._sCBStats.inc("Actor.Message Received.Total")
        sender = envelope.sender
        if "eqOverride" not in sender.__dict__:  # one object serves a whole connection
            self._addrManager.importAddr(sender)
        result = self._handleOneMessage(envelope)
        while result and self._receiveQueue:
            result = self._handleOneMessage(self._receiveQueue.pop(0))
        return result
