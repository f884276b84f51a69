"""Requests on a reference leave at once, and run in that order at the value's owner."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import OwnerDiedError, RRef, System
from farref.trace.records import load

from ..handles.test_aliases import aliases, held_at, identity, mortal, sent
from ..helpers import hold, kill, make_box, until

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["mortal"]  # a fixture


class Log:
    """Records its requests, in order."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.size = 3
        self._timeout = self._how = self._rref = "its own"

    def say(self, what: Any) -> Log:
        self.said.append(what)
        return self

    def heard(self) -> list[Any]:
        return list(self.said)

    def other(self) -> RRef[Any]:
        return RRef(self)

    def __getitem__(self, key: Any) -> Any:
        return self.said[key]

    def __call__(self, what: Any) -> int:
        self.said.append(what)
        return len(self.said)

    def __getattr__(self, name: str) -> Any:
        if name == "dynamic":
            return "made up"
        raise AttributeError(name)


def make_log(gate: Path | None = None) -> Log:
    return hold(gate, Log()) if gate is not None else Log()


# ---- all operations on a remote object


@pytest.mark.parametrize("workers", ["B", "BCD"], ids=["object", "alias"])
def test_methods_calls_items_and_attributes(chain_system: System, gate: Path, workers: str) -> None:
    ref = aliases(workers, make_log, gate)
    said = [ref.rpc_async().say("one"), ref.rpc_async()("two")]
    first, size = ref.remote()[0], ref.remote().size.get()
    made_up = ref.rpc_async().dynamic.get()
    wrong = ref.rpc_async()[99]
    assert not any(future.done() for future in (*said, made_up, wrong))
    gate.touch()
    assert said[1].result() == 2
    assert (first.to_here(), size.to_here(), made_up.result()) == ("one", 3, "made up")
    with pytest.raises(IndexError):
        wrong.result()
    assert ref.rpc_sync().heard() == ["one", "two"]
    assert ref.rpc_sync()[1] == "two"
    assert ref.rpc_sync()("three") == 3
    proxy = ref.rpc_sync()
    assert {proxy._timeout.get(), proxy._how.get(), proxy._rref.get()} == {"its own"}
    with pytest.raises(AttributeError):
        ref.rpc_sync().nothing.get()


def test_a_class_is_called_and_read_like_any_object(chain_system: System) -> None:
    ref = farref.remote("B", identity, (dict,))
    made = ref.remote()(a=1)
    assert made.rpc_sync()["a"] == 1
    assert ref.rpc_sync().fromkeys("ab") == {"a": None, "b": None}


# ---- a chain of calls


@pytest.mark.processes
def test_a_chain_of_dependent_calls_waits_for_one_round_trip(tmp_path: Path) -> None:
    with System(timeout=20, trace=str(tmp_path)) as system:
        system.worker("B")
        ref = farref.remote("B", make_log)
        for number in range(10):
            ref = ref.remote().say(number)
        assert ref.rpc_sync().heard() == list(range(10))
    (records,) = load(next(tmp_path.glob("program-*"))).steps.values()
    asked = [step for step in records if step.message in {"Create", "Invoke", "Reply"}]
    # No message of the program waited for an answer to an earlier one.
    kinds = [(step.kind, step.message) for step in asked]
    assert kinds == [("send", "Create")] * 11 + [("send", "Invoke"), ("receive", "Reply")]
    assert sent(tmp_path).count("Reply") == 1


def test_a_chain_whose_links_return_references(chain_system: System) -> None:
    ref = aliases("BC", make_log)
    for number in range(5):
        ref = ref.remote().say(number).remote().other()
    assert ref.rpc_sync().heard() == list(range(5))


def test_no_call_overtakes_another_when_the_object_turns_out_to_be_elsewhere(
    chain_system: System, gate: Path
) -> None:
    ref = aliases("BCD", make_log, gate)
    futures, made, asked = [], [], []
    for number in range(60):
        if number == 20:
            gate.touch()
        match number % 3:
            case 0:
                futures.append(ref.rpc_async().say(number))
            case 1:
                made.append(ref.remote().say(number))
            case 2:
                asked.append((number, ref.future()))
        if number == 40:
            ref.to_here()  # from here on the program knows the value's place
    assert ref.rpc_sync().heard() == [number for number in range(60) if number % 3 != 2]
    for number, future in asked:
        seen = future.result().said
        assert seen == [each for each in range(number) if each % 3 != 2]


def test_a_pipelined_call_on_a_result_that_fails_says_why(chain_system: System) -> None:
    ref = aliases("BC", make_log)
    broken = ref.remote().absent("x")
    after = broken.remote().say(1)
    with pytest.raises(AttributeError, match="absent"):
        after.to_here()
    assert ref.rpc_sync().heard() == []


