"""References in calls, in every discipline: the counts are right after any use by a callee."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorExitRequest

import farref
from farref import RefActor, RRef, System
from farref.protocol.sharing import DISCIPLINES

from ...bases import BASES, IN_PROCESS, SAMPLED
from ..conftest import GRACE
from ..helpers import PATIENCE, Box, hold, make_box, references_everywhere, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farref import ReferenceInfo


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            (sharing, *base.values),
            id=f"{sharing}-{base.values[0]}",
            marks=[*base.marks, *([] if sharing == "lend" else [pytest.mark.long, SAMPLED])],
        )
        for sharing in DISCIPLINES
        # The other two differ in the protocol alone, which the explorer has in all three.
        for base in (BASES if sharing == "lend" else [IN_PROCESS])
    ],
)
def place(request: pytest.FixtureRequest) -> Any:
    """The discipline and the base of a module's system."""
    return request.param


@pytest.fixture
def sharing(place: tuple[str, str]) -> str:
    return place[0]


@pytest.fixture(scope="module")
def shared(place: tuple[Any, str]) -> Iterator[System]:
    sharing, base = place
    gc.collect()
    gc.freeze()  # pytest's heap: each check for leftovers collects garbage
    with System(base, sharing=sharing, timeout=20, orphan_grace=GRACE) as system:
        for name in "BCD":
            system.worker(name)
        yield system
        last = {str(each.id) for each in _last}  # pytest keeps the last test's objects
        assert until(system, lambda: held(system) <= last), references_everywhere(system)


def held(system: System) -> set[str]:
    """The references in all tables."""
    gc.collect()
    return {row.rref for rows in references_everywhere(system).values() for row in rows}


_last: weakref.WeakSet[RRef[Any]] = weakref.WeakSet()


@pytest.fixture(params=["owned here", "created on D"])
def ref(request: pytest.FixtureRequest, shared: System) -> RRef[list[int]]:
    """A reference to `[1]`. Its lender is its owner, or a user that was not confirmed just now."""
    ref: RRef[list[int]] = (
        RRef([1]) if request.param == "owned here" else farref.remote("D", list, ((1,),))
    )
    _last.add(ref)
    return ref


@pytest.fixture
def system(shared: System, sharing: str, ref: RRef[Any]) -> Iterator[System]:
    """A system in which, after the test, only *ref* is held, and only by this program."""
    yield shared
    assert ref.to_here() == [1], "it was freed while it was held"

    def nothing_else() -> bool:
        # A user that lent it watches over the borrowers until its own end; they wait for it.
        here = references_everywhere(shared).keys() <= {"program", ref.owner_name()}
        return held(shared) <= {str(ref.id)} and (here or sharing == "borrow")

    assert until(shared, nothing_else), references_everywhere(shared)


kept: list[Any] = []
"""The values that the functions below keep, in the process of their worker."""


def let_go() -> int:
    number = len(kept)
    kept.clear()
    return number


def read(ref: RRef[Any]) -> Any:
    return ref.to_here()


def keep(ref: RRef[Any]) -> None:
    kept.append(ref)


def read_kept() -> Any:
    return [ref.to_here() for ref in kept]


def same(value: Any) -> Any:
    return value


def lend_on(names: str, function: Any, ref: RRef[Any]) -> Any:
    """Call *function* through a chain of workers."""
    if not names:
        return function(ref)
    return farref.rpc_sync(names[0], lend_on, (names[1:], function, ref))


# ---- one call


def test_a_method_of_another_object_gets_it(system: System, ref: RRef[Any]) -> None:
    box = farref.remote("B", make_box)
    box.rpc_sync().put(ref)
    assert box.rpc_sync().get() == ref
    alias = box.remote().get()
    assert alias.to_here() == [1]
    assert alias.canonical() == ref.id
    assert box.rpc_sync().get().to_here() == [1]


