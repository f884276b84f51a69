"""The failure detector: how a registrar, or a registrar proxy, finds out that an endpoint is dead.

The framework tells the parent of an actor when the actor exits. Everything else is detected here. A
program has no parent, so its process is checked. And a process that is stopped or cut off does not
exit: its endpoint falls silent (`farref.protocol.liveness`). Silence alone proves nothing, because
a process may be computing without letting its other threads run. So the process must also be
stopped, or gone. One that a person has stopped, by Ctrl-Z or in a debugger, is waited for. The host
agent checks the processes of endpoints on its own host.

If a link is cut for less than `silence`, nobody is given up. The last beat may have come a whole
interval before the cut, TCP may send the next one `RETRANSMISSION` after its end, and the first
tick may have been nearly over when the last beat came:

    cut + interval of beats + RETRANSMISSION + one tick < patience

So the patience of a detector is `silence` and the other three. Those that are cut off count their
own beats without an answer, from the first: cut + RETRANSMISSION < (BEATS + missed) * interval.
"""

from __future__ import annotations

import math

from ...protocol.ids import WorkerId
from ...protocol.liveness import Liveness
from ..base.lives import Watched

SILENT_TICKS = 10
"""Ticks of a failure detector in `silence`."""
BEATS = 5
"""Beats of a host in `silence`. Endpoints beat less often, but the process of an endpoint is
checked before the endpoint is given up."""
RETRANSMISSION = 1.0
"""Seconds from the end of a cut until TCP sends again what was lost, at most.

Before Linux 6.15 this may take as long as the cut: then half of `silence` is survived.
"""
STOPPED = ", as its process is stopped (SIGSTOP)"
ENDED = "its process has ended"


def missed(interval: float) -> int:
    """The beats, or ticks, of one *interval* that may pass until TCP sends again."""
    return math.ceil(RETRANSMISSION / interval)


class FailureDetector:
    """Watches endpoints and hosts."""

    def __init__(self) -> None:
        self._liveness: Liveness | None = None
        self._silence = 0.0
        self._processes: dict[WorkerId, Watched] = {}
        self._programs: set[WorkerId] = set()

    @property
    def idle(self) -> bool:
        return self._liveness is None and not self._programs

    def count_silence(self, seconds: float | None) -> None:
        """Give up endpoints that are silent for *seconds*, or none if that is None."""
        ticks = 0 if seconds is None else SILENT_TICKS // BEATS + 1 + missed(seconds / SILENT_TICKS)
        self._liveness = None if seconds is None else Liveness(SILENT_TICKS + ticks)
        self._silence = seconds or 0.0

    def silent(self, worker: WorkerId) -> str:
        """The cause of the death of *worker*, an endpoint or host that is silent, in words."""
        process = self._processes.get(worker)
        stopped = process is not None and not process.running() and process.alive()
        return f"it was silent for {self._silence:g} s{STOPPED if stopped else ''}"

    def watch(self, worker: WorkerId, pid: int | None, *, program: bool, beats: bool) -> None:
        """Watch an endpoint. *pid*: its process, if that is on this host."""
        process = None if pid is None else Watched.of(pid)
        if process is not None:
            self._processes[worker] = process
            if program:
                self._programs.add(worker)
        if beats:
            self.expect(worker)

    def expect(self, worker: WorkerId) -> None:
        if self._liveness:
            self._liveness.watch(worker)

    def heard(self, worker: WorkerId) -> bool:
        """Note a beat of *worker*. Returns False if it was given up before."""
        return self._liveness is None or self._liveness.heard(worker)

    def forget(self, worker: WorkerId) -> None:
        """Stop watching *worker*, which is dead or has left."""
        self._processes.pop(worker, None)
        self._programs.discard(worker)
        if self._liveness:
            self._liveness.forget(worker)

    def tick(self) -> tuple[list[WorkerId], list[WorkerId]]:
        """The programs whose process has ended, and the endpoints and hosts that are silent.

        The processes of silent endpoints on this host do not run.
        """
        ended = [worker for worker in self._programs if not self._processes[worker].alive()]
        silent = []
        for worker in self._liveness.tick() if self._liveness else ():
            process = self._processes.get(worker)
            if process is not None and process.running():
                self.expect(worker)  # it computes, and will beat again
            elif worker not in ended:
                silent.append(worker)
        return ended, silent
