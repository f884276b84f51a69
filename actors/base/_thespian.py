"""The one place that knows Thespian's names.

Thespian has no type annotations.  For the type checker this module declares the few parts
that the base relies on; at run time it re-exports the real ones.  Everything here beyond
``thespian.actors`` is an internal of Thespian: the reason for pinning ``>=4.0.1,<4.1`` and
for running Thespian's own tests (``tools/thespian_conformance.py``).
"""

# ruff: noqa: N803, N815, F401, F403 (Thespian's names; re-exported)

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    Duration = timedelta | float | int

    class ActorSystemMessage: ...

    class ActorExitRequest(ActorSystemMessage): ...

    class WakeupMessage(ActorSystemMessage):
        payload: object

        def __init__(self, delayPeriod: Duration, payload: object = None) -> None: ...

    class WatchMessage(ActorSystemMessage):
        def __init__(self, ready: list[int]) -> None: ...

    class DeadEnvelope(ActorSystemMessage):
        def __init__(self, origTgt: ActorAddress, origMsg: object) -> None: ...

    class ChildActorExited(ActorSystemMessage):
        childAddress: ActorAddress

        def __init__(self, childAddress: ActorAddress) -> None: ...

    class PoisonMessage(ActorSystemMessage):
        def __init__(self, message: object, details: str = "") -> None: ...

    class ActorSystemException(Exception): ...

    class ActorSystemFailure(ActorSystemException): ...

    class ActorSystemStartupFailure(ActorSystemFailure): ...

    class InvalidActorAddress(ActorSystemException):
        def __init__(self, address: object, *details: object) -> None: ...

    class NoCompatibleSystemForActor(ActorSystemException):
        def __init__(self, actor_class: object, message: str) -> None: ...

    class ActorAddress:
        def __init__(self, details: object) -> None: ...
        @property
        def addressDetails(self) -> Any: ...

    class ActorLocalAddress:
        addressInstanceNum: int

        def __init__(self, owner: ActorAddress, number: int, manager: object) -> None: ...

    class CannotPickleAddress(Exception):
        address: ActorAddress

        def __init__(self, address: ActorAddress) -> None: ...

    class ActorAddressManager:
        def getLocalAddress(self, instanceNum: int) -> ActorAddress: ...
        def prepMessageSend(
            self, address: ActorAddress, message: object
        ) -> tuple[ActorAddress | None, object]: ...
        def exportAddr(self, address: ActorAddress) -> ActorAddress | None: ...
        def importAddr(self, address: ActorAddress) -> None: ...
        def associateUseableAddress(
            self, owner: ActorAddress, instance: int, address: ActorAddress
        ) -> None: ...

    class Status:
        def __bool__(self) -> bool: ...

    class SendStatus:
        Sent: Status
        NotSent: Status
        BadPacket: Status
        Failed: Status
        DeadTarget: Status

    class TransmitIntent:
        def __init__(
            self,
            targetAddr: ActorAddress,
            msg: object,
            onSuccess: Callable[[Any, Any], object] | None = None,
            onError: Callable[[Any, Any], object] | None = None,
        ) -> None: ...
        @property
        def targetAddr(self) -> ActorAddress: ...
        @property
        def message(self) -> Any: ...
        def changeTargetAddr(self, address: ActorAddress) -> None: ...
        def changeMessage(self, message: object) -> None: ...
        def tx_done(self, status: Status) -> None: ...
        def identify(self) -> str: ...

    class RunResult: ...

    class ReceiveEnvelope(RunResult):
        _sender: ActorAddress
        _message: Any

        def __init__(self, sender: ActorAddress, message: object) -> None: ...
        @property
        def sender(self) -> ActorAddress: ...
        @property
        def message(self) -> Any: ...

    class RunExpired(RunResult): ...

    class RunTerminated(RunResult): ...

    class RunHandlerResult(RunResult):
        def __init__(self, value: object) -> None: ...

    class TransmitOnly: ...

    class TransportInit: ...

    class ExpirationTimer:
        def __init__(self, duration: Duration | None = None) -> None: ...

    class ChildMayHaveDied(ActorSystemMessage): ...

    class LoggerConnected(ActorSystemMessage): ...

    class LoggerExitRequest(ActorSystemMessage): ...

    class EndpointConnected(ActorSystemMessage):
        childInstance: int

        def __init__(self, childInstance: object) -> None: ...

    class SystemShutdown(ActorSystemMessage): ...

    class SystemShutdownCompleted(ActorSystemMessage): ...

    class StatsManager:
        def inc(self, key: str) -> None: ...

    class SystemCommon:
        """The common part of the managers of actors and admins."""

        transport: Any
        capabilities: dict[str, Any]
        mpcontext: Any
        asLogger: Any
        asLogProc: Any
        logdefs: Any
        addrOfStarter: ActorAddress
        _adminAddr: ActorAddress
        _addrManager: ActorAddressManager
        _receiveQueue: list[ReceiveEnvelope]
        _children: list[ActorAddress]
        _child_procs: list[Any]
        _sCBStats: StatsManager
        _sourceHash: str | None
        _exiting: Any

        @property
        def myAddress(self) -> ActorAddress: ...
        def run(self) -> None: ...
        def h_LoggerConnected(self, envelope: ReceiveEnvelope) -> bool: ...
        def _reset_logging(self) -> None: ...
        def _cleanupAdmin(self, finish_cleanup: Callable[[], object]) -> None: ...
        def _cleanupAdminFinish(self, intent: object, status: object) -> None: ...
        def signalChildDied(self, signum: int, frame: object) -> None: ...
        def _registerChild(self, address: ActorAddress) -> None: ...
        def _handleChildExited(self, address: ActorAddress) -> bool: ...
        def _pendingActorReady(
            self, childInstance: int, actualAddress: ActorAddress, *rest: Any, **named: Any
        ) -> None: ...
        def _retryPendingChildOperations(
            self, childInstance: int, actualAddress: ActorAddress | None
        ) -> None: ...

    class ThespianAdmin(SystemCommon):
        def __init__(
            self,
            transport: object,
            address: ActorAddress,
            capabilities: dict[str, Any],
            logdefs: object,
            context: object,
        ) -> None: ...
        def _not_compatible(self, createActorEnvelope: ReceiveEnvelope) -> Any: ...

        _pendingChildren: dict[int, list[ReceiveEnvelope]]

    class ActorManager(SystemCommon):
        def __init__(self, *arguments: Any) -> None: ...
        def _handleOneMessage(self, envelope: ReceiveEnvelope) -> Any: ...
        def actor_send_fail(self, result: Status, intent: TransmitIntent) -> object: ...

    class MultiProcReplicator(SystemCommon): ...

    class ChildInfo:
        childAddr: ActorAddress
        childRealAddr: ActorAddress
        childProc: Any

        def __init__(
            self, address: ActorAddress, actor_class: object, process: object, number: object
        ) -> None: ...

    class MultiprocessCommon:
        transport: Any
        mpcontext: Any
        adminAddr: ActorAddress
        _cv: Any
        _transport_runner: bool

        def __init__(self, system: object, logDefs: object = None) -> None: ...
        def _run_transport(
            self,
            maximumDuration: Duration | None = None,
            txonly: bool = False,
            incomingHandler: object = None,
        ) -> Any: ...

    class BaseContext:
        transport: Any
        adminAddr: ActorAddress

        def __init__(self, adminAddr: ActorAddress, transport: object) -> None: ...

    CONV_ADDR_IPV4_CAPABILITY: str
    uncatchable_signals: list[int]
    exit_signals: list[int]
    child_exit_signals: list[int]

    def timePeriodSeconds(basis: Duration) -> float: ...
    def isInternalActorSystemMessage(message: object) -> bool: ...
    def thesplog(text: str, *arguments: object, level: int = 20, primary: bool = False) -> None: ...
    def signal_detector(name: str, address: ActorAddress, manager: object) -> Any: ...
    def shutdown_signal_detector(name: str, address: ActorAddress, manager: object) -> Any: ...
    def signal_admin_sts(admin: object) -> Any: ...
    def get_min_log_level(logDefs: object) -> int: ...
    def startupASLogger(*arguments: Any) -> None: ...
    def checkActorCapabilities(*arguments: Any) -> bool: ...
    def loadModuleFromHashSource(*arguments: Any) -> Any: ...
    def detach_child(process: object) -> None: ...