def test_a_callee_keeps_it_longer_than_the_lender(system: System, ref: RRef[Any]) -> None:
    mine = farref.remote("C", list, ((7,),))
    farref.rpc_sync("B", keep, (mine,))
    del mine
    gc.collect()
    assert farref.rpc_sync("B", read_kept) == [[7]]
    assert farref.rpc_sync("B", let_go) == 1


def test_a_callee_returns_it(system: System, ref: RRef[Any]) -> None:
    assert farref.rpc_sync("B", same, (ref,)) == ref
    assert farref.rpc_sync("B", same, ([ref, {"again": ref}],)) == [ref, {"again": ref}]
    future = farref.rpc_async("B", same, (ref,))
    assert future.result().to_here() == [1]


def test_what_is_returned_is_the_only_handle(system: System, ref: RRef[Any]) -> None:
    back = farref.rpc_sync("B", same, (RRef(7),))
    assert back.to_here() == 7
    back = farref.rpc_sync("B", same, (farref.remote("C", list, ((7,),)),))
    assert back.to_here() == [7]


def test_a_callee_returns_what_it_had_kept(system: System, ref: RRef[Any]) -> None:
    farref.rpc_sync("B", keep, (ref,))
    back = farref.rpc_sync("B", _give_one)
    assert back == ref
    assert back.to_here() == [1]


def _give_one() -> Any:
    return kept.pop()


def _send_it_on(name: str, ref: RRef[Any], gate: Path) -> None:
    kept.append(farref.rpc_async(name, _read_when_open, (ref, gate)))


def test_a_callee_replies_while_it_has_lent_it_on(
    system: System, ref: RRef[Any], gate: Path
) -> None:
    farref.rpc_sync("B", _send_it_on, ("C", ref, gate))
    gate.touch()
    assert farref.rpc_sync("B", _results) == [[1]]


def _results() -> Any:
    results = [future.result() for future in kept]
    kept.clear()
    return results


# ---- several


@pytest.mark.parametrize("names", ["BC", "BCD", "BCBC", "BDB", "BB"])
@pytest.mark.parametrize("function", [read, keep, same])
def test_a_chain_of_callees(system: System, ref: RRef[Any], names: str, function: Any) -> None:
    result = farref.rpc_sync(names[0], lend_on, (names[1:], function, ref))
    assert result == {read: [1], keep: None, same: ref}[function]
    if function is same:
        assert result.to_here() == [1]
    if function is keep:
        assert farref.rpc_sync(names[-1], read_kept) == [[1]]
        assert farref.rpc_sync(names[-1], let_go) == 1


def test_it_comes_home(system: System, ref: RRef[Any]) -> None:
    """Lent to the endpoint that owns it, which uses its existing entry."""
    home = ref.owner()
    if ref.is_owner():
        assert farref.rpc_sync("B", _lend_to, (home, same, ref)) == ref
    else:
        farref.wait([ref])  # functions run in parallel: the next one could come before the value
        assert farref.rpc_sync(home, _is_owner, (ref,))
        assert farref.rpc_sync("B", _lend_to, (home, _is_owner, ref))


def _is_owner(ref: RRef[Any]) -> bool:
    return ref.is_owner() and ref.local_value() == [1]


def _lend_to(to: Any, function: Any, ref: RRef[Any]) -> Any:
    return farref.rpc_sync(to, function, (ref,))


def test_it_is_lent_back_to_the_lender(system: System, ref: RRef[Any]) -> None:
    me = farref.get_worker_info()
    assert farref.rpc_sync("B", _lend_to, (me, read, ref)) == [1]
    assert farref.rpc_sync("B", _lend_to, (me, keep, ref)) is None
    assert kept == [ref]
    kept.clear()


def test_two_workers_lend_to_each_other_in_turn(system: System, ref: RRef[Any]) -> None:
    """B lends to C, which keeps it; C lends back to B, which keeps it; and so on."""
    farref.rpc_sync("B", keep, (ref,))
    for _ in range(5):
        farref.rpc_sync("B", _hand_to, ("C",))
        farref.rpc_sync("C", _hand_to, ("B",))
    assert farref.rpc_sync("B", read_kept) == [[1]]
    assert farref.rpc_sync("B", let_go) == 1


