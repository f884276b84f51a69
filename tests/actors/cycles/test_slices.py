"""A search holds up its endpoint for a bounded number of objects at a time, however many there are.

The tests count the lines of Python that a thread runs while it has the endpoint's lock.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from farref import RRef, System, rpc_sync
from farref.actors.core import core
from farref.actors.core.delivery import Delivery
from farref.actors.cycles import exact

from ...waiting import eventually
from ..helpers import PATIENCE
from .rings import Node, closed, objects_of, ring_here
from .test_cost import is_of_searches

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

pytestmark = pytest.mark.processes
MANY, SOME = 1_000, 20
LINES = 400 * SOME
"""The most lines under the lock: some for each object of a slice."""


class CountingLock:
    """The lock of an endpoint. It knows the most lines that ran while a thread had it."""

    def __init__(self) -> None:
        self.lock: Any = threading.RLock()
        self.longest: list[str] = []
        self.files: set[str] = set()
        """The files with these lines."""
        self._lines: list[str] = []
        self._depth = 0

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self, *args: Any) -> bool:
        taken = bool(self.lock.acquire(*args))
        if taken:
            self._begin(1)
        return taken

    def release(self) -> None:
        self._end(1)
        self.lock.release()

    # for a `Condition`

    def locked(self) -> bool:
        return self._depth > 0

    def _is_owned(self) -> bool:
        return bool(self.lock._is_owned())

    def _release_save(self) -> Any:
        depth = self._depth
        self._end(depth)
        return depth, self.lock._release_save()

    def _acquire_restore(self, state: Any) -> None:
        self.lock._acquire_restore(state[1])
        self._begin(state[0])

    def _begin(self, times: int) -> None:
        self._depth += times
        if self._depth == times:
            self._lines = []
            frame: FrameType | None = sys._getframe(2)
            while frame is not None:
                frame.f_trace = self._note
                frame = frame.f_back
            sys.settrace(self._note)

    def _end(self, times: int) -> None:
        self._depth -= times
        if not self._depth:
            sys.settrace(None)
            if any(f"{Delivery.take_raw.__qualname__}:" in each for each in self._lines):
                # Other endpoints decide how many deletes they send together.
                self._lines = [each for each in self._lines if is_of_searches(each.split(" ")[0])]
            self.files.update(each.split(" ")[0] for each in self._lines)
            self.longest = max(self.longest, self._lines, key=len)

    def _note(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line" and self._depth:
            code = frame.f_code
            self._lines.append(f"{code.co_filename} {code.co_qualname}:{frame.f_lineno}")
        return self._note


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> CountingLock:
    """The lock of the next program, or of each worker that it forks a lock like this one."""
    lock = CountingLock()
    made = SimpleNamespace(RLock=lambda: lock, get_ident=threading.get_ident)
    monkeypatch.setattr(core, "threading", made)
    return lock


def one_ring(refs: list[Any]) -> None:
    closed(refs)


def many_rings(refs: list[Any]) -> None:
    for each in refs:
        each.local_value().link(each)


def a_star(refs: list[Any]) -> None:
    hub, *others = refs
    for each in others:
        hub.local_value().link(each)
        each.local_value().link(hub)


def over_two_endpoints(refs: list[Any]) -> None:
    for mine, theirs in zip(refs, rpc_sync("B", make, args=(refs,), timeout=60), strict=True):
        mine.local_value().link(theirs)


def make(refs: list[Any]) -> list[Any]:
    found = []
    for each in refs:
        node = Node()
        node.link(each)
        found.append(RRef(node))
    return found


@pytest.mark.parametrize("shape", [one_ring, many_rings, a_star, over_two_endpoints])
def test_no_step_deals_with_very_many_objects(
    shape: Any, lock: CountingLock, constants: Callable[..., None]
) -> None:
    constants(SLICE=SOME, SOME=SOME, MOST=SOME)
    with System(timeout=60) as system:
        system.worker("B")
        refs = [RRef(Node()) for _ in range(MANY)]
        shape(refs)
        refs.clear()
        lock.longest = []
        found: set[Any] = set()
        while len(found) < MANY:
            found |= objects_of(system.collect(timeout=PATIENCE))
        assert len(lock.longest) < LINES, Counter(lock.longest).most_common(5)


@pytest.mark.usefixtures("hasty")
def test_the_trial_of_this_python_does_not_hold_the_lock(lock: CountingLock) -> None:
    exact.is_exact.cache_clear()
    with System(timeout=60) as system:
        ring_here(1)
        eventually(lambda: system.counters()["program"].collected)
    assert exact.is_exact.cache_info().misses == 1
    assert lock.files
    assert exact.__file__ not in lock.files
