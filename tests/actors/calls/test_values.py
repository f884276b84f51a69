"""Large values between real endpoints: shared memory, frozen values, deaths, leftovers."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

import farref
from farref import (
    OwnerDiedError,
    RRef,
    SenderDiedError,
    SerializationError,
    System,
    WorkerDiedError,
)
from farref.actors.base import Limits, system_base
from farref.actors.base.outgoing import OutConnection
from farref.actors.serving import server
from farref.actors.values import packing
from farref.serialization import mapping, shared, slots
from farref.serialization.frozen import ALONE
from farref.serialization.slots import SLOTS
from farref.testing import Faults, counts, drop, duplicate

from ...bases import PROCESSES
from ...marks import SHARED_MEMORY
from ...pressing import Pressing, Ringing, pressed, rung
from ...stopping import stop, stopped
from ...waiting import eventually
from ..core.interrupting import Interrupting
from ..helpers import PATIENCE, hold, until
from .noting import Copied, noted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SIZE = 1 << 20
OPENING = "/futures.py", "/packing.py", "/pickling.py", "/shared.py", "/slots.py"
"""The modules that unpickle a reply."""
READ_ONLY = "assignment destination is read-only"


def shared_by_processes(test: Any) -> Any:
    return SHARED_MEMORY(pytest.mark.processes(test))


def sevens(size: int = SIZE) -> Any:
    return np.full(size, 7, np.uint8)


async def sevens_later() -> Any:
    return sevens()


def fill(array: Any, number: int) -> Any:
    array[:] = number
    return array


def total(value: Any) -> int:
    return int(value.sum())


def total_of(ref: RRef[Any]) -> int:
    return total(ref.to_here())


kept: list[Any] = []


def keep(*values: Any) -> None:
    kept.extend(values)


def keep_value(ref: RRef[Any]) -> None:
    kept.append(ref.to_here())


def total_kept() -> int:
    return total(kept[0])


def asked_of(name: str) -> int:
    """The number of requests that wait here for the object of that id."""
    return sum(row.tasks for row in farref.references() if row.rref == name)


def let_go() -> None:
    kept.clear()
    gc.collect()


def look(pid: int | None = None) -> tuple[int, int]:
    """The numbers of segments that a process has open and mapped, with slots and kept ones.

    Without *pid* this process lets go of those first.
    """
    if pid is None:
        slots.forget()
        shared.recycler.empty()
    folder = Path("/proc") / str(pid or "self")
    links = []
    for each in (folder / "fd").iterdir():
        try:
            links.append(os.readlink(each))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    maps = (folder / "maps").read_text().splitlines()
    return (
        sum(link.startswith("/memfd:farref") for link in links),
        sum("/memfd:farref" in line for line in maps),
    )


def assert_freed(system: System, *names: str) -> None:
    """Neither this process nor those of *names* have a segment open or mapped."""
    gc.collect()
    for name in names:
        farref.rpc_sync(name, gc.collect)

    def left() -> dict[str, tuple[int, int]]:
        found = {"here": look()} | {name: farref.rpc_sync(name, look) for name in names}
        return {name: each for name, each in found.items() if any(each)}

    assert until(system, lambda: not left()), left()


# ---- on every base


MIDDLING = 100_000
"""The bytes of an array that crosses in a slot."""


@pytest.mark.parametrize("size", [MIDDLING, SIZE])
def test_what_was_fetched_is_ones_own(system: System, size: int) -> None:
    ref = farref.remote("B", sevens, (size,))
    mine, other = ref.to_here(), ref.to_here()
    mine[:] = 1
    assert total(other) == total(ref.rpc_sync().copy()) == total_of(ref) == 7 * size
    assert total(farref.rpc_sync("B", sevens, (size,))) == 7 * size
    assert farref.rpc_sync("B", bytes, (size,)) == bytes(size)
    assert farref.rpc_sync("C", total_of, (ref,)) == 7 * size
    alias = farref.remote("C", lambda: farref.remote("B", sevens, (size,)))
    assert total_of(alias) == total_of(alias) == 7 * size


def test_more_values_than_slots(system: System) -> None:
    many = 5 * SLOTS
    refs = [farref.remote("B", fill, (np.zeros(MIDDLING, np.uint8), n)) for n in range(many)]
    calls = [farref.rpc_async("C", total_of, (ref,)) for ref in refs]
    results = [farref.rpc_async("B", fill, (np.zeros(MIDDLING, np.uint8), n)) for n in range(many)]
    expected = [n * MIDDLING for n in range(many)]
    assert [total(array) for array in farref.get(refs)] == expected
    assert [call.result() for call in calls] == expected
    assert [total(call.result()) for call in results] == expected


def test_what_is_changed_is_never_stale(system: System) -> None:
    mine = RRef(sevens())
    assert farref.rpc_sync("B", total_of, (mine,)) == 7 * SIZE
    mine.local_value()[:] = 1
    assert farref.rpc_sync("B", total_of, (mine,)) == SIZE
    array = sevens()
    future = farref.rpc_async("B", total, (array,))
    array[:] = 1
    assert future.result() == 7 * SIZE
    assert total(farref.rpc_sync("B", fill, (array, 2))) == 2 * SIZE
    assert total(array) == SIZE


def test_a_frozen_value_cannot_be_changed(system: System) -> None:
    array = sevens()
    mine, there = RRef(array, frozen=True), farref.remote("B", sevens, frozen=True)
    array[:] = 1  # the program's own array is still writable
    for value in (mine.local_value(), mine.to_here(), there.to_here(), there.to_here()):
        assert total(value) == 7 * SIZE
        with pytest.raises(ValueError, match=READ_ONLY):
            value[0] = 1
        value.copy()[:] = 0
    for ref in (mine, there):
        assert farref.rpc_sync("C", total_of, (ref,)) == 7 * SIZE
    assert there.rpc_sync().sum() == 7 * SIZE
    with pytest.raises(ValueError, match=READ_ONLY):
        there.rpc_sync().fill(0)


FROZEN: dict[str, Callable[[], RRef[Any]]] = {
    "async": lambda: farref.remote("B", sevens_later, frozen=True),
    "method": lambda: farref.remote("B", sevens).remote(frozen=True).copy(),
    "operation": lambda: farref.remote("B", list, ([sevens()],)).remote(frozen=True)[0],
    "by value": lambda: farref.remote(
        "B", fill, (farref.remote("C", sevens), 7), resolve=True, frozen=True
    ),
}


@pytest.mark.parametrize("how", FROZEN)
def test_any_result_may_be_frozen(system: System, how: str) -> None:
    value = FROZEN[how]().to_here()
    assert total(value) == 7 * SIZE
    with pytest.raises(ValueError, match=READ_ONLY):
        value[0] = 1


def test_an_alias_says_nothing_of_the_object(system: System) -> None:
    """The object behind an alias is frozen, or not, by its own creation."""

    def frozen_there() -> RRef[Any]:
        return RRef(sevens(), frozen=True)

    def made_there() -> RRef[Any]:
        return farref.remote("C", sevens)

    assert not farref.remote("B", frozen_there).to_here().flags.writeable
    assert farref.remote("B", made_there, frozen=True).to_here().flags.writeable


def test_references_in_a_frozen_value(system: System) -> None:
    inner = farref.remote("B", sevens, frozen=True)
    outer = RRef({"inner": inner, "array": sevens(), "again": [inner]}, frozen=True)
    name = str(inner.id)
    del inner
    gc.collect()
    rows = {row.rref: row for row in farref.references()}
    assert rows[str(outer.id)].contains == (name,)
    assert rows[str(outer.id)].type == "dict"
    assert rows[str(outer.id)].frozen
    value = outer.local_value()
    assert value["inner"] is value["again"][0]
    assert farref.rpc_sync("C", lambda ref: total_of(ref.to_here()["inner"]), (outer,)) == 7 * SIZE
    again = [outer.to_here() for _ in range(3)]
    assert {each["inner"] for each in again} == {value["inner"]}
    del value, outer
    assert total_of(again[0]["inner"]) == 7 * SIZE  # it keeps its content alive


def test_a_list_is_made_anew_each_time(system: System) -> None:
    """So no other reader sees a change that one reader makes, and neither does the owner."""
    ref = RRef([1, sevens()], frozen=True)
    ref.local_value().append(2)
    ref.rpc_sync().append(3)
    ref.to_here().append(4)
    assert len(ref.local_value()) == len(ref.to_here()) == 2
    assert ref.rpc_sync().index(1) == 0
    assert total(ref.rpc_sync().pop()) == total(ref.rpc_sync().pop()) == 7 * SIZE


def test_a_fetched_frozen_value_is_a_value_like_others(system: System) -> None:
    value = farref.remote("B", sevens, frozen=True).to_here()
    assert farref.rpc_sync("C", total, (value,)) == 7 * SIZE
    with pytest.raises(ValueError, match=READ_ONLY):
        farref.rpc_sync("C", fill, (value, 1))
    again = RRef(value, frozen=True)
    assert farref.rpc_sync("C", total_of, (again,)) == 7 * SIZE
    assert total(again.local_value()[::2].copy()) == 7 * SIZE // 2


def test_on_delete_gets_a_value(system: System) -> None:
    told: list[int] = []
    ref = RRef(sevens(), on_delete=lambda value: told.append(total(value)), frozen=True)
    del ref
    assert until(system, lambda: told == [7 * SIZE])


def test_what_cannot_be_frozen_says_so(system: System) -> None:
    with pytest.raises(SerializationError, match="cannot pickle"):
        RRef([threading.Lock()], frozen=True)
    ref = farref.remote("B", threading.Lock, frozen=True)
    with pytest.raises(SerializationError, match="cannot pickle"):
        ref.to_here()
    with pytest.raises(ZeroDivisionError):
        farref.remote("B", divmod, (1, 0), frozen=True).to_here()


def fetched(ref: RRef[Any]) -> tuple[Any, bool]:
    """A copy of the value, and whether it was there without a message."""
    before = farref.counters().user.get("Fetch", 0)
    value = ref.to_here()
    return value, farref.counters().user.get("Fetch", 0) == before


@SHARED_MEMORY
def test_a_wait_brings_where_a_frozen_value_is(system: System) -> None:
    small = farref.remote("B", lambda: [1, b"x" * 100], frozen=True)
    frozen, plain = farref.remote("C", sevens, frozen=True), farref.remote("B", sevens)
    assert farref.wait([frozen, plain, small], 3) == ([frozen, plain, small], [])
    array, brought = fetched(frozen)
    assert (total(array), brought) == (7 * SIZE, True)
    with pytest.raises(ValueError, match=READ_ONLY):
        array[0] = 1
    assert not fetched(plain)[1]
    first, second = fetched(small), fetched(small)
    assert first == second == ([1, b"x" * 100], True)
    assert first[0] is not second[0]
    assert farref.wait([frozen, frozen], 2, timeout=0) == ([frozen, frozen], [])


@pytest.mark.parametrize("waits", [False, True], ids=["fetch", "wait"])
@pytest.mark.parametrize(
    "size", [1, 5_000, ALONE - 1, ALONE, pytest.param(200_000, marks=SHARED_MEMORY)]
)
def test_the_handle_keeps_a_frozen_array(system: System, size: int, waits: bool) -> None:
    """After its first fetch, or a wait."""
    refs = [farref.remote("B", np.full, (size, n, np.uint8), frozen=True) for n in range(20)]
    if waits:
        assert farref.wait(refs, len(refs)) == (refs, [])
    else:
        assert [total_of(ref) for ref in refs] == [size * number for number in range(20)]
    for number, ref in enumerate(refs):
        value, kept = fetched(ref)
        assert (total(value), kept) == (size * number, True)
        with pytest.raises(ValueError, match=READ_ONLY):
            value[0] = 1
    found = farref.get([*refs, refs[0]])
    assert [total(value) for value in found] == [size * number for number in [*range(20), 0]]


@pytest.fixture
def small_messages() -> Iterator[System]:
    """A system with messages of 4,500 bytes at most, with the worker B."""
    with System(system_base(limits=Limits(max_message_bytes=4_500)), timeout=PATIENCE) as system:
        system.worker("B")
        yield system


@shared_by_processes
@pytest.mark.parametrize("size", [5_000, 20_000, 40_000])
def test_a_frozen_array_that_no_message_can_take(small_messages: System, size: int) -> None:
    """Its memory is named, or the user is told."""
    assert total_of(farref.remote("B", np.ones, (ALONE, np.uint8), frozen=True)) == ALONE
    refs = [farref.remote("B", np.ones, (size, np.uint8), frozen=True) for _ in range(4)]
    assert farref.wait(refs[:2], 2) == (refs[:2], [])
    for ref in refs:
        if size < ALONE:
            with pytest.raises(SerializationError, match="the limit is 4500"):
                ref.to_here()
        else:
            assert total_of(ref) == size


@shared_by_processes
@pytest.mark.parametrize("waits", [False, True], ids=["fetch", "wait"])
def test_a_frozen_value_with_many_buffers(small_messages: System, waits: bool) -> None:
    """They share a segment: the places of all would be more than a message takes."""
    for number in (1, 8, 9, 20, 100):
        ref = farref.remote("B", many_arrays, (number,), frozen=True)
        assert not waits or farref.wait([ref]) == ([ref], [])
        assert len(ref.to_here()) == number


def many_arrays(number: int) -> list[Any]:
    return [np.ones(shared.THRESHOLD, np.uint8) for _ in range(number)]


def test_what_a_wait_does_not_bring(system: System) -> None:
    """Large values without shared memory, values with references, and values behind aliases."""
    refs = {
        "heavy": farref.remote("B", lambda: list(range(20_000)), frozen=True),
        "with a reference": farref.remote("B", lambda: [RRef([1])], frozen=True),
        "an alias": farref.remote("C", lambda: farref.remote("B", sevens, frozen=True)),
        "an error": farref.remote("B", divmod, (1, 0), frozen=True),
    }
    assert farref.wait(refs.values(), len(refs)) == ([*refs.values()], [])
    heavy, holder, array = (fetched(refs[name]) for name in list(refs)[:3])
    assert [each[1] for each in (heavy, holder, array)] == [False] * 3
    assert (heavy[0][-1], holder[0][0].to_here(), total(array[0])) == (19_999, [1], 7 * SIZE)
    with pytest.raises(ZeroDivisionError):
        refs["an error"].to_here()
    refs.clear()
    del holder
    gc.collect()


def test_a_wait_keeps_a_thousand(system: System) -> None:
    refs = [farref.remote("B", np.ones, (1,), frozen=True) for _ in range(1_002)]
    assert farref.wait(refs, len(refs)) == (refs, [])
    assert [fetched(each)[1] for each in (refs[0], *refs[998:])] == [True, True, True, False, False]


def test_a_wait_copies_nothing(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no mapping is possible, a fetch copies, but a wait does not."""

    def none_left(*_: Any, **__: Any) -> memoryview:
        raise MemoryError

    ref = farref.remote("B", sevens, frozen=True)
    with monkeypatch.context() as patched:
        patched.setattr(mapping, "mapped", none_left)
        assert farref.wait([ref]) == ([ref], [])
    value, brought = fetched(ref)
    assert (total(value), brought) == (7 * SIZE, False)