def _hand_to(name: str) -> None:
    farref.rpc_sync(name, keep, (kept.pop(),))


def test_it_reaches_a_worker_by_two_paths(system: System, ref: RRef[Any]) -> None:
    direct = farref.rpc_async("C", _keep_and_read, (ref,))
    around = farref.rpc_async("B", _lend_to, ("C", _keep_and_read, ref))
    assert direct.result() == around.result() == [1]
    assert farref.rpc_sync("C", read_kept) == [[1], [1]]
    assert farref.rpc_sync("C", let_go) == 2


def _keep_and_read(ref: RRef[Any]) -> Any:
    kept.append(ref)
    return ref.to_here()


def test_many_calls_at_once_lend_the_same(system: System, ref: RRef[Any]) -> None:
    futures = [farref.rpc_async("BC"[n % 2], (read, same)[n % 3 == 0], (ref,)) for n in range(60)]
    for n, future in enumerate(futures):
        assert future.result() == (ref if n % 3 == 0 else [1])


def test_what_is_lent_may_be_nested_in_values(system: System, ref: RRef[Any]) -> None:
    outer = farref.remote("B", make_box, ([ref, {"deep": [ref]}],))
    first, second = outer.to_here().get()
    assert first == second["deep"][0] == ref
    inner = farref.rpc_sync("C", _open, (outer,))
    assert inner == ref
    assert inner.to_here() == [1]


def _open(outer: RRef[Box]) -> Any:
    return outer.to_here().get()[0]


# ---- failures


def test_a_caller_that_stopped_waiting_keeps_its_pin(
    system: System, ref: RRef[Any], gate: Path
) -> None:
    mine = farref.remote("D", list, ((7,),))
    future = farref.rpc_async("B", _read_when_open, (mine, gate))
    with pytest.raises(farref.FetchTimeoutError):
        future.result(timeout=0.01)
    del mine
    gc.collect()
    gate.touch()
    assert until(system, future.done)
    assert future.result() == [7]


def _read_when_open(ref: RRef[Any], gate: Path) -> Any:
    return hold(gate, ref).to_here()


def test_a_cancelled_call_that_runs_keeps_what_it_was_lent(
    system: System, ref: RRef[Any], gate: Path
) -> None:
    mine = farref.remote("D", list, ((7,),))
    future = farref.rpc_async("B", _keep_when_open, (mine, gate))
    assert until(system, lambda: farref.rpc_sync("B", let_go) == 1), "it never started"
    assert not future.cancel()
    future.give_up()
    del mine, future
    gc.collect()
    assert farref.rpc_sync("B", same, (8,)) == 8  # the messages of the cancel have arrived
    gate.touch()
    assert until(system, lambda: farref.rpc_sync("B", read_kept) == [[7]])
    assert farref.rpc_sync("B", let_go) == 1


def _keep_when_open(ref: RRef[Any], gate: Path) -> None:
    kept.append("it has started")
    kept.append(hold(gate, ref))


# ---- the readable counts


def row_of(rows: list[ReferenceInfo], ref: RRef[Any]) -> ReferenceInfo:
    return next(row for row in rows if row.rref == str(ref.id))


def test_the_counts_can_be_read(system: System, sharing: str, ref: RRef[Any]) -> None:
    """While B runs a call with the lent reference, and after it."""
    future = farref.rpc_async("B", _report, (ref,))
    there = future.result()
    assert there.rref == str(ref.id)
    assert there.handles == 1
    assert there.messages == 1
    assert there.owner == str(ref.owner().id)
    if sharing == "fork":
        assert there.role == "user"
        assert there.loans == {}
    else:
        assert there.role == ("user" if sharing == "lend" and ref.is_owner() else "borrower")
        assert list(there.loans.values()) == [farref.get_worker_info().name]
    box = RRef([ref])
    here = row_of(farref.references(), ref)
    assert here.handles == 1
    assert here.contained_in == (str(box.id),)
    assert row_of(farref.references(), box).contains == (str(ref.id),)


