"""The work that could wear a system out: each kind of operation, many times."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import farref
from farref import FetchTimeoutError, RefActor, RRef, System

SHORT = 0.001
"""Seconds: the shortest possible wait."""


class Answering(RefActor):
    """Answers every message, except a request for silence."""

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        if message != "silence":
            self.send(sender, message)


def take(ref: RRef[int]) -> None:
    """Take a reference, and let it go."""


def make(number: int) -> int:
    return number


def nap() -> None:
    time.sleep(2 * SHORT)


def share(system: System, name: str) -> None:
    farref.rpc_sync(name, take, (RRef(1),))


def fetch(system: System, name: str) -> None:
    RRef.to_here(_made(name))


def create(system: System, name: str) -> None:
    _made(name)


def ask(system: System, name: str) -> None:
    assert system.ask(name, "so?") == "so?"


def run_out(system: System, name: str) -> None:
    """A call and an ask without an answer in time."""
    with contextlib.suppress(FetchTimeoutError):
        farref.rpc_sync(name, nap, timeout=SHORT)
    with contextlib.suppress(FetchTimeoutError):
        system.ask(name, "silence", timeout=SHORT)


def cancel(system: System, name: str) -> None:
    farref.rpc_async(name, make, (1,)).cancel()


def _made(name: str) -> RRef[int]:
    return farref.remote(name, make, (1,))


KINDS: tuple[Callable[[System, str], None], ...] = (share, fetch, create, ask, run_out, cancel)


def work(system: System, name: str, times: int) -> None:
    """Do each kind of operation *times* times on the worker *name*; waits for the last result."""
    for _ in range(times):
        for each in KINDS:
            each(system, name)
    farref.rpc_sync(name, make, (1,))