def frozen_later(gate: Path) -> RRef[Any]:
    hold(gate)
    return farref.remote("C", sevens, frozen=True)


def test_a_wait_that_is_passed_on_brings_nothing(system: System, gate: Path) -> None:
    """The endpoint that passes it on is near, but the asker may be far."""
    ref = farref.remote("B", frozen_later, (gate,))
    early = ref.remote().sum()  # so B relays the next requests until C has received this one
    assert farref.wait([ref], timeout=0) == ([], [ref])  # it has asked
    gate.touch()
    assert farref.wait([ref]) == ([ref], [])
    value, brought = fetched(ref)
    assert (total(value), brought) == (7 * SIZE, False)
    assert early.to_here() == 7 * SIZE


def test_a_cancelled_call_leaves_nothing(system: System) -> None:
    futures = [farref.rpc_async("B", total, (sevens(),)) for _ in range(20)]
    futures += [farref.remote("B", sevens, frozen=True).future() for _ in range(20)]
    for future in futures:
        future.cancel()
    del futures, future
    assert_freed(system, "B", "C")


# ---- with processes that are killed


@pytest.fixture
def processes() -> Iterator[System]:
    # The silence must be long: tests stop some processes, and the machine may be slow.
    with System("farrefBase", timeout=PATIENCE, orphan_grace=0.2, silence=None) as system:
        for name in "BCD":
            system.worker(name)
        yield system