def test_a_call_that_waits_behind_an_alias_can_be_cancelled(
    chain_system: System, gate: Path
) -> None:
    ref = aliases("BC", make_log, gate)
    first, second = ref.rpc_async().say(1), ref.rpc_async().say(2)
    assert second.cancel()
    farref.rpc_sync("B", int)  # the cancel arrived before this, so before the gate opens
    gate.touch()
    first.result()
    with pytest.raises(CancelledError):
        second.result()
    assert ref.rpc_sync().heard() == [1]


@pytest.mark.parametrize("victim", ["B", "C", "D"])
def test_requests_on_a_chain_fail_when_an_owner_dies(
    mortal: System, gate: Path, victim: str
) -> None:
    ref = aliases("BCD", make_log, gate)
    call, fetch = ref.rpc_async().say(1), ref.future()
    made, later = ref.remote().say(2), ref.remote().say(3)
    chained = later.remote().say(4)
    assert until(mortal, lambda: len(held_at("D")) == 1)  # or B and C could not ask
    kill(victim)
    for wait in (call.result, fetch.result, *(it.to_here for it in (made, later, chained, ref))):
        with pytest.raises(OwnerDiedError):
            wait()


def test_references_travel_through_an_alias_and_come_back(chain_system: System, gate: Path) -> None:
    ref = aliases("BCD", make_log, gate)
    mine = RRef("mine")
    box = farref.remote("E", make_box)
    ref.rpc_async().say(mine)
    ref.remote().say(box)
    back = ref.rpc_async().heard()
    lent = ref.rpc_async()([mine, box])
    gate.touch()
    assert back.result() == [mine, box]
    assert back.result()[0].local_value() == "mine"
    assert lent.result() == 3
    assert ref.rpc_sync().heard() == [mine, box, [mine, box]]


# ---- arguments by value


def add(*numbers: int, more: int = 0) -> int:
    return sum(numbers) + more


async def add_async(a: int, b: int) -> int:
    return a + b


def kinds(*args: Any) -> list[str]:
    return [type(each).__name__ for each in args]


def test_arguments_may_be_references_that_are_not_there_yet(
    chain_system: System, gate: Path
) -> None:
    slow = aliases("BC", hold, gate, 5)
    started = farref.rpc_async("D", identity, (slow,))
    assert started.result() == slow  # it needed no argument, so it waited for none
    waits = farref.rpc_async("D", RRef.to_here, (slow,))
    gate.touch()
    assert waits.result() == 5


def test_a_task_gets_the_values_of_its_references(chain_system: System, gate: Path) -> None:
    five, six = aliases("BC", hold, gate, 5), farref.remote("E", hold, (gate, 6))
    total = farref.remote("D", add, (five, six, 1, five), {"more": six}, resolve=True)
    later = farref.rpc_async("D", add_async, (total, five), resolve=True)
    assert farref.rpc_sync("D", add, (1, 1)) == 2
    gate.touch()
    assert total.to_here() == 23
    assert later.result() == 28
    assert farref.rpc_sync("B", add, (five, 2), resolve=True) == 7
    assert farref.rpc_sync("B", kinds, ([five], five, 2), resolve=True) == ["list", "int", "int"]
    assert farref.rpc_sync("B", add, resolve=True) == 0


def test_a_task_that_waits_for_its_arguments_takes_no_thread() -> None:
    with System("simpleSystemBase", timeout=20) as system:
        system.worker("B", threads=1)
        missing = farref.remote("B", slot)
        waiting = [farref.rpc_async("B", add, (missing,), resolve=True) for _ in range(10)]
        assert farref.rpc_sync("B", add, (1, 2)) == 3
        farref.rpc_sync("B", fill_slot, (4,))
        assert [each.result() for each in waiting] == [4] * 10


SLOTS: list[farref.Future[int]] = []


def slot() -> farref.Future[int]:
    """Takes no thread until `fill_slot`, either."""
    SLOTS.append(farref.Future())
    return SLOTS[-1]


def fill_slot(value: int) -> None:
    SLOTS.pop().set_result(value)


def test_a_task_that_waits_for_its_arguments_can_be_cancelled(
    chain_system: System, gate: Path
) -> None:
    slow = farref.remote("B", hold, (gate, 5))
    waiting = farref.rpc_async("C", add, (slow,), resolve=True)
    assert farref.rpc_sync("C", add, (1,)) == 1
    waiting.cancel()
    with pytest.raises(CancelledError):
        waiting.result()
    assert until(chain_system, lambda: not _borrowed("C"))
    gate.touch()


def _borrowed(name: str) -> list[str]:
    return [row.rref for row in farref.rpc_sync(name, farref.references)]
