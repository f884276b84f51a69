"""A program of three ranks. Run once per rank; its argument says what rank 0 does."""

import asyncio
import atexit
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

import farref
from farref import rpc
from farref.rpc.roster import Roster, Round

T = TypeVar("T")

RANK = int(os.environ["RANK"])
lock = threading.Condition()  # a function that uses it can go by its name only
kept: dict[object, object] = {}
gate = threading.Event()


class Counter:
    made = 0

    def __init__(self) -> None:
        Counter.made += 1
        self.count = 0
        self.both = threading.Barrier(2)

    def add(self, by: int) -> int:
        with lock:
            self.count += by
        return self.count

    def meet(self) -> int:
        return self.both.wait(60)

    @staticmethod
    @rpc.functions.async_execution
    def later(to: str, x: int) -> "rpc.Future[int]":
        return rpc.rpc_async(to, slow, args=(x,)).then(lambda done: done.wait() + 1)


def keep(key: object, value: object) -> int:
    with lock:
        kept[key] = value
        lock.notify_all()
    return len(kept)


def slow(x: T, seconds: float = 0.3) -> T:
    time.sleep(seconds)
    return x


def hold() -> None:
    gate.wait(60)


def let_go() -> None:
    gate.set()


def chain(rank: int, left: int) -> None:
    """Call on, and wait for nothing."""
    keep("chain", slow(left, 0.1))
    if left:
        rpc.rpc_async((rank + 1) % 3, chain, args=((rank + 1) % 3, left - 1))


def call_method(method: Callable[..., int], rref: rpc.RRef[Counter], *args: int) -> int:
    return method(rref.local_value(), *args)


def fail() -> None:
    raise KeyError("fails")


def seen(rref: rpc.RRef[int]) -> tuple[rpc.WorkerInfo, bool, bool, bool]:
    return rref.owner(), rref.is_owner(), isinstance(rref, rpc.RRef), rref.confirmed_by_owner()


def me() -> tuple[int, str]:
    info = rpc.get_worker_info()
    return info.id, info.name


def calls() -> None:
    assert me() == (0, "worker0")
    assert rpc.get_worker_info("worker2").id == 2
    assert repr(rpc.get_worker_info("worker2")) == "WorkerInfo(id=2, name=worker2)"
    for to in ("worker1", 1, rpc.get_worker_info("worker1")):
        assert rpc.rpc_sync(to, me) == (1, "worker1")
    assert [rpc.rpc_sync(1, keep, args=(n, n)) for n in range(3)] == [1, 2, 3]
    assert rpc.rpc_sync(0, os.getpid) == os.getpid() != rpc.rpc_sync(1, os.getpid)
    counter = rpc.remote("worker1", Counter, timeout=0)
    assert isinstance(counter, rpc.RRef)
    assert rpc.rpc_sync(counter.owner(), call_method, args=(Counter.add, counter, 3)) == 3
    assert counter.rpc_sync(timeout=0).add(1) == 4
    assert Counter.made == 0
    assert sorted(each.wait() for each in [counter.rpc_async().meet() for _ in "ab"]) == [0, 1]
    assert rpc.rpc_sync("worker1", Counter.later, args=("worker2", 5)) == 6
    for wrong in (3, -1):
        with pytest.raises(RuntimeError, match="0 to 2"):
            rpc.rpc_sync(wrong, me)
    with pytest.raises(RuntimeError, match="nobody"):
        rpc.rpc_sync("nobody", me)
    late = rpc.rpc_async("worker1", hold, timeout=0.05)
    for _ in range(2):  # its timeout has ended it
        with pytest.raises(RuntimeError, match="not"):
            late.wait(10)
    rpc.rpc_sync("worker1", let_go)