def pid_of(name: str) -> int:
    return int(farref.rpc_sync(name, os.getpid))


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(Path(f"/proc/{pid}/maps").exists() and _runs(pid) for pid in pids))


def _runs(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@shared_by_processes
def test_the_owner_is_killed_while_its_reply_is_on_the_way(
    processes: System, tmp_path: Path
) -> None:
    """C is stopped, so that the reply waits in its socket when B and the segment are gone."""
    gate = tmp_path / "gate"
    ref = farref.remote("B", lambda gate: (hold(gate), sevens())[1], (gate,))
    b, c = pid_of("B"), pid_of("C")

    def fetch() -> str:
        try:
            return str(total_of(ref))
        except OwnerDiedError as error:
            return type(error).__name__

    name = str(ref.id)
    assert farref.rpc_sync("B", asked_of, (name,)) == 0
    call = farref.rpc_async("C", fetch)
    assert until(processes, lambda: farref.rpc_sync("B", asked_of, (name,)) == 1)
    stop(c)
    gate.touch()
    assert until(processes, lambda: look(b)[0] == 1)  # it is written, and C has not taken it
    kill(b)
    os.kill(c, signal.SIGCONT)
    assert call.result() in {SenderDiedError.__name__, OwnerDiedError.__name__}
    assert_freed(processes, "C", "D")


@shared_by_processes
def test_a_value_is_copied_once_for_each_fetch() -> None:
    """Also for the first, which finds others in the queue of the object when it is answered."""
    with System("farrefBase", timeout=PATIENCE) as system:
        system.worker("B")
        ref = farref.remote("B", Copied, (sevens(),))
        assert total(ref.to_here().content) == 7 * SIZE
        with stopped(pid_of("B")):
            futures = [ref.future() for _ in range(8)]
        assert [total(future.result().content) for future in futures] == [7 * SIZE] * 8
        assert farref.rpc_sync("B", noted) == ["copied"] * 9
        del ref, futures
        assert_freed(system, "B")


@pytest.mark.processes
def test_those_who_fetched_keep_what_the_dead_owned(processes: System) -> None:
    ref = farref.remote("B", sevens, frozen=True)
    mine = ref.to_here()
    farref.rpc_sync("C", keep_value, (ref,))
    kill(pid_of("B"))
    assert total(mine) == 7 * SIZE
    assert farref.rpc_sync("C", total_kept) == 7 * SIZE
    assert until(processes, lambda: "B" not in {info.name for info in processes.workers()})
    with pytest.raises(OwnerDiedError):
        ref.to_here()  # as with any value, although this handle has fetched it
    del mine, ref
    farref.rpc_sync("C", let_go)
    assert_freed(processes, "C", "D")


@shared_by_processes
def test_readers_are_killed(processes: System) -> None:
    """One reader has the value mapped; to the other it is on its way."""
    ref = farref.remote("B", sevens, frozen=True)
    farref.rpc_sync("C", keep_value, (ref,))
    c, d = pid_of("C"), pid_of("D")
    assert look(c)[1] == 1
    stop(d)
    call = farref.rpc_async("D", total, (sevens(),))
    assert look()[0] == 1  # until D takes it, or is dead
    kill(c, d)
    with pytest.raises(WorkerDiedError):
        call.result()
    del call
    assert total_of(ref) == 7 * SIZE
    del ref
    assert_freed(processes, "B")


@SHARED_MEMORY
@pytest.mark.parametrize("base", PROCESSES)
def test_everybody_is_killed(base: str) -> None:
    """The program too. No process of the system remains that could have a segment open."""
    code = f"""
        import os, signal
        import farref
        from farref import System
        from tests.actors.calls.test_values import *
        if __name__ == "__main__":
            system = System({base!r}, timeout=20)
            for name in "BC":
                system.worker(name)
            ref, mine = farref.remote("B", sevens, frozen=True), farref.RRef(sevens(), frozen=True)
            value = ref.to_here()
            for each in (ref, mine):
                farref.rpc_sync("C", keep_value, (each,))
            pids = [os.getpid(), *(farref.rpc_sync(name, os.getpid) for name in "BC")]
            print(*pids, flush=True)
            signal.pause()
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    root = Path(__file__).parents[3]
    before = set(os.listdir("/dev/shm"))
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        pids = [int(each) for each in program.stdout.readline().split()]
        assert len(pids) == 3
        assert all(any(look(pid)) for pid in pids)
        kill(*reversed(pids))
    assert not {each for each in os.listdir("/dev/shm") if "farref" in each} - before


@pytest.mark.processes
def test_packets_are_lost_and_come_twice() -> None:
    """The segment lives until the message is acknowledged, and is opened once."""
    rules = drop(first=1), duplicate()
    with System("farrefBase", timeout=PATIENCE, faults=Faults(*rules, seed=6)) as system:
        system.worker("B")
        frozen, plain = farref.remote("B", sevens, frozen=True), farref.remote("B", sevens)
        futures = [frozen.future(), plain.future(), farref.rpc_async("B", total, (sevens(),))]
        assert [int(np.sum(future.result())) for future in futures] == [7 * SIZE] * 3
        assert total_of(farref.remote("B", sevens, frozen=True)) == total_of(plain) == 7 * SIZE
        assert all(each.dropped and each.duplicated for each in counts(system).values())
        del futures
        del frozen, plain
        assert_freed(system, "B")


def plain_later(gate: Path) -> RRef[Any]:
    hold(gate)
    return farref.remote("C", sevens)


@pytest.mark.processes
def test_a_relayed_request(processes: System, tmp_path: Path) -> None:
    """B has an alias of C's object, and relays values in shared memory."""
    gate = tmp_path / "gate"
    refs = [farref.remote("B", plain_later, (gate,)) for _ in range(2)]
    product = refs[0].rpc_async().dot(sevens())
    copy = refs[1].remote(frozen=True).searchsorted(sevens())
    gate.touch()
    assert product.result() == 7 * 7 * SIZE % 256
    assert total_of(copy) == 0
    del refs, copy, product
    assert_freed(processes, "B", "C")


def linger() -> None:
    """From now on a thread of this process that has sent something pauses.

    As on a busy machine, where the reader runs first. The next value waits for it, however long.
    """
    server.LEAVING = packing.LEAVING = 60.0  # type: ignore[attr-defined]  # it imports that
    write = OutConnection.write_now

    def write_now(self: OutConnection, data: bytes) -> bool:
        done = write(self, data)
        time.sleep(0.02)
        return done

    OutConnection.write_now = write_now  # type: ignore[method-assign]


@shared_by_processes
@pytest.mark.parametrize("by_call", [False, True], ids=["fetch", "call"])
def test_the_next_value_is_written_to_the_last_ones_memory(
    processes: System, by_call: bool
) -> None:
    """Also if the thread that has sent the last one has not finished: new pages take long."""
    assert total(farref.rpc_sync("B", sevens)) == 7 * SIZE  # the first takes longer
    b, ref = pid_of("B"), farref.remote("B", sevens)
    assert until(processes, lambda: look(b)[0] == 1)  # it is kept
    farref.rpc_sync("B", linger)
    for _ in range(5):
        value = farref.rpc_sync("B", sevens) if by_call else ref.to_here()
        assert total(value) == 7 * SIZE
        del value
    assert look(b)[0] == 1


def interruptible(size: int) -> list[Any]:
    return [sevens(size), Pressing(), Ringing()]


def interruptible_frozen(size: int) -> RRef[list[Any]]:
    return RRef(interruptible(size), frozen=True)


@pytest.fixture
def alarm() -> Iterator[None]:
    """A handler of SIGALRM that raises, as that of a deadline."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.processes
@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("size", [100, SIZE])
def test_an_interrupted_result_asks_again(processes: System, size: int) -> None:
    futures = [
        farref.rpc_async("B", interruptible, args=(size,)),
        farref.rpc_sync("B", interruptible_frozen, args=(size,)).future(),
    ]
    interrupts: dict[type[BaseException], list[None]] = {
        KeyboardInterrupt: pressed,
        TimeoutError: rung,
    }
    for future in futures:
        assert until(processes, future.done)
        for error, left in interrupts.items():
            left.append(None)
            with pytest.raises(error):
                future.result()
        assert total(future.result()[0]) == 7 * size


@pytest.mark.processes
@pytest.mark.parametrize("size", [100, shared.IN_SLOT.start, SIZE])
def test_no_interrupt_of_a_result_loses_the_value(
    processes: System, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # some come within `__del__`
    futures: list[farref.Future[Any]] = []

    def ask() -> None:
        futures.append(farref.rpc_async("B", sevens, args=(size,)))
        assert until(processes, futures[0].done)

    def take() -> None:
        futures[0].result()

    ask()
    interrupting, places = Interrupting(*OPENING), 0
    for place in interrupting.at_every_place(take):
        places = place
        assert total(futures.pop().result()) == 7 * size, f"interrupted at place {place}"
        ask()
    assert places > 5
    assert not shared.early
    assert not shared.unread


@shared_by_processes
def test_a_thousand_fetches_leave_no_descriptor(processes: System) -> None:
    size, b = shared.IN_SLOT.stop, pid_of("B")
    farref.rpc_sync("B", keep_frozen, (size,))
    plain = farref.remote("B", sevens, (size,))
    assert total_of(farref.rpc_sync("B", first_kept)) == total_of(plain)
    here, there = descriptors(os.getpid()), descriptors(b)
    values = []
    for _ in range(500):  # the frozen one with a new handle, which has not kept it
        values += [farref.rpc_sync("B", first_kept).to_here(), plain.to_here()]
    assert look() == (0, 1000)
    assert descriptors(os.getpid()) <= here + 2  # some close, some are connections
    values.clear()
    # 16 acknowledged segments are kept. The last one may not be acknowledged yet.
    assert look(b)[1] <= 16 + 2
    farref.rpc_sync("B", look)
    assert until(processes, lambda: descriptors(b) <= there + 1)
    del plain
    farref.rpc_sync("B", let_go)
    assert_freed(processes, "B")


def keep_frozen(size: int) -> None:
    kept.append(RRef(sevens(size), frozen=True))


def first_kept() -> Any:
    return kept[0]


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.processes
def test_threads_of_several_processes(processes: System) -> None:
    frozen, plain = farref.remote("B", sevens, frozen=True), farref.remote("B", sevens)
    calls = [
        farref.rpc_async(name, total_of, (ref,))
        for _ in range(20)
        for name in "CD"
        for ref in (frozen, plain)
    ]
    assert {call.result() for call in calls} == {7 * SIZE}
    del frozen, plain, calls
    assert_freed(processes, "B", "C", "D")


# ---- slots


@pytest.fixture
def slotted() -> Iterator[System]:
    """A system with the worker B, of which this program has no slot mapped."""
    slots.forget()
    with System("farrefBase", timeout=PATIENCE, silence=None, orphan_grace=0.2) as system:
        system.worker("B")
        yield system


def middling() -> Any:
    return sevens(MIDDLING)


def has_slot() -> bool:
    """Whether B's next values cross in a slot: now this program has one mapped."""
    farref.rpc_sync("B", middling)
    return look(os.getpid())[1] > 0


@shared_by_processes
def test_one_slot_or_two_are_enough_for_one_reader(slotted: System) -> None:
    ref = farref.remote("B", middling)
    assert until(slotted, has_slot)
    values = [ref.to_here() for _ in range(3 * SLOTS)]
    assert {total(each) for each in values} == {7 * MIDDLING}
    assert 1 <= look(pid_of("B"))[1] <= 2  # the last one may not be acknowledged yet


@shared_by_processes
def test_the_slots_of_a_dead_worker_are_let_go_of(slotted: System) -> None:
    assert until(slotted, has_slot)
    kill(pid_of("B"))
    assert until(slotted, lambda: look(os.getpid()) == (0, 0))


@shared_by_processes
def test_nothing_waits_for_the_registrar(slotted: System) -> None:
    """A sender asks it whether a receiver is near."""
    with stopped(psutil.Process(pid_of("B")).ppid()):
        for _ in range(3):
            assert total(farref.rpc_sync("B", middling)) == 7 * MIDDLING
    assert until(slotted, has_slot)


@shared_by_processes
@pytest.mark.parametrize("by_call", [False, True], ids=["fetch", "call"])
def test_an_array_that_is_too_large_for_a_message_goes_in_a_slot(by_call: bool) -> None:
    """Also the first: then its sender asks whether the receiver is near, and waits."""
    with System(system_base(limits=Limits(max_message_bytes=60_000)), timeout=PATIENCE) as system:
        system.worker("B")
        for _ in range(3):
            ref = farref.remote("B", middling)
            value = farref.rpc_sync("B", middling) if by_call else ref.to_here()
            assert total(value) == 7 * MIDDLING
        text = farref.remote("B", long_text)
        for _ in range(2):  # it is for no slot
            with pytest.raises(SerializationError, match="limit is 60000"):
                farref.rpc_sync("B", long_text) if by_call else text.to_here()


def long_text() -> str:
    return "x" * MIDDLING


_held: list[int] = []


def use_up() -> None:
    """Leave this process no descriptor, until `give_back`.

    What the process closes afterwards is free again: a test that needs none calls this again.
    """
    if not _held:
        few = len(os.listdir("/proc/self/fd")) + 3
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))
    with contextlib.suppress(OSError):
        while True:
            _held.append(os.dup(0))


