"""Rings of objects over real processes: freed when nothing reaches them, and never before."""

from __future__ import annotations

import functools
import gc
import os
import signal
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from farref import RefActor, RefLostError, RRef, System, remote, rpc_sync

from ...bases import PROCESSES
from ...commands.kit import farref as command
from ...waiting import eventually
from ..helpers import PATIENCE
from .rings import (
    HELD,
    NAMES,
    Node,
    assert_goes,
    assert_stays,
    closed,
    found_in,
    ids,
    objects_of,
    release,
    ring_here,
    ring_of,
    same,
    search_until,
    there,
)
from .test_kinds import coroutine, generator, suspended

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module", params=PROCESSES)
def base(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("owners", [("B",), ("B", "B"), ("B", "C"), ("B", "C", "D"), NAMES * 10])
def test_a_ring_goes_when_nothing_reaches_it(system: System, owners: tuple[str, ...]) -> None:
    nodes = ring_of(*owners)
    names = ids(nodes)
    assert_stays(system, names)
    del nodes[1:]
    assert_stays(system, names)  # the first one leads to all
    assert nodes[0].rpc_sync().count() == 1
    nodes.clear()
    assert_goes(system, names)


@pytest.mark.parametrize("sharing", ["borrow", "fork"])
def test_a_ring_goes_in_any_discipline(sharing: Any) -> None:
    with System(timeout=20, sharing=sharing) as system:
        for name in NAMES:
            system.worker(name)
        test_a_ring_goes_when_nothing_reaches_it(system, NAMES)


def test_the_metrics_tell_of_it(system: System) -> None:
    before = system.counters(timeout=PATIENCE)
    names = ids(ring_of("B", "C"))
    assert_goes(system, names)
    after = system.counters(timeout=PATIENCE)
    assert sum(after[name].searches - before[name].searches for name in after) > 0
    assert sum(after[name].collected - before[name].collected for name in after) >= len(names)
    told = command("metrics", system.name).stdout
    for name, each in after.items():
        labels = f'{{system="{system.name}",endpoint="{name}"}}'
        assert f"\nfarref_searches_total{labels} {each.searches}\n" in told
        assert f"\nfarref_collected_total{labels} {each.collected}\n" in told
        assert f"\nfarref_search_pause_seconds{labels} {each.pause}\n" in told
    assert max(each.pause for each in after.values()) > 0


# ---- values in cycles of Python's own


class Resurrected:
    """Its finalizer makes it live on, for a moment."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __del__(self) -> None:
        HELD["risen"] = self
        del HELD["risen"]


TANGLES: dict[str, Any] = {
    "itself": lambda node: node,
    "closure": lambda node: lambda: node,
    "generator": suspended(generator),
    "coroutine": suspended(coroutine),
    "cached function": lambda node: functools.lru_cache(lambda: node),
    "callback of a weak reference": lambda node: weakref.ref(Node, node.link),
    "finalizer that makes it live on": Resurrected,
}


class Tangled(Node):
    def tangle(self, how: str) -> None:
        """Put the object into a cycle of Python's own."""
        self.knot = TANGLES[how](self)


@pytest.fixture
def uncollected(system: System) -> Iterator[System]:
    """No worker's process collects garbage by itself."""
    for name in NAMES:
        rpc_sync(name, gc.disable)
    yield system
    for name in NAMES:
        rpc_sync(name, gc.enable)


@pytest.mark.parametrize("how", TANGLES)
def test_what_is_reported_goes_although_it_is_in_cycles_of_python(
    uncollected: System, how: str
) -> None:
    """A report means that the ring goes, without a further search."""
    nodes = ring_of("B", "C", "C", "D", kind=Tangled)
    for node in nodes:
        node.rpc_sync().tangle(how)
    names, found = ids(nodes), set[str]()
    nodes.clear()
    del node
    search_until(uncollected, lambda: not found.isdisjoint(names), found=found)
    assert found >= names
    eventually(lambda: not there(uncollected, names))


# ---- what leads to a ring


def test_a_ring_through_an_alias_goes(system: System) -> None:
    node = remote("B", Node)
    alias = remote("C", same, args=(node,))
    node.rpc_sync().link(alias)
    names = ids([node, alias])
    del alias
    assert there(system, names)
    del node
    assert_goes(system, names)


class Openable(Node):
    def apart(self) -> None:
        """Move a handle out of the value, into a variable."""
        HELD["apart"] = self.links.pop()


def test_a_ring_that_is_cut_open_stays_as_far_as_it_is_reached(system: System) -> None:
    nodes = ring_of("B", "C", "D", kind=Openable)
    names = ids(nodes)
    nodes[0].rpc_sync().apart()
    nodes.clear()
    # B's variable holds the second; the second leads to the third, and the third to the first.
    assert_stays(system, names)
    rpc_sync("B", release, args=("apart",))
    eventually(lambda: not there(system, names))


class Keeper(RefActor):
    """An actor with a reference in an attribute."""

    def receiveMsg_list(self, message: list[Any], _sender: Any) -> None:
        self.kept = message[0] if message else None
        self.send(_sender, "done")


def test_what_an_actor_holds_stays(system: System) -> None:
    keeper = system.create(Keeper)
    nodes = ring_of("B", "C")
    names = ids(nodes)
    assert system.ask(keeper, [nodes[0]], timeout=PATIENCE) == "done"
    nodes.clear()
    assert_stays(system, names)
    assert system.ask(keeper, [], timeout=PATIENCE) == "done"
    assert_goes(system, names)


def test_a_ring_whose_member_dies_goes(system: System) -> None:
    system.worker("mortal")
    nodes = ring_of("B", "mortal", "C", "B", "C")
    names = ids(nodes)
    dead = str(nodes[1].id)
    nodes[2].rpc_sync().link(nodes[0])  # a ring of the living, too
    nodes.clear()
    os.kill(rpc_sync("mortal", os.getpid), signal.SIGKILL)
    assert_goes(system, names - {dead})


def owned(*systems: System) -> list[int]:
    """The numbers of objects that the program owns in *systems*, after one search more in each."""
    for system in systems:
        system.collect(timeout=PATIENCE)
    return [sum(row.role == "owner" for row in system.references()) for system in systems]


def assert_owned(numbers: list[int], *systems: System) -> None:
    """The objects of *systems* become so few, and no fewer. A ring may need several searches."""
    eventually(lambda: owned(*systems) == numbers, lambda: owned(*systems))
    for _ in range(3):
        assert owned(*systems) == numbers


def test_two_systems_in_one_process_do_not_disturb_each_other() -> None:
    """A ring of one goes. One over both stays until it is opened: no endpoint sees all of it."""
    with System(timeout=20) as first:
        ring, crossing = ring_here(2), RRef(Node())
        with System(timeout=20) as second:
            there = RRef(Node())
            crossing.local_value().link(there)
            there.local_value().link(crossing)
            node = there.local_value()
            assert_owned([3, 1], first, second)
            ring.clear()
            del crossing, there
            assert_owned([1, 1], first, second)
            assert node.links[0].rpc_sync().count() == 1
            opened = weakref.ref(node)
            del node
            assert_owned([1, 1], first, second)
            opened().links.clear()  # type: ignore[union-attr]  # it is there
            assert_owned([0, 0], first, second)


# ---- what the user's code sees of a collection


def test_a_dry_run_only_tells(system: System) -> None:
    names = ids(ring_of("B", "C"))
    (found,) = found_in(system, dry_run=True)
    assert objects_of([found]) == names
    assert (found.cut, found.ring[0]) == (0, found.ring[-1])
    assert there(system, names) == names
    assert_goes(system, names)


def make_told() -> RRef[Node]:
    HELD["told"] = log = list[int]()
    return RRef(Node(), on_delete=lambda node: log.append(len(node.links)))


def told() -> list[int]:
    return list(HELD["told"])


def test_on_delete_runs_once_for_each_object(system: System) -> None:
    nodes = [rpc_sync(owner, make_told) for owner in "BC"]
    names = ids(closed(nodes))
    nodes.clear()
    assert_goes(system, names)
    for owner in "BC":
        eventually(functools.partial(rpc_sync, owner, told))
        assert rpc_sync(owner, told) == [1]


class Saver(Node):
    """Its finalizer keeps the handles of its value."""

    def __del__(self) -> None:
        HELD["saved"] = self.links


def use_saved() -> int:
    """Use the object that a saved handle leads to, and the next one, which is of the ring, too."""
    count: int = HELD["saved"][0].rpc_sync().count_next()
    return count


def saves() -> bool:
    return "saved" in HELD


def test_what_a_finalizer_saves_is_there_and_leads_to_an_error(system: System) -> None:
    nodes = closed([remote("B", Saver), remote("C", Node)])
    names, cut = ids(nodes), str(nodes[0].id)
    nodes.clear()
    search_until(system, lambda: rpc_sync("B", saves))
    assert there(system, names) == names
    with pytest.raises(RefLostError, match=cut):
        rpc_sync("B", use_saved)
    rpc_sync("B", release, args=("saved",))
    assert_goes(system, names)


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="cycles must be one of collect, report, off, not 'on'"):
        System(cycles="on")  # type: ignore[arg-type]  # that is the point