else:
    from thespian.actors import *
    from thespian.system import isInternalActorSystemMessage
    from thespian.system.actorManager import ActorManager
    from thespian.system.addressManager import (
        ActorAddressManager,
        ActorLocalAddress,
        CannotPickleAddress,
    )
    from thespian.system.logdirector import (
        LoggerExitRequest,
        startupASLogger,
    )
    from thespian.system.messages.admin import SystemShutdown, SystemShutdownCompleted
    from thespian.system.messages.convention import CONV_ADDR_IPV4_CAPABILITY
    from thespian.system.messages.multiproc import (
        ChildMayHaveDied,
        EndpointConnected,
        LoggerConnected,
    )
    from thespian.system.multiprocCommon import (
        ChildInfo,
        MultiProcReplicator,
        child_exit_signals,
        detach_child,
        exit_signals,
        get_min_log_level,
        shutdown_signal_detector,
        signal_admin_sts,
        signal_detector,
        uncatchable_signals,
    )
    from thespian.system.multiprocCommon import multiprocessCommon as MultiprocessCommon
    from thespian.system.sourceLoader import loadModuleFromHashSource
    from thespian.system.systemAdmin import ThespianAdmin
    from thespian.system.systemBase import BaseContext
    from thespian.system.timing import ExpirationTimer, timePeriodSeconds
    from thespian.system.transport import (
        ReceiveEnvelope,
        SendStatus,
        TransmitIntent,
        TransmitOnly,
    )
    from thespian.system.transport import Thespian__Run__Result as RunResult
    from thespian.system.transport import Thespian__Run_Expired as RunExpired
    from thespian.system.transport import Thespian__Run_HandlerResult as RunHandlerResult
    from thespian.system.transport import Thespian__Run_Terminated as RunTerminated
    from thespian.system.transport import TransportInit__Base as TransportInit
    from thespian.system.utilis import checkActorCapabilities, thesplog

    Status = SendStatus.BASE
    Duration = Any

address_details: Final = attrgetter("_aaddr")
"""``addressDetails`` of an `ActorAddress`, without the Python function that Thespian's property is:
every packet asks for it."""
