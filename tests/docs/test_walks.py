"""The walks of docs/walks.md: every hop comes, in order.

The walks go the default way: our base, with a process for each actor, and "lend". The processes of
the system are forked from this one while its threads note the functions of farref that they call,
so each process notes them, too: all in one file, in the order in which they are called.
"""

from __future__ import annotations

import mmap
import os
import re
import sys
import threading
import weakref
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from thespian.actors import ActorExitRequest

import farref
from farref import RefActor, RRef, System

from ..counting import one_thread_works
from ..packaging.imports import ROOT
from ..waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from thespian.actors import ActorAddress

    Hop = tuple[str, str]
    """A file and a function."""

pytestmark = pytest.mark.processes

HOP = re.compile(r"^((?:actors|protocol|serialization)/\S+\.py) +(\S+) ", re.MULTILINE)
FARREF = f"{Path(farref.__file__).parent}/"
SIZE = 200_000
FLAGS = mmap.mmap(-1, 2)
"""Of all processes: whether functions are noted, and whether the other end is done."""
NOTING, DONE = 0, 1


def walks() -> list[list[Hop]]:
    """The hops of each walk."""
    text = (ROOT / "docs" / "walks.md").read_text(encoding="utf-8")
    return [hops for block in text.split("```") if len(hops := HOP.findall(block)) > 1]


class Notes:
    """The functions of farref that any thread calls, in this process and in those forked later."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[int, int] = {}
        self._lines: dict[CodeType, bytes] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not FLAGS[NOTING]:
            return
        code = frame.f_code
        line = self._lines.get(code)
        if line is None:
            ours, _, file = code.co_filename.partition(FARREF)
            line = b"" if ours or not file else f"{file} {code.co_qualname}\n".encode()
            self._lines[code] = line
        if line:
            os.write(self._file(), line)

    def _file(self) -> int:
        """The open file of this process: a child may have closed that of its parent."""
        pid = os.getpid()
        if pid not in self._files:
            flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
            self._files[pid] = os.open(self._path, flags, 0o600)
        return self._files[pid]

    def of(self, work: Callable[[], object], done: Callable[[], object] = bool) -> list[Hop]:
        """The functions that are called from the beginning of *work* until *done*."""
        self._path.write_bytes(b"")
        FLAGS[DONE] = 0
        FLAGS[NOTING] = 1
        try:
            work()
            eventually(done)
        finally:
            FLAGS[NOTING] = 0
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [(file, function) for file, function in map(str.split, lines)]


def other_end() -> bool:
    return FLAGS[DONE] == 1


def nothing(*_: object) -> None:
    pass


kept: list[Any] = []


def keep(ref: RRef[Any]) -> None:
    kept.append(ref)


def array() -> Any:
    return np.ones(SIZE, np.uint8)


class Listener(RefActor):
    """Keeps the last list that it gets."""

    def receiveMsg_list(self, message: list[Any], sender: ActorAddress) -> None:
        kept[:] = message
        FLAGS[DONE] = 1

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        kept.clear()
        self.send(sender, message)


def note_the_end() -> None:
    FLAGS[DONE] = 1


class Thing:
    def __init__(self) -> None:
        weakref.finalize(self, note_the_end)


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    made = Notes(tmp_path / "functions")
    threading.setprofile(made)
    sys.setprofile(made)
    try:
        yield made
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture
def system(notes: Notes) -> Iterator[System]:
    with pytest.MonkeyPatch.context() as patched:
        one_thread_works(patched)
        with System(timeout=30, orphan_grace=0.2, cycles="off") as system:
            system.worker("B")
            yield system


def call(system: System, notes: Notes) -> Iterator[list[Hop]]:
    """A call with a reference."""
    mine = RRef([1])
    while True:
        yield notes.of(lambda: farref.rpc_sync("B", nothing, (mine,)), lambda: True)


def tell(system: System, notes: Notes) -> Iterator[list[Hop]]:
    """A one-way message with a reference."""
    mine, listener = RRef([1]), system.create(Listener)
    while True:
        yield notes.of(lambda: system.tell(listener, [mine]), other_end)
        system.ask(listener, "let go")


def fetch(system: System, notes: Notes) -> Iterator[list[Hop]]:
    """A fetch of a frozen array."""
    refs = [farref.remote("B", array, frozen=True) for _ in range(100)]
    for ref in refs:
        farref.rpc_sync("B", nothing)  # what is due at the ends is known again
        yield notes.of(ref.to_here, lambda: True)


def death(system: System, notes: Notes) -> Iterator[list[Hop]]:
    """A death."""
    while True:
        worker = system.worker(f"C{os.urandom(4).hex()}")
        farref.rpc_sync(worker, keep, (farref.remote("B", Thing),))
        yield notes.of(partial(system.tell, worker, ActorExitRequest()), other_end)


WARM = {call: 20, tell: 20, fetch: 20, death: 0}
"""The rounds of each operation before it counts."""
ROUNDS = 10
"""The rounds that count. Work that is due after a time comes in a few of them only."""
MOST = 200
"""The rounds in which each hop must come once. On a busy machine other threads help in many."""
OPENED = {call: 33, tell: 31, fetch: 30}
"""The most files that an operation opens at all ends. A death ends a process, which opens more."""


@pytest.mark.parametrize(("number", "operation"), list(enumerate(WARM)))
def test_every_hop_of_a_walk_comes_in_its_order(
    system: System, notes: Notes, number: int, operation: Any
) -> None:
    assert len(walks()) == len(WARM)
    hops = missing = walks()[number]
    rounds = operation(system, notes)
    for _ in range(WARM[operation]):
        next(rounds)
    for called in islice(rounds, MOST):
        later = iter(called)
        missing = [hop for hop in hops if hop not in later]
        if not missing:
            break
    assert missing == []


@pytest.mark.parametrize("operation", OPENED)
def test_files_that_an_operation_opens(system: System, notes: Notes, operation: Any) -> None:
    rounds = operation(system, notes)
    for _ in range(WARM[operation]):
        next(rounds)
    opened = set.intersection(*({file for file, _ in each} for each in islice(rounds, ROUNDS)))
    sys.stdout.write("\n  ".join((operation.__doc__, f"{len(opened)} files", *sorted(opened))))
    assert len(opened) <= OPENED[operation]
