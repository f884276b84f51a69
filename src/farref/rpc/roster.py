"""The list of the ranks: who has arrived, and who is ready to leave.

The ranks call it on the endpoint of rank 0; if they come and leave, on that of their keeper. Each
call is answered by a future that is set once all ranks have called; no thread waits. Rank 0 itself
looks for dead ranks meanwhile (`lose`).

**The end.** A rank that wants to leave first waits until its own calls are answered. Then it tells
how many calls it has made, and waits for the others: that is one round. The functions of others
may have made calls here meanwhile, so there is another round, until no rank has made calls between
two rounds (the beginning counts as one). Then nobody waits for an answer, and no function runs for
anybody.
"""

from __future__ import annotations

from typing import TypeAlias

from ..actors.base.interrupts import Guard
from ..actors.calls.futures import Future
from ..protocol.errors import FarrefError, SystemDownError

Origin: TypeAlias = "tuple[str, int]"
"""The process of a rank: its host (`hosting.processes.host`), and its pid there."""
Listing: TypeAlias = "tuple[dict[int, str], bool, dict[int, Origin]]"
"""The names of the ranks, by rank; whether all run the same program; and their processes."""
Round: TypeAlias = "tuple[bool, tuple[int, ...]]"
"""Whether no rank has made calls since the round before; and the ranks that have died."""


MIXED = (
    "RPC group mixes statically and dynamically initialized members which is not supported. Give "
    "each rank the same world_size, or none of them"
)


class MisfitError(FarrefError, ValueError):
    """A rank does not fit to the others, or has no proper name. A `RuntimeError` in PyTorch."""


class Roster:
    """The ranks of one world. Thread-safe.

    In a world of size 0 each rank that arrives has its answer at once, with those that are there.
    """

    def __init__(self, size: int) -> None:
        self._lock = Guard()
        self._size = size
        self._arrived: dict[int, tuple[str, str, Origin, Future[Listing]]] = {}
        self._ready: dict[int, tuple[int, Future[Round]]] = {}
        self._calls = -1
        """The calls that all ranks had made at the end of the last round."""
        self._came: set[int] = set()
        """The ranks that have come, also those that do not fit."""
        self._refused: Exception | None = None
        """The reason why not all will arrive: the answer of all that still do."""
        self._began = False
        """Whether all ranks have arrived."""
        self._lost: set[int] = set()
        """The ranks that have died."""

    def arrive(self, rank: int, name: str, size: int, main: str, origin: Origin) -> Future[Listing]:
        """*rank* is there. The answer comes once all are.

        Raises:
            SystemDownError: the world of this meeting point ends; try again.
            MisfitError: it does not fit to the others.
        """
        future: Future[Listing] = Future()
        with self._lock:
            self._came.add(rank)
            if self._refused is not None:
                future.set_exception(self._refused)
                return future
            if (size == 0) != (self._size == 0):
                raise MisfitError(MIXED)
            if self._began:
                raise SystemDownError(f"{self._size} other ranks have met here, and have not left")
            if size != self._size:
                raise MisfitError(f"rank {rank} has world_size {size}, and rank 0 has {self._size}")
            names = {each: other for other, (each, *_) in self._arrived.items()}
            if rank in self._arrived:
                raise MisfitError(f"there is a rank {rank} already, {self._arrived[rank][0]!r}")
            if name in names:
                one, other = sorted((names[name], rank))
                raise MisfitError(f"name {name!r} is not unique: ranks {one} and {other} have it")
            self._arrived[rank] = name, main, origin, future
            self._began = len(self._arrived) == self._size
            there = sorted(self._arrived.items()) if self._began or size == 0 else []
        mains = {known for _, (_, known, *_) in there}
        listing = (
            {each: name for each, (name, *_) in there},
            len(mains) == 1 and "" not in mains,
            {each: origin for each, (*_, origin, _) in there},
        )
        for _, (*_, waiting) in there:
            if not waiting.done():
                waiting.set_result(listing)
        return future

    def forget(self, left: list[int]) -> None:
        """These ranks have left a world of size 0, or died; others may take their numbers."""
        with self._lock:
            for rank in left:
                self._arrived.pop(rank, None)

    @property
    def may_begin(self) -> bool:
        """Whether the ranks of a world of a fixed size still wait for each other."""
        return self._size > 0 and not self._began

    @property
    def all_came(self) -> bool:
        """Whether each rank has come, and so has its answer or waits for it. Lock-free."""
        return len(self._came) >= self._size

    def missing(self) -> list[int]:
        """The ranks that have not arrived."""
        with self._lock:
            return [rank for rank in range(self._size) if rank not in self._arrived]

    def names(self) -> dict[int, str]:
        """The names of the ranks that have arrived and are not lost."""
        with self._lock:
            there = self._arrived.items()
            return {rank: name for rank, (name, *_) in there if rank not in self._lost}

    def refuse(self, error: Exception) -> None:
        """Not all ranks will arrive: *error* is the answer of those that do."""
        with self._lock:
            self._refused = error
            waiting = [future for *_, future in self._arrived.values() if not future.done()]
        for future in waiting:
            future.set_exception(error)

    def ready(self, rank: int, calls: int) -> Future[Round]:
        """*rank*, which has made *calls* calls, waits for none.

        The answer comes once all have called this.
        """
        future: Future[Round] = Future()
        with self._lock:
            self._ready[rank] = calls, future
        self._end_round()
        return future

    def lose(self, rank: int) -> None:
        """*rank* has died: nobody waits for it any more."""
        with self._lock:
            self._lost.add(rank)
        self._end_round()

    def _end_round(self) -> None:
        with self._lock:
            if len(self._ready.keys() | self._lost) < self._size or not self._ready:
                return
            here = {rank: each for rank, each in self._ready.items() if rank not in self._lost}
            total = sum(calls for calls, _ in here.values())
            quiet, self._calls = total == self._calls, total
            waiting = [future for _, future in self._ready.values()]
            lost = tuple(sorted(self._lost))
            self._ready = {}
        for future in waiting:
            future.set_result((quiet, lost))
