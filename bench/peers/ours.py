"""farref: this process is the program, its workers are processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thespian.actors import ActorExitRequest

import farref
from farref import RefActor, RRef, System
from farref.actors.base import system_base

from ..peer import PATIENCE, Clock
from ..things import Thing, added_up, array, checked, echo
from .rpc import B, RpcPeer

if TYPE_CHECKING:
    from collections.abc import Callable


class Counter(RefActor):
    """Takes one-way messages, and tells their number on request."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def receiveMsg_int(self, _number: int, _sender: Any) -> None:  # noqa: N802 - Thespian's
        """Count one more."""
        self.count += 1

    def receiveMsg_str(self, _question: str, sender: Any) -> None:  # noqa: N802 - Thespian's
        """Answer the number, and begin anew."""
        self.send(sender, self.count)
        self.count = 0


class Ours(RpcPeer):
    """farref as a peer."""

    def __init__(self, workers: int, *, spin: bool = True) -> None:
        super().__init__(workers)
        self.api, self.make = farref, make
        self.system = System(None if spin else system_base(spin=0.0), timeout=PATIENCE)
        self.names = [f"W{number}" for number in range(workers)]
        for name in self.names:
            self.system.worker(name)
        self.counter: Any = None
        self.held: list[Any] = []
        self.started = 0

    def close(self) -> None:
        self.held.clear()
        self.system.shutdown()

    def one_way(self, amount: int, _: int) -> float:
        """Messages to an actor, until it has handled the last."""
        if self.counter is None:
            self.counter = self.system.create(Counter)
        with Clock() as clock:
            for number in range(amount):
                self.system.tell(self.counter, number)
            got = self.system.ask(self.counter, "how many?")
        if got != amount:
            raise AssertionError(f"{got} of {amount} messages were handled")
        return clock.seconds

    # ---- references

    def alias_chain(self, amount: int, point: int) -> float:
        """A task that returns a reference, *point* times over, and the value at the end."""
        with Clock() as clock:
            for _ in range(amount):
                value = farref.remote(B, link, (point, self.names[:2])).to_here()
                if value != 1:
                    raise AssertionError(f"the chain ends in {value}")
        return clock.seconds

    def value(self, amount: int, point: int) -> float:
        """Fetch arrays of *point* bytes, each for the first time."""
        return self._fetch(self._arrays(amount, point), checked, point)

    def value_read(self, amount: int, point: int) -> float:
        """The same, and add up every byte."""
        return self._fetch(self._arrays(amount, point), added_up, point)

    def frozen(self, amount: int, point: int) -> float:
        """Fetch arrays of *point* bytes that are frozen, each for the first time."""
        return self._fetch(self._arrays(amount, point, frozen=True), checked, point)

    def frozen_read(self, amount: int, point: int) -> float:
        """The same, and add up every byte."""
        return self._fetch(self._arrays(amount, point, frozen=True), added_up, point)

    def frozen_again(self, amount: int, point: int) -> float:
        """Fetch one that the same reference fetched before."""
        (ref,) = self._arrays(1, point, frozen=True)
        ref.to_here()
        return self._fetch([ref] * amount, checked, point)

    def _arrays(self, number: int, size: int, *, frozen: bool = False) -> list[RRef[Any]]:
        refs = [farref.remote(B, array, (size,), frozen=frozen) for _ in range(number)]
        farref.wait(refs, len(refs))
        return refs

    def _fetch(self, refs: list[RRef[Any]], look: Callable[[Any, int], None], size: int) -> float:
        with Clock() as clock:
            for ref in refs:
                look(ref.to_here(), size)
        return clock.seconds

    # ---- scaling

    def start_worker(self, amount: int, _: int) -> float:
        """One more process, until it answers."""
        with Clock() as clock:
            more = []
            for _ in range(amount):
                self.started += 1
                more.append(self.system.worker(f"N{self.started}"))
                farref.rpc_sync(more[-1], echo, (0,))
        for worker in more:
            self.system.tell(worker, ActorExitRequest())
        return clock.seconds


# ---- functions for the workers


def make(number: int) -> list[RRef[Thing]]:
    """References to *number* new objects."""
    return [RRef(Thing()) for _ in range(number)]


def link(left: int, names: list[str]) -> Any:
    """A reference to the other worker's result for the remaining links; at the end a value."""
    return farref.remote(names[left % 2], link, (left - 1, names)) if left else 1
