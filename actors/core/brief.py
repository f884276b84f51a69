"""Jobs that will be over in no time: the thread that received their message does them itself.

Waking a thread of a pool takes longer than most functions run. So a job that is likely to be brief
is *offered*: on our own base an aide does it between two messages (see `base.aide`), and the pools'
threads do what the aide does not get to. A kind of job is taken to be brief until one of it has run
for longer than `BRIEF`. Then it goes to the pool.

It comes back, as that one may have met a pause that was not its own: of the collector, or of the
whole process. In the pool everything takes somewhat longer, as threads are woken and take turns. So
a kind that has been `NEARLY` brief there, several times in a row, is offered again, on trial. One
that fails its trial has to be so twice as often before the next.

Jobs begin in the order in which they came: nothing is offered while a pool has a queue, and what
has been offered goes before what is not.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Hashable

    from .pool import Pool

Later = list[Callable[[], None]]
"""What a step leaves to be done when the endpoint's lock is given back."""
BRIEF = 0.0003
"""Seconds that a brief job takes at most."""
NEARLY = 4 * BRIEF
"""Seconds that a brief job takes at most in a thread of the pool."""
PROOFS, MOST_PROOFS = 8, 1024
"""Jobs in a row that have been nearly brief before a trial: the first, and any."""
MOST_KINDS = 10_000
"""Kinds of jobs that are remembered not to be brief."""
AT_ONCE = 16
"""Jobs between two looks at what comes in."""


class Trial(msgspec.Struct):
    """A kind of job that was not brief."""

    proofs: int
    """Jobs that have to be nearly brief before its next trial."""
    left: int
    """Those of them that have not been so far; 0: it is on trial."""


class Brief:
    """The brief jobs of one endpoint. `do` and `disperse` are called by the base."""

    def __init__(self) -> None:
        self._offered: deque[tuple[Pool, Callable[..., object], tuple[Any, ...]]] = deque()
        self._long: dict[Hashable, Trial] = {}
        self._order = threading.RLock()
        """Held while jobs are offered, or taken: or a later one might begin first."""
        self.looks: Callable[[], bool] = lambda: False
        """Whether the calling thread will look at what is offered, as on our own base the mailbox
        thread and its aide do."""

    # ---- the endpoint, in any thread

    def submit(
        self,
        pool: Pool,
        kind: Hashable,
        job: Callable[..., object],
        *args: Any,
        later: Later,
    ) -> None:
        """Run ``job(*args)`` as one of *pool*'s; a thread of it is woken *later*, if at all."""
        with self._order:
            trial = self._long.get(kind)
            likely = trial is None or not trial.left
            offered = likely and not pool.waits and self.looks()
            if offered:
                self._offered.append((pool, job, args))
            else:
                self.disperse()
                pool.add(job, *args)
                later.append(pool.start)
        if offered and not self.looks():  # the aide's own job offers it, and has taken too long
            self.disperse()

    def took(self, kind: Hashable, seconds: float) -> None:
        """A job of *kind* has taken so long, and so may the next one. In any thread."""
        trial = self._long.get(kind)
        if seconds <= BRIEF:
            if trial is not None:
                self._long.pop(kind, None)
        elif trial is None:
            if len(self._long) < MOST_KINDS:
                self._long[kind] = Trial(PROOFS, PROOFS)
        elif not trial.left:
            trial.proofs = trial.left = min(2 * trial.proofs, MOST_PROOFS)
        elif seconds <= NEARLY:
            trial.left -= 1
        else:
            trial.left = trial.proofs

    # ---- the base; see `base.aide.Work`

    def __bool__(self) -> bool:
        """Whether something is offered."""
        return bool(self._offered)

    def do(self) -> None:
        """Do some of it in the calling thread, as far as the pools let it."""
        for _ in range(AT_ONCE):
            with self._order:
                if not self._offered:  # all is done, or others have been given it
                    return
                pool, job, args = self._offered.popleft()
                here = pool.enter()
                if not here:
                    pool.submit(job, *args)
            if here:
                pool.run_here(job, *args)

    def disperse(self) -> None:
        """Give it to the pools' threads."""
        if self._offered:
            with self._order:
                while self._offered:
                    pool, job, args = self._offered.popleft()
                    pool.submit(job, *args)