def _report(ref: RRef[Any]) -> ReferenceInfo:
    return row_of(farref.references(), ref)


async def _report_at_leisure(ref: RRef[Any]) -> ReferenceInfo:
    return _report(ref)


class Methods:
    def report(self, ref: RRef[Any]) -> ReferenceInfo:
        return _report(ref)


class Reporter(RefActor):
    async def receiveMsg_RRef(self, ref: RRef[Any], sender: Any) -> None:
        self.send(sender, await farref.rpc_async("B", _report, (ref,)))


CALLS: dict[str, Any] = {
    "rpc_sync": lambda ref: farref.rpc_sync("B", _report, (ref,)),
    "rpc_async": lambda ref: farref.rpc_async("B", _report, kwargs={"ref": ref}).result(),
    "remote": lambda ref: farref.remote("B", _report, (ref,)).to_here(),
    "a closure": lambda ref: farref.rpc_sync("B", lambda: _report(ref)),
    "an async function": lambda ref: farref.rpc_sync("B", _report_at_leisure, (ref,)),
    "rpc_sync of a method": lambda ref: farref.remote("B", Methods).rpc_sync().report(ref),
    "rpc_async of a method": lambda ref: (
        farref.remote("B", Methods).rpc_async().report(ref).result()
    ),
    "remote of a method": lambda ref: farref.remote("B", Methods).remote().report(ref).to_here(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.usefixtures("system")
def test_every_kind_of_call_shares_by_the_discipline(
    sharing: str, ref: RRef[Any], call: str
) -> None:
    """A creation has no reply, so an owner forks in it under every discipline."""
    there: ReferenceInfo = CALLS[call](ref)
    forks = call.startswith("remote") and ref.is_owner()
    assert bool(there.loans) == (sharing != "fork" and not forks)


def test_an_actor_calls_and_is_called(system: System, sharing: str, ref: RRef[Any]) -> None:
    """Its handlers lend while they await, and functions that run on it borrow."""
    actor = system.create(Reporter)
    there: ReferenceInfo = system.ask(actor, ref)
    assert there.rref == str(ref.id)
    assert bool(there.loans) == (sharing != "fork")
    assert bool(farref.rpc_sync(actor, _report, (ref,)).loans) == (sharing != "fork")
    assert farref.rpc_sync(actor, lend_on, ("BC", same, ref)) == ref
    system.tell(actor, ActorExitRequest())
    assert until(system, lambda: len(system.workers()) == 4), "the actor goes on"


@pytest.mark.processes
@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_a_program_that_attaches_shares_as_the_system_does(sharing: Any) -> None:
    name = f"shares-{sharing}"
    with System(name=name, sharing=sharing, timeout=20) as system:
        system.worker("B")
        with System.attach(name):
            mine = RRef([1])
            assert bool(farref.rpc_sync("B", _report, (mine,)).loans) == (sharing != "fork")
            assert farref.rpc_sync("B", same, (mine,)) == mine
            assert farref.rpc_sync("program", same, (mine,)) == mine
            assert farref.rpc_sync("program", read, (mine,)) == [1]
            del mine


@pytest.mark.usefixtures("system")
def test_the_lender_shows_its_pins(sharing: str, ref: RRef[Any], gate: Path) -> None:
    future = farref.rpc_async("B", _read_when_open, (ref, gate))
    if sharing != "fork":
        here = row_of(farref.references(), ref)
        assert list(here.pins.values()) == ["B"]
        assert here.tasks >= 1
    gate.touch()
    assert future.result() == [1]


# ---- load


def test_a_drop_takes_no_lock(shared: System) -> None:
    """The collector may drop a handle anywhere, also where the endpoint's lock is held."""
    refs = [RRef(number) for number in range(1000)]
    mine = {str(ref.id) for ref in refs}
    dropping = threading.Thread(target=refs.clear)
    with shared.endpoint.core.lock:
        dropping.start()
        dropping.join(PATIENCE)
        assert not dropping.is_alive(), "it waits for the lock"
    assert until(shared, lambda: not mine & held(shared))
