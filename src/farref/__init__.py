"""farref: references to objects in other processes, for Thespian actors.

The façade: everything public is importable from here, and only re-exported here.
"""

from .actors.api import (
    get,
    get_worker_info,
    remote,
    rpc_async,
    rpc_sync,
    wait,
)
from .actors.futures import Future
from .actors.inspection import ReferenceInfo, references
from .actors.ref_actor import RefActor
from .actors.rref import RRef
from .actors.system import System
from .actors.wire import WorkerInfo
from .actors.worker import Worker
from .protocol.errors import (
    AliasCycleError,
    FarrefError,
    FetchTimeoutError,
    ForeignReferenceError,
    GivenUpError,
    NotAnEndpointError,
    OutOfBandPickleError,
    OverloadedError,
    OwnerDiedError,
    ProtocolError,
    ReferenceLostError,
    RefLostError,
    RemoteError,
    SelfWaitError,
    SerializationError,
    SystemDownError,
    WorkerDiedError,
    WorkerNotFoundError,
    WouldBlockError,
)

__all__ = [
    "AliasCycleError",
    "FarrefError",
    "FetchTimeoutError",
    "ForeignReferenceError",
    "Future",
    "GivenUpError",
    "NotAnEndpointError",
    "OutOfBandPickleError",
    "OverloadedError",
    "OwnerDiedError",
    "ProtocolError",
    "RRef",
    "RefActor",
    "RefLostError",
    "ReferenceInfo",
    "ReferenceLostError",
    "RemoteError",
    "SelfWaitError",
    "SerializationError",
    "System",
    "SystemDownError",
    "Worker",
    "WorkerDiedError",
    "WorkerInfo",
    "WorkerNotFoundError",
    "WouldBlockError",
    "get",
    "get_worker_info",
    "references",
    "remote",
    "rpc_async",
    "rpc_sync",
    "wait",
]
