"""Starting the service: the actor that it lives in, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cloudpickle

from ..shells.ref_actor import RefActor

if TYPE_CHECKING:
    from ..core.registry import Registry
    from ..wire.messages import WorkerInfo

NAME = "farref rendezvous"
"""The service's name; a standby's is this and a number."""


class RendezvousService(RefActor):
    """The actor in which the service, or its standby, lives. It handles no messages itself."""


def start_service(registry: Registry, name: str) -> WorkerInfo:
    """Start a service, or a standby, called *name*; blocks until it runs.

    On the registrar's host, whoever asks. There the standby sees the end of the leader's process;
    and it is the one host without which there is no system, so the loss of another is never that
    of the service.
    """
    first = registry.hosts()[0].address
    return registry.spawn(
        actor_class=cloudpickle.dumps(RendezvousService),
        name=name,
        requirements=None,
        threads=None,
        on=first or None,
    )
