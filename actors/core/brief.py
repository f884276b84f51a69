"""Brief jobs: the thread that received a job's message does the job itself.

Waking a thread of a pool takes longer than most functions run. So a job that is likely to be brief
is *offered*: on our own base a helper thread does it between two messages (`base.leadership`), and
the pools' threads do what the helper does not get to. A kind of job counts as brief until two jobs
of it in a row run for longer than `BRIEF`: a single slow one may be due to the garbage collector,
or to a pause of the process. Waits in which the job's thread receives, and copies into shared
memory, hold nothing up: they count only if the job takes longer than `NEARLY` with them.

A kind that is not brief is offered again, on trial, when it has been `NEARLY` brief in the pool
several times in a row. If it fails, it needs twice as many such runs before its next trial.

A pool's jobs begin in the order in which they came: nothing is offered while the pool has a queue,
and offered jobs go before others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from .pool import Pool

Later = list[Callable[[], None]]
"""Work that a step leaves until the endpoint's lock is given back."""
BRIEF = 0.0003
"""Seconds that a brief job takes at most."""
NEARLY = 4 * BRIEF
"""The same in a thread of the pool."""
PROOFS, MOST_PROOFS = 8, 1024
"""Nearly brief jobs in a row before a kind's trial: before the first trial, and at most."""
MOST_KINDS = 10_000
"""The most kinds that are remembered as not brief."""
AT_ONCE = 16
"""Jobs that a thread does before it looks at incoming messages again."""


class Trial(msgspec.Struct):
    """A kind of job.  Its last job was not brief."""

    proofs: int
    """Jobs that have to be nearly brief before its next trial."""
    left: int
    """The number of them still to come; 0: the kind is on trial."""


class Brief:
    """The brief jobs of one endpoint. The base calls `do` and `disperse`."""

    def __init__(self) -> None:
        self.offered: deque[tuple[Pool, Callable[..., object], tuple[Any, ...]]] = deque()
        """Jobs that a thread which receives will do."""
        self._long: dict[Hashable, Trial] = {}
        self._order = threading.RLock()
        """Held while jobs are offered or taken: otherwise a later job might begin first."""
        self.looks: Callable[[], bool] = lambda: False
        """Whether the calling thread will look at the offered jobs. On our own base the mailbox
        thread and its helper do."""
        self.leads: Callable[[], bool] = lambda: False
        """Whether it is sure to look, as it runs the loop now: no other thread can begin to."""

    # ---- the endpoint, in any thread

    def submit(
        self, pool: Pool, kind: Hashable, job: Callable[..., object], *args: Any, later: Later
    ) -> None:
        """Run ``job(*args)`` as a job of *pool*; *later* wakes a thread of it, if need be."""
        with self._order:
            trial = self._long.get(kind)
            likely = (trial is None or not trial.left) and not pool.jobs
            leads = likely and self.leads()
            if leads or (likely and self.looks()):
                self.offered.append((pool, job, args))
            else:
                self.disperse()
                pool.add(job, *args)
                later.append(pool.start)
                return
        if not leads and not self.looks():  # the helper's job offered it, and took too long
            self.disperse()

    def waits(self, pool: Pool) -> int:
        """The jobs of *pool* that have not begun.

        Without the lock, ``len(offered) + len(pool.jobs)`` is at least this, less one job that is
        on its way from the first to the second. Read the first one first.
        """
        with self._order:
            return len(pool.jobs) + sum(each[0] is pool for each in self.offered)

    def took(self, kind: Hashable, seconds: float, waited: float = 0.0) -> None:
        """A job of *kind* took *seconds*; expect the same of the next one. In any thread.

        *waited*: the part of them in which its thread has received messages, or has only copied.
        """
        trial = self._long.get(kind)
        if seconds <= BRIEF or (waited and seconds <= NEARLY and seconds - waited <= BRIEF):
            if trial is not None:
                self._long.pop(kind, None)
        elif trial is None:
            if len(self._long) < MOST_KINDS:
                self._long[kind] = Trial(PROOFS // 2, 0)  # the next one decides
        elif not trial.left:
            trial.proofs = trial.left = min(2 * trial.proofs, MOST_PROOFS)
        elif seconds <= NEARLY:
            trial.left -= 1
        else:
            trial.left = trial.proofs

    # ---- the base; see `base.leadership.Work`

    def do(self) -> None:
        """Do some offered jobs in the calling thread, as far as the pools let it."""
        offered = self.offered
        for _ in range(AT_ONCE):
            if not offered:
                return
            with self._order:
                if not offered:  # others have them
                    return
                pool, job, args = offered.popleft()
                if not pool.enter():
                    pool.submit(job, *args)
                    continue
            pool.run_here(job, args)

    def disperse(self) -> None:
        """Give the offered jobs to the pools' threads."""
        if self.offered:
            with self._order:
                while self.offered:
                    pool, job, args = self.offered.popleft()
                    pool.submit(job, *args)
