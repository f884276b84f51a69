"""Deaths: of other endpoints, and of this one, if it was silent for too long.

A death has two moments. When it becomes known, every wait for the dead endpoint fails, nothing more
is sent to it, and a grace period begins. After the `orphan_grace` of the system the references that
it held are released: by then the endpoints that it had shared them with have announced themselves.
If packets are lost, that may take longer. Therefore each endpoint tells the registrar when its own
announcements have been acknowledged, and the grace ends only after all have done so (see
`farref.protocol.death` and `tombstones`).

An endpoint beats so that it is not given up for dead. If it is given up all the same, it ends, and
is never believed again (fencing). It also ends when it has lost the system, because nobody would
report deaths to it any more. On the registrar's host an endpoint watches the processes that the
system needs. On other hosts the registrar, while it lives, answers the endpoint's beats.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterable
from functools import partial

from ...printable import logger
from ...protocol.effects import Effect
from ...protocol.errors import FarrefError, GivenUpError, SystemDownError
from ...protocol.ids import ForkId, WorkerId
from ..calls.calls import Calls
from ..core.core import Core
from ..core.delivery import Delivery
from ..core.duties import under_lock
from ..core.registrar_client import RegistrarClient
from ..hosting import events
from ..hosting.children import ORDERLY
from ..hosting.processes import Vigil
from ..wire.messages import AllSettled, Died, Down
from .failure_detector import missed

Close = Callable[[str, FarrefError | None], None]

NEWS = 0.2
"""Seconds in which the news that the system ends in order is read, once its processes have ended. A
process that was stopped meanwhile finds both at once."""
SETTLING = 0.1
"""Seconds between two checks whether the owners have acknowledged this endpoint's announcements."""

log = logger(__name__)

