"""Starting the service: its actor, by name."""

from __future__ import annotations

from ..core.registrar_client import RegistrarClient
from ..shells.ref_actor import RefActor
from ..wire.messages import WorkerInfo

NAME = "farref rendezvous"
"""The service's name. A standby has this name and a number."""


class RendezvousService(RefActor):
    """The actor of the service, or of its standby. It handles no messages itself."""


def start_service(registrar_client: RegistrarClient, name: str) -> WorkerInfo:
    """Start a service, or a standby, called *name*. Blocks until it runs.

    It always runs on the registrar's host, because there the standby can see the end of the
    leader's process. And without this host there is no system, so the loss of another host never
    takes the service away.
    """
    first = registrar_client.hosts()[0].address
    return registrar_client.spawn(
        RendezvousService,
        name=name,
        requirements=None,
        threads=None,
        on=first or None,
    )
