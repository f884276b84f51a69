"""Who is dead: the other endpoints that died, and this one, if nothing is heard of it.

A death has two moments. When it becomes known, all that waits for the dead fails, and nothing more
is sent to it; it has a *grave*. When its grave has been there for the system's `orphan_grace`, what
the dead held is released: those that it had shared with have announced themselves by then.

An endpoint beats, so that it is not given up for dead itself. If it is all the same, it ends, and
is never believed again (fencing). It ends too when it has lost the system: nobody would tell it of
deaths any more. On the registrar's host it watches the processes that the system cannot do without;
elsewhere its beats are answered, while there is anybody.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

from ..protocol.errors import (
    FarrefError,
    GivenUpError,
    OwnerDiedError,
    SystemDownError,
    WorkerDiedError,
)
from . import events
from .children import EXITED, how_it_ended
from .processes import Vigil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..protocol.effects import Effect
    from ..protocol.ids import RRefId, WorkerId
    from .endpoint import Endpoint

log = logging.getLogger(__name__)

BEATS = 5
"""Times that an endpoint is heard of within the silence after which it would be given up."""
LEFT = "it left"
ORDERLY = (LEFT, EXITED, how_it_ended(0))
"""Ends of those that were to end: no deaths in metrics, and at INFO in the log."""


class Deaths:
    """What one endpoint knows of deaths. In the mailbox thread, unless it says otherwise."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._graves: dict[WorkerId, float] = {}
        """The dead that are not buried, and when they will be."""
        self._beat_at: float | None = None
        self._vigils: list[Vigil] = []
        self.listeners: list[Callable[[tuple[WorkerId, ...]], None]] = []
        """Told of endpoints that died."""
        self._leaving = False
        self.counted = 0
        """Endpoints that have died since this one is there, and were not to end."""
        self.in_order = False
        """The system was shut down by its first host."""

    def died(self, workers: Iterable[WorkerId], cause: str = "") -> None:
        """These endpoints are dead: fail what waits for them now, release what they held later.

        *cause*: how they ended, if anybody knows.
        """
        endpoint = self._endpoint
        if endpoint.me in workers and not endpoint.closed:
            self._give_up()
            return
        now = time.monotonic()
        news = tuple(w for w in workers if w not in endpoint.context.dead and w != endpoint.me)
        if cause not in ORDERLY:
            self.counted += len(news)
        for worker in news:
            if cause:
                endpoint.context.state.causes[worker] = cause
            endpoint.step(lambda worker=worker: self._died(worker))  # type: ignore[misc]
            for ask in endpoint.calls.asked(worker):
                ask.failed(death_of(worker, None, endpoint.context.entries.how(worker)))
            with endpoint.lock:
                endpoint.delivery.forget(worker)
                endpoint.book.forget(worker)
                self._graves[worker] = 0.0
                # A further death restarts the graces that run: orphans of two announce later.
                self._graves = dict.fromkeys(self._graves, now + endpoint.settings.orphan_grace)
        for tell in self.listeners:
            tell(news)
        endpoint.wake()

    def bury(self, now: float) -> None:
        """Release what those held whose grace is over at *now*."""
        endpoint = self._endpoint
        for worker in [w for w, due in self._graves.items() if due <= now]:
            del self._graves[worker]
            endpoint.step(lambda worker=worker: endpoint.context.bury(worker))  # type: ignore[misc]

    def begin_to_beat(self) -> None:
        """Let the registrar hear of this endpoint from now on."""
        self._beat_at = time.monotonic()

    def beat(self, now: float) -> None:
        """Let the registrar hear of this endpoint, if it is time."""
        silence = self._endpoint.settings.silence
        if self._beat_at is not None and self._beat_at <= now and silence:
            self._beat_at = now + silence / BEATS
            self._endpoint.registry.beat()
            if self._endpoint.registry.unheard > BEATS:
                self.lose(f"nothing was heard of its registrar for {silence:g} s")

    def deadline(self) -> float | None:
        """When `bury` or `beat` has something to do next, or None. Under the lock."""
        beat = () if self._beat_at is None else (self._beat_at,)
        return min((*self._graves.values(), *beat), default=None)

    # ---- the system's end

    def live_with(self, pids: tuple[int, ...]) -> None:
        """End when one of these processes does, which are the system's own, on this host."""
        if pids and os.getpid() not in pids:
            ended = f"a process of its own, one of {', '.join(map(str, pids))}, has ended"
            self._vigils.append(Vigil(pids, lambda: self.lose(ended)))

    def lose(self, why: str, *, orderly: bool = False) -> None:
        """The system has ended, or cannot be reached. Any thread."""
        endpoint = self._endpoint
        if endpoint.closed:
            return
        state = "has ended" if orderly else "has ended, or is cut off"
        reason = f"system {endpoint.settings.system!r} {state}: {why}"
        self._log_end(logging.INFO, "%s ends: %s", endpoint.me, reason)
        self.in_order = orderly
        endpoint.close(reason, SystemDownError(f"{reason}; start a new one"))
        if not orderly:
            endpoint.registry.leave()  # it may come through yet
        self._leaving = True
        endpoint.port.wake()

    def _log_end(self, level: int, text: str, *args: object) -> None:
        endpoint = self._endpoint
        system = endpoint.settings.system
        events.tell(log, level, "endpoint.ended", text, *args, endpoint=endpoint.me, system=system)

    def leave(self) -> None:
        """If the system was lost, have the actor end, too."""
        if self._leaving:
            self._leaving = False
            self._endpoint.port.given_up()

    def close(self) -> None:
        """Watch nothing any more. Any thread."""
        for vigil in self._vigils:
            vigil.end()

    def _died(self, worker: WorkerId) -> list[Effect]:
        endpoint = self._endpoint
        return endpoint.context.died(worker, endpoint.delivery.unacknowledged(worker))

    def _give_up(self) -> None:
        """This endpoint counts as dead: it is closed, and never believed again (fencing)."""
        endpoint = self._endpoint
        error = GivenUpError(
            f"{endpoint.me} was silent for too long and counts as dead: all that it held was "
            "released; start it again, under the same name if you like"
        )
        self._log_end(logging.ERROR, "%s", str(error))
        self._beat_at = None
        endpoint.close("it was given up for dead", error)
        endpoint.port.given_up()


def death_of(worker: WorkerId, rref: RRefId | None, how: str) -> FarrefError:
    """The error for what waited for *worker* or its object *rref*; *how*: see `Entries.how`."""
    if rref is not None:
        return OwnerDiedError(
            f"{worker}, the owner of {rref}, died{how}, and the value with it; create it again"
        )
    return WorkerDiedError(
        f"worker {worker} died before it replied{how}; whether the call took effect is unknown: "
        "call another one if doing it twice does no harm"
    )
