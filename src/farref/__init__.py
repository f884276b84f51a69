"""farref shares objects between Python processes by reference.

The façade: everything public is importable from here, and only re-exported here. The names of the
rendezvous and of inspecting references are loaded at their first use: most programs need none.
"""

import importlib
import logging
from typing import TYPE_CHECKING, Any, Final

from . import features as _features  # noqa: F401 - first: it says what is missing here
from .actors.api.creating import create, worker
from .actors.api.on import on
from .actors.api.rpc import ANY, get, get_worker_info, remote, rpc_async, rpc_sync, wait
from .actors.api.system import System
from .actors.base.certificates import TLS
from .actors.calls.futures import Future
from .actors.core.counters import Counters
from .actors.handles.rref import RRef
from .actors.handles.streams import Stream
from .actors.inspect.counting import counters
from .actors.shells.ref_actor import RefActor
from .actors.shells.worker import Worker
from .actors.wire.messages import HostInfo, WorkerInfo
from .protocol.effects import Garbage
from .protocol.errors import (
    AliasCycleError,
    CreationError,
    DebuggerError,
    FarrefError,
    FetchTimeoutError,
    ForeignReferenceError,
    GivenUpError,
    NameTakenError,
    NoHandlerError,
    NotAnEndpointError,
    OutOfBandPickleError,
    OverloadedError,
    OwnerDiedError,
    ProtocolError,
    ReferenceLostError,
    RefLostError,
    RemoteError,
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    RendezvousTimeoutError,
    SelfWaitError,
    SenderDiedError,
    SerializationError,
    SharedMemoryFullError,
    SystemDownError,
    VersionError,
    WorkerDiedError,
    WorkerNotFoundError,
    WouldBlockError,
)

if TYPE_CHECKING:
    from .actors.inspect.inspection import ReferenceInfo, references
    from .actors.inspect.overview import Overview
    from .actors.inspect.snapshot import Snapshot
    from .actors.inspect.why import Reason
    from .actors.rendezvous.group import (
        ActorRendezvous,
        Group,
        GroupMember,
        rendezvous,
        rendezvous_handler_registry,
    )
    from .actors.rendezvous.handler import (
        RendezvousHandler,
        RendezvousHandlerCreator,
        RendezvousHandlerRegistry,
        RendezvousParameters,
    )
    from .actors.rendezvous.store import AwaitableStore, Store
    from .protocol.rendezvous.limits import Timeouts as RendezvousTimeouts

logging.getLogger(__name__).addHandler(logging.NullHandler())  # the program decides what is shown

__all__ = [
    "ANY",
    "TLS",
    "ActorRendezvous",
    "AliasCycleError",
    "AwaitableStore",
    "Counters",
    "CreationError",
    "DebuggerError",
    "FarrefError",
    "FetchTimeoutError",
    "ForeignReferenceError",
    "Future",
    "Garbage",
    "GivenUpError",
    "Group",
    "GroupMember",
    "HostInfo",
    "NameTakenError",
    "NoHandlerError",
    "NotAnEndpointError",
    "OutOfBandPickleError",
    "OverloadedError",
    "Overview",
    "OwnerDiedError",
    "ProtocolError",
    "RRef",
    "Reason",
    "RefActor",
    "RefLostError",
    "ReferenceInfo",
    "ReferenceLostError",
    "RemoteError",
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousTimeoutError",
    "RendezvousTimeouts",
    "SelfWaitError",
    "SenderDiedError",
    "SerializationError",
    "SharedMemoryFullError",
    "Snapshot",
    "Store",
    "Stream",
    "System",
    "SystemDownError",
    "VersionError",
    "Worker",
    "WorkerDiedError",
    "WorkerInfo",
    "WorkerNotFoundError",
    "WouldBlockError",
    "counters",
    "create",
    "get",
    "get_worker_info",
    "on",
    "references",
    "remote",
    "rendezvous",
    "rendezvous_handler_registry",
    "rpc_async",
    "rpc_sync",
    "wait",
    "worker",
]

_LATER: Final = {
    "ActorRendezvous": "actors.rendezvous.group:ActorRendezvous",
    "AwaitableStore": "actors.rendezvous.store:AwaitableStore",
    "Group": "actors.rendezvous.group:Group",
    "GroupMember": "actors.rendezvous.group:GroupMember",
    "Overview": "actors.inspect.overview:Overview",
    "Reason": "actors.inspect.why:Reason",
    "ReferenceInfo": "actors.inspect.inspection:ReferenceInfo",
    "RendezvousHandler": "actors.rendezvous.handler:RendezvousHandler",
    "RendezvousHandlerCreator": "actors.rendezvous.handler:RendezvousHandlerCreator",
    "RendezvousHandlerRegistry": "actors.rendezvous.handler:RendezvousHandlerRegistry",
    "RendezvousParameters": "actors.rendezvous.handler:RendezvousParameters",
    "RendezvousTimeouts": "protocol.rendezvous.limits:Timeouts",
    "Snapshot": "actors.inspect.snapshot:Snapshot",
    "Store": "actors.rendezvous.store:Store",
    "references": "actors.inspect.inspection:references",
    "rendezvous": "actors.rendezvous.group:rendezvous",
    "rendezvous_handler_registry": "actors.rendezvous.group:rendezvous_handler_registry",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = _LATER[name].partition(":")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), there)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
