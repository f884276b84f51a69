"""Jobs that will be over in no time: the thread that received their message does them itself.

Waking a thread of a pool takes longer than most functions run. So a job that is likely to be brief
is *offered*: on our own base an aide does it between two messages (see `base.aide`), and the pools'
threads do what the aide does not get to. A kind of job is taken to be brief until one of it has run
for longer than `BRIEF`; then it goes to the pool, until one has been brief again.

Jobs begin in the order in which they came: nothing is offered while a pool has a queue, and what
has been offered goes before what is not.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from .pool import Pool

BRIEF = 0.0003
"""Seconds that a brief job takes at most."""
MOST_KINDS = 10_000
"""Kinds of jobs that are remembered not to be brief."""
AT_ONCE = 16
"""Jobs between two looks at what comes in."""


class Brief:
    """The brief jobs of one endpoint. `do` and `disperse` are called by the base."""

    def __init__(self) -> None:
        self._offered: deque[tuple[Pool, Callable[..., object], tuple[Any, ...]]] = deque()
        self._long: set[Hashable] = set()
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
        later: list[Callable[[], None]],
    ) -> None:
        """Run ``job(*args)`` as one of *pool*'s; a thread of it is woken *later*, if at all."""
        with self._order:
            offered = kind not in self._long and not pool.waits and self.looks()
            if offered:
                self._offered.append((pool, job, args))
            else:
                self.disperse()
                pool.add(job, *args)
                later.append(pool.start)
        if offered and not self.looks():  # the aide's own job offers it, and has taken too long
            self.disperse()

    def took(self, kind: Hashable, seconds: float) -> None:
        """A job of *kind* has taken so long, and so will the next one. In any thread."""
        if seconds > BRIEF:
            if len(self._long) < MOST_KINDS:
                self._long.add(kind)
        elif kind in self._long:
            self._long.discard(kind)

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
