"""Faults, spans and traces come to the functions that every request runs, and replace none of them.

At each end, the functions are those of the one thread that does the work (see `test_steps`). They
are counted over some operations together: what other work adds comes less often.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System
from farref.testing import Faults, assert_nothing_held, drop

from ...counting import one_thread_works
from ...marks import COUNTED
from .keeping import forget, remember

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    Functions = Counter[str]
    """How often each function of farref was called: its file and its name."""

DUTIES_UNCHECKED = "it counts functions"

pytestmark = pytest.mark.processes
FEW = 10
"""The operations that are counted together."""
NEARLY = 8
"""So many calls among so many operations: each operation makes them, if nothing disturbs it."""
WARM = 100
ROUNDS, MOST = 20, 200
"""The rounds of a count, and the most of one that looks for a function."""

BY_TIME = {
    "actors/base/poller.py: Poller._spinning",
    "actors/core/links.py: Links.deadline",
    "actors/core/links.py: Links.due",
    "actors/core/links.py: Links.keep_time",
    "protocol/delivery.py: Channel.deadline",
}
"""Whether a process looks once more before it sleeps depends on the time that the other takes. And
a link has a new alarm only if its last one is over, which on a busy machine it is at nearly each
operation: two processes of pytest that run these tests at the same time are enough."""

PACKAGE = Path(farref.__file__).parent


class Profile:
    """Counts the functions that the thread that made it calls, until it is told to end."""

    def __init__(self) -> None:
        self._codes: Counter[Any] = Counter()
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self._codes[frame.f_code] += 1

    def end(self) -> Functions:
        sys.setprofile(None)
        found: Functions = Counter()
        for code, count in self._codes.items():
            path = Path(code.co_filename)
            if path.is_relative_to(PACKAGE):
                found[f"{path.relative_to(PACKAGE)}: {code.co_qualname}"] += count
        return found


_profiles: list[Profile] = []
"""At the worker."""


def begin() -> None:
    _profiles.append(Profile())


def end() -> Functions:
    return _profiles.pop().end()


# ---- the operations


THEIRS: list[RRef[Any]] = []
MINE: list[RRef[Any]] = []


def nothing(*_: object) -> None:
    pass


def call() -> None:
    farref.rpc_sync("B", nothing)


def call_later() -> None:
    farref.rpc_async("B", nothing).result()


def method() -> None:
    THEIRS[0].rpc_sync().count(1)


def fetch() -> None:
    THEIRS[0].to_here()


def create() -> None:
    farref.remote("B", nothing).to_here()


def lend() -> None:
    farref.rpc_sync("B", nothing, (MINE[0],))


OPERATIONS = (call, call_later, method, fetch, create, lend)


def rounds(
    operation: Callable[[], None], *, there: bool, most: int = ROUNDS
) -> Iterator[Functions]:
    """What *operation* runs, `FEW` times, in this thread or in that of B."""
    for _ in range(WARM):
        operation()
    for _ in range(most):
        profile = None
        if there:
            farref.rpc_sync("B", begin)
        else:
            profile = Profile()
        for _ in range(FEW):
            operation()
        yield profile.end() if profile is not None else farref.rpc_sync("B", end)


def each_time(found: list[Functions]) -> set[str]:
    """The functions that each operation runs, in most of the rounds."""
    nearly = Counter(name for one in found for name, count in one.items() if count >= NEARLY)
    return {name for name, count in nearly.items() if count > len(found) / 2} - BY_TIME


# ---- the systems


@contextmanager
def started(**options: Any) -> Iterator[System]:
    with pytest.MonkeyPatch.context() as patched:
        one_thread_works(patched)
        with System("farrefBase", timeout=20, **options) as system:
            system.worker("B")
            THEIRS.append(farref.remote("B", list))
            MINE.append(RRef([1]))
            THEIRS[0].to_here()
            yield system
            THEIRS.clear()
            MINE.clear()
            assert_nothing_held(system)


Production = dict[tuple[Any, bool], list["Functions"]]
"""The rounds of each operation, here and there, in a system without options."""


@pytest.fixture(scope="module")
def production() -> Production:
    with started():
        return {
            (operation, there): list(rounds(operation, there=there))
            for operation in OPERATIONS
            for there in (False, True)
        }


FAULTS = Faults(drop(kinds="Holders"))
"""Their rule strikes nothing."""
ADDED = {
    "faults": ("actors/core/faulty.py",),
    "overview": (),  # somebody looks, so latencies are counted
    "spans": (
        "actors/telemetry/spans.py",
        # For the names and attributes of spans:
        "actors/values/wrapper.py: unwrapped",
        "actors/wire/messages.py: WorkerInfo.name",
        "protocol/ids.py: RRefId.__str__",
        "protocol/ids.py: WorkerId.__str__",
        "protocol/messages.py: target_of",
    ),
    "trace": (
        "actors/recording/",
        # They tell the tracer the number of a message that leaves:
        "actors/core/core.py: Core._send",
        "actors/core/core.py: Core.left",
        "actors/core/core.py: Core._relayed",
        # For the rows of a trace:
        "protocol/messages.py: target_of",
    ),
}
"""The modules, and the single functions, that each way adds to the operations."""


@pytest.mark.long
@COUNTED
@pytest.mark.parametrize("way", ADDED)
def test_nothing_is_replaced(way: str, production: Production, tmp_path: Path) -> None:
    options: dict[str, dict[str, Any]] = {
        "faults": {"faults": FAULTS},
        "overview": {},
        "spans": {"telemetry": remember},
        "trace": {"trace": tmp_path},
    }
    if way == "spans":
        pytest.importorskip("opentelemetry.sdk")
    added: set[str] = set()
    wrong: list[str] = []
    with started(**options[way]) as system:
        if way == "overview":
            system.overview(latencies=3600)
        for (operation, there), plain in production.items():
            missing = each_time(plain)
            assert len(missing) > 20
            known = {name for one in plain for name in one}
            found: list[Functions] = []
            new = strange = set[str]()
            for one in rounds(operation, there=there, most=MOST):
                found.append(one)
                missing -= {name for name, count in one.items() if count >= NEARLY}
                new = each_time(found) - known
                strange = {name for name in new if not name.startswith(ADDED[way])}
                if len(found) >= ROUNDS and not missing and not strange:
                    break  # a busy machine may disturb the first rounds
            added |= new
            where = f"{operation.__name__} {'there' if there else 'here'}"
            wrong += [f"{where}: {name} is not run" for name in sorted(missing)]
            wrong += [f"{where}: {name} is new" for name in sorted(strange)]
    if way == "spans":
        forget()
    assert not wrong, "\n".join(wrong)
    assert any(name.startswith(ADDED[way]) for name in added) == bool(ADDED[way])
