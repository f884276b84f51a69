"""farref: this process is the program, its workers are processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thespian.actors import ActorExitRequest

import farref
from farref import RefActor, RRef, System

from ...actors.base import system_base
from ..peer import PATIENCE, Clock, Peer, resident, until
from ..things import Thing, added_up, array, checked, echo, live

if TYPE_CHECKING:
    from collections.abc import Callable

B, C = "W0", "W1"
kept: list[RRef[Any]] = []
"""What this process, a worker, holds beyond its calls."""


class Counter(RefActor):
    """Takes one-way messages, and says how many there were when it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def receiveMsg_int(self, _number: int, _sender: Any) -> None:  # noqa: N802
        """One more."""
        self.count += 1

    def receiveMsg_str(self, _question: str, sender: Any) -> None:  # noqa: N802
        """How many, and begin anew."""
        self.send(sender, self.count)
        self.count = 0


class Ours(Peer):
    """See the module."""

    def __init__(self, workers: int, *, spin: bool = True) -> None:
        super().__init__(workers)
        self.system = System(None if spin else system_base(spin=0.0), timeout=PATIENCE)
        self.names = [f"W{number}" for number in range(workers)]
        for name in self.names:
            self.system.worker(name)
        self.counter: Any = None
        self.held: list[Any] = []
        self.started = 0

    def close(self) -> None:
        """See `Peer.close`."""
        self.held.clear()
        self.system.shutdown()

    # ---- calls

    def call(self, amount: int, _: int) -> float:
        """Round trips."""
        with Clock() as clock:
            for number in range(amount):
                farref.rpc_sync(B, echo, (number,))
        return clock.seconds

    def in_flight(self, amount: int, _: int) -> float:
        """All of them at once."""
        with Clock() as clock:
            futures = [farref.rpc_async(B, echo, (number,)) for number in range(amount)]
            for future in futures:
                future.result()
        return clock.seconds

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

    def everybody(self, amount: int, _: int) -> float:
        """A call to each worker at once."""
        with Clock() as clock:
            for number in range(amount):
                futures = [farref.rpc_async(name, echo, (number,)) for name in self.names]
                for future in futures:
                    future.result()
        return clock.seconds

    # ---- references

    def remote_fetch(self, amount: int, _: int) -> float:
        """Make an object at a worker, and fetch it."""
        with Clock() as clock:
            for number in range(amount):
                farref.remote(B, echo, (number,)).to_here()
        return clock.seconds

    def share(self, amount: int, _: int) -> float:
        """A reference of the program's to B's object, in a call to C."""
        return self._share(touch, amount)

    def share_fetch(self, amount: int, _: int) -> float:
        """The same, and C fetches the object."""
        return self._share(fetch, amount)

    def _share(self, work: Any, amount: int) -> float:
        ref = farref.remote(B, echo, (1,))
        ref.to_here()
        with Clock() as clock:
            for _ in range(amount):
                farref.rpc_sync(C, work, (ref,))
        return clock.seconds

    def references(self, amount: int, point: int) -> float:
        """*point* references of the program's to B's objects, in one call to C."""
        refs = farref.rpc_sync(B, make, (point,))
        with Clock() as clock:
            for _ in range(amount):
                if farref.rpc_sync(C, count, (refs,)) != point:
                    raise AssertionError("some are missing")
        del refs
        self._wait_until_freed()
        return clock.seconds

    def create_drop(self, amount: int, _: int) -> float:
        """Objects made at B and let go of, until the last is freed."""
        with Clock() as clock:
            for _ in range(amount):
                farref.remote(B, Thing)
            self._wait_until_freed()
        return clock.seconds

    def _wait_until_freed(self) -> None:
        until(lambda: farref.rpc_sync(B, live) == len(self.held))

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
        """Fetch one that was fetched before by the same reference."""
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

    def share_holding(self, amount: int, point: int) -> float:
        """`share`, while the program holds *point* other references to B's objects."""
        if len(self.held) != point:
            self.held.clear()
            self._wait_until_freed()
            self.held += farref.rpc_sync(B, make, (point,))
        return self.share(amount, point)

    def holders(self, amount: int, _: int) -> float:
        """One object that every worker is given, and keeps, and drops, until it is freed."""
        with Clock() as clock:
            for _ in range(amount):
                ref = farref.remote(B, Thing)
                for future in [farref.rpc_async(name, keep, (ref,)) for name in self.names[1:]]:
                    future.result()
                del ref
                for future in [farref.rpc_async(name, let_go) for name in self.names[1:]]:
                    future.result()
                self._wait_until_freed()
        return clock.seconds

    def memory_holder(self, amount: int, _: int) -> float:
        """Bytes by which the program grows."""
        return self._memory(amount)[0]

    def memory_owner(self, amount: int, _: int) -> float:
        """Bytes by which B grows."""
        return self._memory(amount)[1]

    def _memory(self, amount: int) -> tuple[int, int]:
        warm = farref.rpc_sync(B, make, (100,))
        before = resident(), farref.rpc_sync(B, resident)
        refs = farref.rpc_sync(B, make, (amount,))
        after = resident(), farref.rpc_sync(B, resident)
        del warm, refs
        return after[0] - before[0], after[1] - before[1]

    def start_worker(self, amount: int, _: int) -> float:
        """A further process that answers."""
        with Clock() as clock:
            more = []
            for _ in range(amount):
                self.started += 1
                more.append(self.system.worker(f"N{self.started}"))
                farref.rpc_sync(more[-1], echo, (0,))
        for worker in more:
            self.system.tell(worker, ActorExitRequest())
        return clock.seconds


# ---- what runs at the workers


def touch(_ref: RRef[Any]) -> int:
    """Be given a reference."""
    return 1


def fetch(ref: RRef[Any]) -> Any:
    """Be given a reference, and fetch."""
    return ref.to_here()


def make(number: int) -> list[RRef[Thing]]:
    """References to as many new objects."""
    return [RRef(Thing()) for _ in range(number)]


def count(refs: list[RRef[Any]]) -> int:
    """How many there are."""
    return len(refs)


def keep(ref: RRef[Any]) -> None:
    """Hold it beyond the call."""
    kept.append(ref)


def let_go() -> None:
    """Hold nothing any more."""
    kept.clear()


def link(left: int, names: list[str]) -> Any:
    """A reference to what the other worker makes of the rest; at last a value."""
    return farref.remote(names[left % 2], link, (left - 1, names)) if left else 1
