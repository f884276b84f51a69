"""Cuts and heals links, and replaces faults, while a system runs.

The functions tell the endpoints by ordinary Thespian messages, which faults do not affect. Each
function returns when all endpoints have answered. They work in any program of any system, even a
system that was started without faults. Endpoints that start later have the system's first faults,
and uncut links.

All raise `WorkerNotFoundError` or `WorkerDiedError` for an unknown name. They raise `TimeoutError`
(a `FetchTimeoutError`) if an endpoint does not answer within the system's timeout, or 20 s if that
is longer, for instance because it is stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..actors.api.system import System
from ..actors.wire.faults import Counts, Faults
from ..protocol.errors import WorkerDiedError


def cut(system: System, one: str, other: str) -> None:
    """Lose every packet between the endpoints named *one* and *other*, both ways.

    This program's own name is ``"program"``, or the one of `farref.get_worker_info`.
    """
    _tell(system, one, cut=(other,))
    _tell(system, other, cut=(one,))


def heal(system: System, one: str, other: str) -> None:
    """Undo `cut`. Lost messages are sent again within 15 s, the longest backoff.

    It is not an error if one of the endpoints has died meanwhile.
    """
    for name, far in ((one, other), (other, one)):
        with suppress(WorkerDiedError):
            _tell(system, name, heal=(far,))


@contextmanager
def severed(system: System, one: str, other: str) -> Iterator[None]:
    """Cut the link between the two for the time of the block."""
    cut(system, one, other)
    try:
        yield
    finally:
        heal(system, one, other)


def set_faults(system: System, faults: Faults) -> None:
    """Replace the faults of every endpoint of the system; ``Faults()`` for none.

    Cut links stay cut. An endpoint that dies meanwhile is left out.
    """
    _tell_all(system, faults=faults)


def counts(system: System) -> dict[str, Counts]:
    """How the faults affected the packets of each endpoint of *system*, by its name. Blocks.

    An endpoint that dies meanwhile is left out.
    """
    return _tell_all(system)


def _tell_all(system: System, **what: Any) -> dict[str, Counts]:
    found = {}
    for info in system.workers():
        with suppress(WorkerDiedError):
            found[info.name] = system.endpoint.delivery.meddle_with(info, **what)
    return found


def _tell(system: System, name: str, **what: Any) -> None:
    endpoint = system.endpoint
    endpoint.delivery.meddle_with(endpoint.registrar_client.find(name), **what)
