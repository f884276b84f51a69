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

from ...protocol.errors import GivenUpError, SystemDownError
from ..hosting import events
from ..hosting.children import ORDERLY
from ..hosting.processes import Vigil
from ..wire.messages import Died, Down

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...protocol.effects import Effect
    from ...protocol.errors import FarrefError
    from ...protocol.ids import WorkerId
    from ..calls.calls import Calls
    from ..core.core import Core
    from ..core.delivery import Delivery
    from ..core.registry import Registry

    Close = Callable[[str, FarrefError | None], None]

log = logging.getLogger(__name__)

BEATS = 5
"""Times that an endpoint is heard of within the silence after which it would be given up."""


class Deaths:
    """What one endpoint knows of deaths. In the mailbox thread, unless it says otherwise."""

    def __init__(
        self, core: Core, registry: Registry, delivery: Delivery, calls: Calls, close: Close
    ) -> None:
        """*close* ends the endpoint; it says why, and what its waits raise."""
        self._core = core
        self._registry = registry
        self._delivery = delivery
        self._calls = calls
        self._close = close
        core.takers |= {Died: self._told, Down: self._lost}
        self._graves: dict[WorkerId, float] = {}
        """The dead that are not buried, and when they will be."""
        self._beat_at: float | None = None
        self._vigils: list[Vigil] = []
        self._leaving = False
        self.counted = 0
        """Endpoints that have died since this one is there, and were not to end."""
        self.in_order = False
        """The system was shut down by its first host."""

    def _told(self, message: Died) -> None:
        """The registrar tells of deaths."""
        self._registry.unheard = 0
        self.died(message.workers, message.cause)

    def died(self, workers: Iterable[WorkerId], cause: str = "") -> None:
        """These endpoints are dead: fail what waits for them now, release what they held later.

        *cause*: how they ended, if anybody knows.
        """
        core = self._core
        if core.me in workers and not core.closed:
            self._give_up()
            return
        now = time.monotonic()
        news = tuple(w for w in workers if w not in core.context.dead and w != core.me)
        if cause not in ORDERLY:
            self.counted += len(news)
        for worker in news:
            if cause:
                core.context.state.causes[worker] = cause
            core.step(lambda worker=worker: self._died(worker))  # type: ignore[misc]
            self._calls.died(worker)
            with core.lock:
                self._delivery.forget(worker)
                core.peers.forget(worker)
                self._graves[worker] = 0.0
                # A further death restarts the graces that run: orphans of two announce later.
                self._graves = dict.fromkeys(self._graves, now + core.settings.orphan_grace)
        for tell in core.on_deaths:
            tell(news)
        core.wake()

    def bury(self, now: float) -> None:
        """Release what those held whose grace is over at *now*."""
        core = self._core
        for worker in [w for w, due in self._graves.items() if due <= now]:
            del self._graves[worker]
            core.step(lambda worker=worker: core.context.bury(worker))  # type: ignore[misc]

    def begin_to_beat(self) -> None:
        """Let the registrar hear of this endpoint from now on."""
        self._beat_at = time.monotonic()

    def beat(self, now: float) -> None:
        """Let the registrar hear of this endpoint, if it is time."""
        silence = self._core.settings.silence
        if self._beat_at is not None and self._beat_at <= now and silence:
            self._beat_at = now + silence / BEATS
            self._registry.beat()
            if self._registry.unheard > BEATS:
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

    def _lost(self, message: Down) -> None:
        """The registrar, on another host, says that the system ends."""
        self.lose(message.reason, orderly=message.orderly)

    def lose(self, why: str, *, orderly: bool = False) -> None:
        """The system has ended, or cannot be reached. Any thread."""
        core = self._core
        if core.closed:
            return
        state = "has ended" if orderly else "has ended, or is cut off"
        reason = f"system {core.settings.system!r} {state}: {why}"
        self._log_end(logging.INFO, "%s ends: %s", core.me, reason)
        self.in_order = orderly
        self._close(reason, SystemDownError(f"{reason}; start a new one"))
        if not orderly:
            self._registry.leave()  # it may come through yet
        self._leaving = True
        core.port.wake()

    def _log_end(self, level: int, text: str, *args: object) -> None:
        core = self._core
        system = core.settings.system
        events.tell(log, level, "endpoint.ended", text, *args, endpoint=core.me, system=system)

    def leave(self) -> None:
        """If the system was lost, have the actor end, too."""
        if self._leaving:
            self._leaving = False
            self._core.port.given_up()

    def close(self) -> None:
        """Watch nothing any more. Any thread."""
        for vigil in self._vigils:
            vigil.end()

    def _died(self, worker: WorkerId) -> list[Effect]:
        core = self._core
        return core.context.died(worker, self._delivery.unacknowledged(worker))

    def _give_up(self) -> None:
        """This endpoint counts as dead: it is closed, and never believed again (fencing)."""
        core = self._core
        error = GivenUpError(
            f"{core.me} was silent for too long and counts as dead: all that it held was "
            "released; start it again, under the same name if you like"
        )
        self._log_end(logging.ERROR, "%s", str(error))
        self._beat_at = None
        self._close("it was given up for dead", error)
        core.port.given_up()
