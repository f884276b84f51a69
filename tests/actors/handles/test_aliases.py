"""A task that returns a reference: its result is that other object, for every use."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import AliasCycleError, OwnerDiedError, RefActor, RRef, System, references
from farref.trace.records import load

from ...waiting import eventually
from ..helpers import Box, hold, kill, make_box, references_everywhere, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SLOTS: dict[str, Any] = {}
"""The results that tasks of this process are to return, by name."""
PICKLED: list[str] = []
"""A record of each pickling of a value in this process."""


# ---- functions of tasks


def chain(workers: str, make: Any, *args: Any) -> Any:
    """The result of *make* on the last of *workers*, by way of an alias on each before it."""
    if not workers:
        return make(*args)
    return farref.remote(workers[0], chain, (workers[1:], make, *args))


def aliases(workers: str, make: Any = make_box, *args: Any) -> RRef[Any]:
    """A reference to an alias on the first of *workers*, which leads to a value on the last."""
    return farref.remote(workers[0], chain, (workers[1:], make, *args))


def identity(ref: Any) -> Any:
    return ref


def fail() -> None:
    raise KeyError("no such thing")


def put(name: str, value: Any) -> None:
    SLOTS[name] = value


def take(name: str) -> Any:
    """The value of `put`, once it is there."""
    eventually(lambda: name in SLOTS)
    return SLOTS.pop(name)


def taken(name: str) -> bool:
    return name not in SLOTS


class Counted(Box):
    """A value that records in its process when it is pickled."""

    def __reduce__(self) -> Any:
        PICKLED.append("once")
        return Counted, (self.content,)


def pickled() -> int:
    count = len(PICKLED)
    PICKLED.clear()
    return count


def held_at(name: str) -> list[str]:
    return [row.rref for row in farref.rpc_sync(name, references)]


def nothing_is_left(system: System) -> bool:
    return not any(references_everywhere(system).values())


# ---- every alias shows the value


def test_every_way_of_waiting_sees_the_canonical_value(chain_system: System, gate: Path) -> None:
    refs = [aliases("BCD", hold, gate, 7) for _ in range(5)]
    assert farref.wait(refs, len(refs), timeout=0) == ([], refs)
    futures = [refs[0].future(), refs[1].rpc_async().bit_length()]
    gate.touch()
    assert farref.wait(refs, len(refs)) == (refs, [])
    assert [futures[0].result(), futures[1].result()] == [7, 3]
    assert farref.get(refs) == [7] * 5
    assert refs[2].to_here() == 7
    assert farref.rpc_sync("C", fetch_async, (refs[3],)) == 7


async def fetch_async(ref: RRef[Any]) -> Any:
    return await ref


@pytest.mark.parametrize("order", ["hgf", "hfg", "ghf", "gfh", "fhg", "fgh"])
def test_the_three_facts_come_in_any_order(chain_system: System, order: str) -> None:
    """h is an alias of g, g of f, and f is canonical; these become known in any order."""
    refs = {name: farref.remote(at, take, (name,)) for name, at in zip("hgf", "BCD", strict=True)}
    waiting = refs["h"].future()
    facts = {"h": ("B", refs["g"]), "g": ("C", refs["f"]), "f": ("D", "the value")}
    for name in order:
        at, fact = facts[name]
        farref.rpc_sync(at, put, (name, fact))
        assert until(chain_system, partial(farref.rpc_sync, at, taken, (name,)))
    assert waiting.result() == "the value"
    assert [refs[name].to_here() for name in "hgf"] == ["the value"] * 3
    assert {ref.canonical() for ref in refs.values()} == {refs["f"].id}


def test_a_hundred_links(chain_system: System) -> None:
    ref = aliases("BCDE" * 25, make_box, "far")
    assert ref.to_here().get() == "far"
    assert until(chain_system, lambda: not any(held_at(name) for name in "BCD"))


def test_a_tree_of_aliases_is_one_object(chain_system: System) -> None:
    root = farref.remote("B", make_box, (0,))
    leaves = [farref.remote(name, identity, (root,)) for name in "CDE" * 3]
    leaves += [farref.remote("C", identity, (leaf,)) for leaf in leaves]
    for leaf in leaves:
        leaf.rpc_sync().put(leaf.rpc_sync().get() + 1)
    assert root.rpc_sync().get() == len(leaves)
    assert {leaf.canonical() for leaf in leaves} == {root.id}


def test_an_error_in_the_chain_comes_with_its_type_and_its_way(chain_system: System) -> None:
    ref = aliases("BCD", fail)
    waits: list[Callable[[], Any]] = [ref.to_here, lambda: farref.get([ref]), ref.future().result]
    for wait in waits:
        with pytest.raises(KeyError, match="no such thing") as caught:
            wait()
        notes = "\n".join(caught.value.__notes__)
        assert "raised on worker D" in notes
        assert re.search(rf"an alias: {ref.id} -> B/\d+ -> C/\d+", notes)
    with pytest.raises(KeyError):
        ref.rpc_sync().get()


# ---- handles


def test_an_alias_keeps_its_own_id_wherever_it_goes(chain_system: System) -> None:
    ref = aliases("BC", make_box, 3)
    before = farref.rpc_sync("D", identity, (ref,))
    ref.to_here()
    after = farref.rpc_sync("E", identity, (ref,))
    assert before == ref == after
    assert len({before, ref, after}) == 1
    assert farref.rpc_sync("E", same, ([before, ref, after],))


def same(refs: list[RRef[Any]]) -> bool:
    return len(set(refs)) == 1 and len({id(ref) for ref in refs}) == 1


def test_an_alias_keeps_its_own_id_as_an_argument_of_a_call_that_is_passed_on(
    chain_system: System,
) -> None:
    """B owns both aliases and knows what they stand for; the program, which calls, does not."""
    box, argument = aliases("BC"), aliases("BD")
    assert farref.rpc_sync("B", resolved, ([box, argument],))
    assert (box.canonical(), argument.canonical()) == (None, None)
    assert box.rpc_sync().put(argument) is None
    assert box.rpc_sync().get() == argument
    assert farref.rpc_sync("C", equals_content, (box, argument))


def resolved(refs: list[RRef[Any]]) -> bool:
    return farref.wait(refs, len(refs)) == (refs, [])


def equals_content(box: RRef[Box], ref: RRef[Any]) -> bool:
    same_one: bool = box.local_value().content == ref
    return same_one


def test_at_home_an_alias_gives_the_very_object(chain_system: System) -> None:
    mine = RRef(Box("mine"))
    ref = farref.remote("B", identity, (mine,))
    assert ref.to_here().get() == "mine"
    assert ref.is_owner()
    assert ref.local_value() is mine.local_value()
    assert ref.confirmed_by_owner()


class Asker(RefActor):
    def receiveMsg_list(self, message: list[Any], sender: ActorAddress) -> None:
        self.asker = sender
        self.send(self.myAddress, tuple(message))

    async def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        self.send(self.asker, [(await ref).get() for ref in message])


def test_an_actor_awaits_aliases_that_it_was_sent(chain_system: System) -> None:
    actor = chain_system.create(Asker)
    refs = [aliases("BCD", make_box, number) for number in range(3)]
    refs[0].to_here()  # this one goes under its canonical name, the others do not
    chain_system.tell(actor, refs)
    assert chain_system.listen() == [0, 1, 2]


# ---- lifetimes


def test_an_object_lives_while_an_alias_does_and_no_longer(chain_system: System) -> None:
    root = farref.remote("B", make_box, ("kept",))
    alias = farref.remote("C", identity, (root,))
    root_id = str(root.id)
    del root
    assert alias.rpc_sync().get() == "kept"
    assert root_id in held_at("B")
    del alias
    assert until(chain_system, lambda: nothing_is_left(chain_system))


def test_a_chain_has_the_value_of_its_end_and_then_no_hops(chain_system: System) -> None:
    ref = aliases("BCDE", make_box, [1, 2])
    assert ref.canonical() is None
    assert ref.to_here().get() == [1, 2]
    assert ref.owner_name() == "E"
    assert ref.canonical() != ref.id
    assert until(chain_system, lambda: [held_at(name) for name in "BCD"] == [[]] * 3)
    assert held_at("E") == [str(ref.canonical())]


def test_an_alias_that_nobody_asks_is_freed_too(chain_system: System, gate: Path) -> None:
    refs = [aliases("BCDE", hold, gate) for _ in range(3)]
    del refs
    gate.touch()
    assert until(chain_system, lambda: nothing_is_left(chain_system))


@pytest.mark.processes
def test_a_second_fetch_through_ten_links_costs_one_round_trip(tmp_path: Path) -> None:
    with System(timeout=20, trace=str(tmp_path)) as system:
        for name in "BC":
            system.worker(name)
        ref = aliases("BC" * 5)
        ref.to_here()
        assert until(system, lambda: not held_at("B") and held_at("C") == [str(ref.canonical())])
        assert until(system, lambda: all_came(tmp_path))
        began = time.time()
        ref.to_here()
        assert until(system, lambda: sent(tmp_path, began) == ["Fetch", "Reply"])


def all_came(folder: Path) -> bool:
    """Whether every message that was sent has arrived."""
    records = [record for steps in load(folder).steps.values() for record in steps]
    names = {kind: {r.name for r in records if r.kind == kind} for kind in ("send", "receive")}
    return names["send"] == names["receive"]


def sent(folder: Path, since: float = 0.0) -> list[str]:
    """The messages sent from *since* on, as far as the files have them."""
    records = [record for steps in load(folder).steps.values() for record in steps]
    steps = sorted((record.fields for record in records), key=lambda step: step["time"])
    return [step["message"] for step in steps if step["kind"] == "send" and step["time"] >= since]


def test_getting_several_aliases_ships_their_object_once(chain_system: System) -> None:
    root = farref.remote("B", Counted, (5,))
    refs = [root, *(farref.remote(name, identity, (root,)) for name in "CDE"), root]
    farref.rpc_sync("B", pickled)
    copies = farref.get(refs)
    assert [copy.content for copy in copies] == [5] * 5
    assert farref.rpc_sync("B", pickled) == 1
    assert all(copy is copies[0] for copy in copies)


# ---- cycles


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_cycle_is_an_error_for_every_waiter(chain_system: System, size: int) -> None:
    workers = "BCD"[:size]
    refs = [farref.remote(at, take, (at,)) for at in workers]
    tail = farref.remote("E", identity, (refs[0],))
    futures = [ref.future() for ref in (*refs, tail)]
    for at, target in zip(workers, [*refs[1:], refs[0]], strict=True):
        farref.rpc_sync(at, put, (at, target))
    for future in futures:
        with pytest.raises(AliasCycleError):
            future.result()
    for ref in (*refs, tail):
        with pytest.raises(AliasCycleError):
            ref.to_here()
        with pytest.raises(AliasCycleError):
            ref.rpc_sync().anything()
    assert farref.wait(refs, size, timeout=60)[1] == []
    del refs, tail, futures, future, ref, target
    assert until(chain_system, lambda: nothing_is_left(chain_system))


def test_a_cycle_that_nobody_waits_for_is_freed(chain_system: System) -> None:
    refs = [farref.remote(at, take, (at,)) for at in "BC"]
    for at, target in zip("BC", reversed(refs), strict=True):
        farref.rpc_sync(at, put, (at, target))
    del refs, target
    assert until(chain_system, lambda: nothing_is_left(chain_system))


# ---- deaths


@pytest.fixture
def mortal(process_system: System) -> System:
    for name in "BCD":
        process_system.worker(name)
    return process_system


def test_the_middle_may_die_once_its_ends_know_each_other(mortal: System) -> None:
    ref = aliases("BCD", make_box, "there")
    ref.to_here()
    assert until(mortal, lambda: not held_at("B") and not held_at("C"))
    buried: list[object] = []
    for name in "BC":
        farref.rpc_sync(name, put, ("kept", RRef(name, on_delete=buried.append)))
    for name in "BC":
        kill(name)
    assert until(mortal, lambda: len(buried) == 2)
    assert ref.rpc_sync().get() == "there"


def test_when_the_owner_of_the_value_dies_every_alias_says_so(mortal: System) -> None:
    fetched, fresh = aliases("BCD"), aliases("BCD")
    fetched.to_here()
    assert farref.wait([fresh])
    kill("D")
    for ref in (fetched, fresh):
        with pytest.raises(OwnerDiedError):
            ref.to_here()