def references() -> None:
    first, second = (rpc.get_worker_info(name) for name in ("worker0", "worker1"))
    made = rpc.remote(1, Counter)
    assert made._get_future().wait() is None
    assert (made.owner(), made.owner_name(), made.is_owner()) == (second, "worker1", False)
    assert made.confirmed_by_owner()
    assert made._get_type() is Counter
    assert made._get_type(blocking=False).wait() is Counter
    mine = rpc.RRef(5, int)
    assert (mine.owner(), mine.is_owner(), mine._get_type()) == (first, True, int)
    assert rpc.rpc_sync(1, seen, args=(mine,)) == (first, False, True, True)
    assert rpc.rpc_sync(2, seen, args=(made,)) == (second, False, True, True)
    assert rpc.rpc_sync(2, seen, args=(rpc.remote(1, Counter),)) == (second, False, True, True)
    again = made.remote(timeout=0).add(2)
    assert (again.owner(), again.to_here(timeout=-1)) == (second, 2)
    failed = rpc.remote(1, fail)
    for wait in (failed._get_future().wait, failed._get_type, failed.to_here, failed.remote().x):
        with pytest.raises(KeyError):
            wait()
    with pytest.raises(NotImplementedError, match="gradients"):
        made.backward()


class Asked:
    """It has any attribute, and counts how often it is asked for one."""

    def __init__(self) -> None:
        self.times = 0

    def __getattr__(self, _: str) -> Callable[[], int]:
        self.times += 1
        return lambda: self.times


async def next_of(rref: "rpc.RRef[Any]", name: str) -> Any:
    return await getattr(rref.remote(), name)()


class Serial:
    """Its methods take turns."""

    def other(self, itself: "rpc.RRef[Serial]") -> "rpc.RRef[int]":
        five: rpc.RRef[int] = itself.remote().five()
        return five

    def five(self) -> int:
        return 5


def call_other(rref: "rpc.RRef[Serial]") -> int:
    five: rpc.RRef[int] = rref.rpc_sync().other(rref)
    return five.to_here()


def names() -> None:
    """`remote` itself raises for a method that is not there, as in PyTorch."""
    for to in (0, 1):
        made = rpc.remote(to, slow, args=(5,))
        with pytest.raises(AttributeError, match="has no attribute 'no_such'"):
            made.remote().no_such()
        assert made.remote().bit_length().remote().bit_length().to_here() == 2
        assert (made.remote() + 1).to_here() == 6
        slower = rpc.remote(to, slow, args=(5,))
        with pytest.raises(RuntimeError, match="did not come within"):
            slower.remote(timeout=0.05).bit_length()
        assert slower.remote(timeout=0).bit_length().to_here() == 3
        asked = rpc.remote(to, Asked)
        assert [asked.remote().any().to_here() for _ in range(3)] == [2, 3, 4], "once, and 3 calls"
        # A loop does not wait.
        assert rpc.rpc_sync(to, next_of, args=(rpc.remote(2, slow, args=(5,)), "bit_length")) == 3
        with pytest.raises(AttributeError, match="has no attribute 'no_such'"):
            rpc.rpc_sync(to, next_of, args=(made, "no_such"))
    assert asyncio.run(next_of(rpc.remote(1, slow, args=(5,)), "bit_length")) == 3
    serial = farref.RRef(Serial())
    assert rpc.rpc_sync(1, call_other, args=(serial,)) == 5, "nor does code it waits for"


def changed(rref: "rpc.RRef[list[int]]") -> list[int]:
    """At the owner `to_here` is no copy."""
    rref.to_here().append(3)
    return rref.local_value()


def at_the_owner() -> None:
    mine = rpc.RRef(Counter())  # it has a lock: no copy of it can be made
    assert mine.to_here() is mine.local_value()
    assert rpc.rpc_sync(1, changed, args=(rpc.remote(1, list, args=((1, 2),)),)) == [1, 2, 3]
    assert rpc.remote(0, slow, args=([1],)).to_here() == [1]
    with pytest.raises(ValueError, match="invalid literal"):
        rpc.remote(0, int, args=("x",)).to_here()
    made_here = rpc.remote(0, passed_on, args=("worker1", slow_two))
    assert (made_here.to_here(), made_here.to_here()) == (2, 2)
    with pytest.raises(RuntimeError, match="did not come within"):
        rpc.remote(0, hold).to_here(timeout=0.05)
    let_go()


def passed_on(to: str, function: Callable[..., Any]) -> "rpc.RRef[Any]":
    return rpc.remote(to, function)


