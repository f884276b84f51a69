"""Links cut and healed, and faults exchanged, while a system runs.

The endpoints are told by ordinary Thespian messages, which no fault touches, and each function
returns when all of them have answered. Any system will do, also one that was started without
faults, and any program of it. What starts later has the faults that the system was started with,
and its links are whole.

All raise `WorkerNotFoundError` or `WorkerDiedError` for the name of nobody, and `TimeoutError`
(a `FetchTimeoutError`) if an endpoint does not answer, because it is stopped, say, within the
system's timeout, or 20 s if that is longer.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..protocol.errors import WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..actors.api.system import System
    from ..actors.wire.faults import Counts, Faults


def cut(system: System, one: str, other: str) -> None:
    """Lose every packet between the endpoints named *one* and *other*, both ways.

    This program's own name is ``"program"``, or what `farref.get_worker_info` says.
    """
    _tell(system, one, cut=(other,))
    _tell(system, other, cut=(one,))


def heal(system: System, one: str, other: str) -> None:
    """End what `cut` began. What was lost is sent again, within the 15 s of the longest backoff.

    One that died meanwhile has no links any more, and that is no error.
    """
    for name, far in ((one, other), (other, one)):
        with suppress(WorkerDiedError):
            _tell(system, name, heal=(far,))


@contextmanager
def severed(system: System, one: str, other: str) -> Iterator[None]:
    """Inside, the link between the two is cut."""
    cut(system, one, other)
    try:
        yield
    finally:
        heal(system, one, other)


def set_faults(system: System, faults: Faults) -> None:
    """Have every endpoint of the system forget its faults and take these; ``Faults()`` for none.

    Cut links stay cut.
    """
    for info in system.workers():
        system.endpoint.delivery.meddle_with(info, faults=faults)


def counts(system: System) -> dict[str, Counts]:
    """What became of the packets of each endpoint of *system*, by its name. Blocks."""
    meddle = system.endpoint.delivery.meddle_with
    return {info.name: meddle(info) for info in system.workers()}


def _tell(system: System, name: str, **what: Any) -> None:
    endpoint = system.endpoint
    endpoint.delivery.meddle_with(endpoint.registry.find(name), **what)
