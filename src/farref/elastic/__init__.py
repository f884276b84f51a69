"""Rendezvous with torch's names, over any backend.

    backend = EtcdRendezvousBackend(Etcd3Client("localhost"), "my_run_id")
    handler = DynamicRendezvousHandler.from_backend(
        run_id="my_run_id", store=store, backend=backend, min_nodes=2, max_nodes=4
    )
    info = handler.next_rendezvous()

`ServiceRendezvousBackend` keeps the state in the actor system of the caller. `farref.elastic.etcd`
and `farref.elastic.c10d` have the other backends, each with its optional extra.
`farref.elastic.torchrun` is ``torchrun --rdzv-backend=farref``.
"""

from ..actors.rendezvous.group import rendezvous_handler_registry
from ..actors.rendezvous.handler import (
    RendezvousHandler,
    RendezvousHandlerCreator,
    RendezvousHandlerRegistry,
    RendezvousParameters,
)
from ..protocol.errors import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    RendezvousTimeoutError,
)
from ..protocol.rendezvous.limits import Timeouts
from ..protocol.rendezvous.state import Member
from .api import PrefixStore, RendezvousBackend, RendezvousInfo, RendezvousStoreInfo, Token
from .handler import DynamicRendezvousHandler, EtcdRendezvousHandler, create_handler
from .service import ServiceRendezvousBackend

__all__ = [
    "DynamicRendezvousHandler",
    "EtcdRendezvousHandler",
    "Member",
    "PrefixStore",
    "RendezvousBackend",
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeoutError",
    "ServiceRendezvousBackend",
    "Timeouts",
    "Token",
    "create_handler",
    "rendezvous_handler_registry",
]