def same(ref: "rpc.RRef[Any]") -> "rpc.RRef[Any]":
    return ref


async def awaited(ref: "rpc.RRef[Any]") -> Any:
    return await ref


def slow_two() -> int:
    return slow(2)


def aliases() -> None:
    """References to objects that stand for others, which live elsewhere."""
    for to in ("worker0", "worker1", "worker2"):  # the objects are here, on worker1, and further on
        asks: list[Callable[[rpc.RRef[Any]], object]] = [
            lambda alias: alias._get_type(),
            lambda alias: alias._get_type(blocking=False).wait(),
            lambda alias: type(alias.to_here()),
            lambda alias: type(asyncio.run(awaited(alias))),
            lambda alias: {None: int}[alias._get_future().result()],
        ]
        for ask in asks:
            alias = rpc.remote(1, passed_on, args=(to, slow_two))
            assert ask(alias) is int, to
            assert ask(alias) is int, "its canonical object is known now"
            assert alias.owner_name() == to
    mine = rpc.RRef(Counter())
    chain = rpc.remote(1, same, args=(rpc.remote(2, same, args=(mine,)),))
    assert chain._get_future().wait() is None
    assert chain._get_type() is Counter
    for to in ("worker0", "worker2"):
        for name in ("_get_type", "to_here"):
            with pytest.raises(KeyError):
                getattr(rpc.remote(1, passed_on, args=(to, fail)), name)()
        with pytest.raises(KeyError):
            rpc.remote(1, passed_on, args=(to, fail))._get_future().wait()


def answer_late() -> None:
    """Rank 0's answers to the others are slow: it could be gone before they leave it."""
    ready = Roster.ready

    def late(self: Roster, rank: int, calls: int) -> "rpc.Future[Round]":
        answer = ready(self, rank, calls)
        return answer if rank == 0 else answer.then(lambda done: slow(done.result()))

    Roster.ready = late  # type: ignore[method-assign]  # the delay


def end_slowly() -> None:
    """Rank 0's system ends a while after its rank has left: a message could go in between."""
    end = farref.System.shutdown

    def late(self: farref.System, graceful: bool = True, timeout: float | None = None) -> list[str]:
        return end(self, slow(graceful), timeout)

    farref.System.shutdown = late  # type: ignore[method-assign]  # the delay


def fail_beside_others(failing: int) -> None:
    """The rank *failing* raises, and its process takes a while to end."""
    process = os.pidfd_open(rpc.rpc_sync(failing, os.getpid))
    rpc.rpc_async(failing, keep, args=(RANK, RANK))  # the reply may be too late
    if failing == RANK:
        with lock:
            assert lock.wait_for(lambda: len(kept) == 3, 60)
        end_slowly()
        atexit.register(time.sleep, 1)
        rpc.shutdown(graceful=False)  # as its end does, which would sleep before
        raise KeyError(f"rank {failing} fails")
    try:
        rpc.shutdown()
    finally:
        ended, _, _ = select.select([process], [], [], 0)
        print("ended" if ended else "lives on")  # noqa: T201 - the test reads it


PARTS: dict[str, tuple[Callable[[], object], ...]] = {
    "calls": (calls, references, at_the_owner),
    "aliases": (aliases,),
    "names": (names,),
    "chain": (lambda: rpc.rpc_async(1, chain, args=(1, 7)),),
}
"""What rank 0 does, by the program's argument."""


def main() -> None:
    todo, *rest = sys.argv[1:]
    if todo == "at once" and RANK == 0:
        answer_late()
    if todo == "die early" and RANK == 1:
        os._exit(3)
    timeout = float(rest[0]) if rest else 30
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=timeout)
    name = "same" if todo == "same names" else f"worker{RANK}"
    rpc.init_rpc(name, rpc_backend_options=options)
    for part in PARTS.get(todo, ()) if RANK == 0 else ():
        part()
    if todo == "raise":
        fail_beside_others(int(rest[1]))
    if RANK == 1 and todo == "die":
        os._exit(3)
    rpc.shutdown(graceful=todo != "at once")
    print(kept.get("chain"))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main()
