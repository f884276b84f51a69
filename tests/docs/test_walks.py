"""CONTRIBUTING's walks through the code: every hop of theirs comes, in their order."""

from __future__ import annotations

import re
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorExitRequest

import farref
from farref import System

from ..packaging.imports import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from farref import RRef

HOP = re.compile(r"^((?:actors|protocol)/\S+\.py) +(\S+) ", re.MULTILINE)
FARREF = Path(farref.__file__).parent
kept: list[Any] = []


def walks() -> list[list[tuple[str, str]]]:
    """The hops of each walk: file and function."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return [hops for block in text.split("```") if len(hops := HOP.findall(block)) > 1]


def keep(ref: RRef[Any]) -> None:
    kept.append(ref)


def call() -> None:
    assert farref.rpc_sync("B", pow, (2, 3)) == 8


def loan() -> None:
    ref = farref.remote("B", list)
    ref.to_here()
    farref.rpc_sync("C", keep, (ref,))
    (system,) = System.running()
    end = time.monotonic() + 20
    while system.endpoint.core.context.users[ref.id].children:  # the acknowledgement may come late
        system.workers()
        assert time.monotonic() < end
    kept.clear()


class Thing:
    freed = threading.Event()

    def __init__(self) -> None:
        weakref.finalize(self, self.freed.set)


def death() -> None:
    farref.rpc_sync("C", keep, (farref.remote("B", Thing),))
    (system,) = System.running()
    system.tell("C", ActorExitRequest())
    end = time.monotonic() + 20
    while not Thing.freed.is_set():
        system.workers()  # the actors run during such calls
        assert time.monotonic() < end
    kept.clear()


@pytest.fixture
def calls() -> Iterator[list[tuple[str, str]]]:
    """Every function of farref that any thread calls; all endpoints are in this process."""
    seen: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(FARREF):
            seen.append((file.relative_to(FARREF).as_posix(), frame.f_code.co_qualname))

    threading.setprofile(note)
    try:
        with System("simpleSystemBase", timeout=30, orphan_grace=0.1) as system:
            system.worker("B"), system.worker("C")
            sys.setprofile(note)
            yield seen
            sys.setprofile(None)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.parametrize(("number", "work"), list(enumerate((call, loan, death))))
def test_every_hop_of_a_walk_comes_in_its_order(
    number: int, work: Any, calls: list[tuple[str, str]]
) -> None:
    hops = walks()[number]
    assert len(walks()) == 3
    calls.clear()
    work()
    later = iter(list(calls))
    assert [hop for hop in hops if hop not in later] == []