def give_back() -> None:
    for each in _held:
        os.close(each)
    _held.clear()


@shared_by_processes
def test_a_sender_without_descriptors_sends_it_in_the_message(slotted: System) -> None:
    """It cannot ask whether the receiver is near. Later it asks again."""
    farref.rpc_sync("B", sevens, (1,))  # now it has loaded what arrays need
    farref.rpc_sync("B", use_up)
    for _ in range(3):
        assert total(farref.rpc_sync("B", middling)) == 7 * MIDDLING
    farref.rpc_sync("B", give_back)
    assert until(slotted, has_slot)


def refused_without_descriptors(name: str) -> bool:
    """Whether *name* is told that a value in a slot cannot be taken; then all goes on."""
    farref.rpc_sync(name, sevens, (1,))  # now it has connected, and loaded what arrays need
    try:
        for _ in range(3):
            eventually(lambda: _is_refused(name), "no value came in a slot")
            assert farref.rpc_sync(name, len, ("abc",)) == 3
    finally:
        give_back()
    return _arrives(name)


def _is_refused(name: str) -> bool:
    use_up()
    return not _arrives(name)


def _arrives(name: str) -> bool:
    try:
        return total(farref.rpc_sync(name, middling)) == 7 * MIDDLING
    except SerializationError:
        return False


@shared_by_processes
def test_only_the_values_in_slots_fail_at_a_receiver_without_descriptors(slotted: System) -> None:
    slotted.worker("C")
    assert farref.rpc_sync("B", len, ("abc",)) == 3  # now it has a connection to this program
    assert farref.rpc_sync("B", refused_without_descriptors, ("C",))


@shared_by_processes
def test_a_copy_is_of_one_moment(slotted: System) -> None:
    """A fetch has the turn until the value is copied."""
    ref = farref.remote("B", middling)
    assert until(slotted, has_slot)
    with ThreadPoolExecutor(1) as thread:
        filling = thread.submit(lambda: [ref.rpc_sync().fill(n % 256) for n in range(500)])
        while not filling.done():
            value = ref.to_here()
            assert (value == value[0]).all()
        filling.result()