BEATS = 3
"""Beats of an endpoint within the silence after which it would be given up."""
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It goes on while the machine is suspended, where there is such a clock."""


class Deaths:
    """The deaths that one endpoint knows of.

    Methods are called in the mailbox thread, unless they say otherwise.
    """

    def __init__(
        self,
        core: Core,
        registrar_client: RegistrarClient,
        delivery: Delivery,
        calls: Calls,
        close: Close,
    ) -> None:
        """*close* ends the endpoint. It takes the reason, and the error for its waits."""
        self._core = core
        self._registrar_client = registrar_client
        self._delivery = delivery
        self._calls = calls
        self._close = close
        core.takers |= {Died: self._told, AllSettled: self._agreed, Down: self._lost}
        self._graces: dict[WorkerId, float] = {}
        """The dead endpoints that are not buried, and the time when the grace of each ends at the
        earliest."""
        self._settling: set[WorkerId] = set()
        """Deaths that this endpoint has not settled."""
        self._settled: set[WorkerId] = set()
        """Deaths that this endpoint has settled, and some others may not have."""
        self._owed: frozenset[ForkId] = frozenset()
        """The acknowledgements that the settling waits for."""
        self._beat_at: float | None = None
        self._beaten = math.inf
        """The time of the last beat, by `CLOCK`."""
        self._latest = 0.0
        """The most seconds between two beats."""
        self._vigils: list[Vigil] = []
        self._leaving = False
        self.counted = 0
        """Endpoints that have died unexpectedly since this one joined."""
        self.in_order = False
        """The system was shut down by its first host."""

    def _told(self, message: Died) -> None:
        """Take the registrar's report of deaths."""
        self._registrar_client.unheard = 0
        self.died(message.workers, message.cause)

    def died(self, workers: Iterable[WorkerId], cause: str = "") -> None:
        """Fail the waits for these dead endpoints now; release the references they held later.

        *cause*: how they ended, if it is known.
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
            core.step(partial(self._died, worker))
            self._calls.died(worker)
            with core.lock:
                address = core.peers.addresses.get(worker)
                left = self._delivery.forget(worker)
                core.peers.forget(worker)
                self._graces[worker] = 0.0
                # A further death restarts the graces that run: orphans of two announce later.
                self._graces = dict.fromkeys(self._graces, now + core.settings.orphan_grace)
            if address is not None:
                self._calls.return_mail(worker, address, left)
        if news:
            with core.lock:
                self._settling.update(news)
                self._owed |= core.context.uncounted()
        for tell in core.on_deaths:
            tell(news)
        self._settle()
        core.wake()

    def bury(self, now: float) -> None:
        """Release the references of the dead endpoints whose grace is over at *now*."""
        core = self._core
        self._settle()
        for worker in self._due(now):
            del self._graces[worker]
            core.step(partial(core.context.bury, worker))

    def _due(self, now: float) -> list[WorkerId]:
        waits = self._settling | self._settled
        return [w for w, due in self._graces.items() if due <= now and w not in waits]

    def _settle(self) -> None:
        """Tell the registrar once no announcement for these deaths is outstanding."""
        core = self._core
        if not self._settling or core.closed:
            return
        with core.lock:
            self._owed &= core.context.uncounted()
            if self._owed:
                return
            settled, self._settling = self._settling, set()
            self._settled |= settled
        self._registrar_client.settled(tuple(settled))

    def _agreed(self, message: AllSettled) -> None:
        """Take the registrar's news that all have settled these deaths."""
        self._registrar_client.unheard = 0
        with self._core.lock:
            self._settled.difference_update(message.workers)

    def begin_to_beat(self) -> None:
        self._beat_at, self._beaten = time.monotonic(), time.clock_gettime(CLOCK)

    def beat(self, now: float) -> None:
        """Send a beat to the registrar, if it is time."""
        silence = self._core.settings.silence
        if self._beat_at is not None and self._beat_at <= now and silence:
            self._latest = self._since_beat()
            self._beat_at, self._beaten = now + silence / BEATS, time.clock_gettime(CLOCK)
            self._registrar_client.beat()
            if self._registrar_client.unheard > BEATS + missed(silence / BEATS):
                self.lose(f"nothing was heard of its registrar for {silence:g} s")

    def _since_beat(self) -> float:
        return max(self._latest, time.clock_gettime(CLOCK) - self._beaten)

    @under_lock
    def deadline(self) -> float | None:
        """The time when `bury` or `beat` has something to do next, or None."""
        beat = () if self._beat_at is None else (self._beat_at,)
        look = (time.monotonic() + SETTLING,) if self._settling else ()
        waits = self._settling | self._settled
        graces = [due for worker, due in self._graces.items() if worker not in waits]
        return min((*graces, *beat, *look), default=None)

    # ---- the system's end

    def live_with(self, pids: tuple[int, ...]) -> None:
        """End when one of *pids*, the system's own processes on this host, ends."""
        core = self._core
        if pids and os.getpid() not in pids:
            why = (
                f"one of its processes here ({', '.join(map(str, pids))}) is gone, as after "
                "`farref down` or a kill"
            )

            def ended() -> None:
                time.sleep(NEWS)
                self.lose(why)

            self._vigils.append(Vigil(pids, ended, core.threads.start))

    def _lost(self, message: Down) -> None:
        """Take the message of a registrar on another host that the system ends."""
        self.lose(message.reason, orderly=message.orderly)

    def lose(self, why: str, *, orderly: bool = False) -> None:
        """End, because the system has ended or cannot be reached. In any thread."""
        core = self._core
        if core.closed:
            return
        state = "has ended" if orderly else "has ended, or this host is cut off from it"
        reason = f"system {core.settings.system!r} {state}: {why}"
        self._log_end(logging.INFO, "%s ends: %s", core.me, reason)
        self.in_order = orderly
        self._close(reason, SystemDownError(f"{reason}; start a new one"))
        if not orderly:
            self._registrar_client.leave()  # the message may still get through
        self._leaving = True
        core.port.wake()

    def _log_end(self, level: int, text: str, *args: object) -> None:
        core = self._core
        system = core.settings.system
        events.tell(log, level, "endpoint.ended", text, *args, endpoint=core.me, system=system)

    def leave(self) -> None:
        """Have the actor end, too, if the system was lost."""
        if self._leaving:
            self._leaving = False
            self._core.port.given_up()

    def close(self) -> None:
        """Stop watching processes. In any thread."""
        for vigil in self._vigils:
            vigil.end()

    def _died(self, worker: WorkerId) -> list[Effect]:
        core = self._core
        return core.context.died(worker, self._delivery.links.unacknowledged(worker))

    def _give_up(self) -> None:
        """End, because this endpoint counts as dead and is never believed again (fencing)."""
        core, why = self._core, ""
        silence = core.settings.silence or 0.0
        late = self._since_beat()
        if late > silence:
            why = (
                f". It did not run for {late:.1f} s, as its process was stopped (SIGSTOP), or its "
                "machine suspended; with System(silence=None) no silence counts"
            )
        error = GivenUpError(
            f"{core.me} was silent for too long and counts as dead: all that it held was "
            f"released; start it again, under the same name if you like{why}"
        )
        self._log_end(logging.ERROR, "%s", str(error))
        self._beat_at = None
        self._close("it was given up for dead", error)
        core.port.given_up()
