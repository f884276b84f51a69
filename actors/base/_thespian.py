"""The one place that knows Thespian's names.

Thespian has no type annotations, so all of them are Any to the type checker. Everything here beyond
``thespian.actors`` is an internal of Thespian: the reason for pinning ``>=4.0.1,<4.1`` and
for running Thespian's own tests (``tools/thespian_conformance.py``).
"""

# ruff: noqa: F401 (re-exported)

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter
from typing import Any, Final

from thespian.actors import (
    ActorAddress,
    ActorExitRequest,
    ActorSystemFailure,
    ActorSystemStartupFailure,
    ChildActorExited,
    DeadEnvelope,
    InvalidActorAddress,
    NoCompatibleSystemForActor,
    PoisonMessage,
    WakeupMessage,
    WatchMessage,
)
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
from thespian.system.transport import Thespian__Run_Expired as RunExpired
from thespian.system.transport import Thespian__Run_HandlerResult as RunHandlerResult
from thespian.system.transport import Thespian__Run_Terminated as RunTerminated
from thespian.system.utilis import checkActorCapabilities, thesplog

Duration = timedelta | float
Status = Any

address_details: Final = attrgetter("_aaddr")
"""``addressDetails`` of an `ActorAddress`, without the Python function that Thespian's property is:
every packet asks for it."""
