"""Rings of objects over real processes: freed when nothing reaches them, and never before."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import signal
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from farref import RefActor, RefLostError, RRef, System, remote, rpc_sync
from farref.actors.inspect.metrics import text
from farref.testing import until

from ...bases import PROCESSES
from ...waiting import eventually
from ..conftest import GRACE
from ..helpers import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

pytestmark = pytest.mark.processes
NAMES = ("B", "C", "D")
HELD: dict[str, Any] = {}
"""Objects that code of a worker keeps."""


class Node:
    """An object that holds others."""

    def __init__(self) -> None:
        self.links: list[Any] = []

    def link(self, *refs: Any) -> None:
        self.links += refs

    def wrap(self, how: str, ref: Any) -> None:
        """Hold *ref* within another object."""
        self.links.append(WRAPS[how](ref))

    def tangle(self, how: str) -> None:
        """Put the object into a cycle of Python's own."""
        self.knot = TANGLES[how](self)

    def count(self) -> int:
        return len(self.links)

    def seen(self) -> str:
        return type(self.links[0]).__name__

    def hold(self, name: str) -> None:
        """Let a variable lead to the value."""
        HELD[name] = self

    def watch(self, name: str) -> None:
        HELD[name] = weakref.ref(self)

    def thread(self, name: str) -> None:
        """Let the variable of a thread lead to the handles."""
        started, end = threading.Event(), threading.Event()

        def keep(links: list[Any]) -> None:
            started.set()
            end.wait(PATIENCE)
            HELD[f"{name} had"] = len(links)

        HELD[name] = end
        threading.Thread(target=keep, args=(self.links,), daemon=True).start()
        started.wait(PATIENCE)

    def apart(self) -> None:
        """Move a handle out of the value, into a variable."""
        HELD["apart"] = self.links.pop()


def _suspended(ref: Any) -> Any:
    async def waiting(ref: Any) -> None:
        await Never()
        ref.owner_name()

    made = waiting(ref)
    made.send(None)
    return made


class Never:
    def __await__(self) -> Generator[None]:
        yield


def _generator(ref: Any) -> Any:
    def suspended(ref: Any) -> Iterator[Any]:
        yield ref

    made = suspended(ref)
    next(made)
    return made


class Holder:
    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def method(self) -> Any:
        return self.ref


WRAPS: dict[str, Any] = {
    "container": lambda ref: {"key": (ref, {"more": [ref]})},
    "attribute": Holder,
    "closure": lambda ref: lambda: ref,
    "bound method": lambda ref: Holder(ref).method,
    "partial": lambda ref: functools.partial(print, ref),
    "generator": _generator,
    "coroutine": _suspended,
    "set": lambda ref: {ref},
}


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
    "generator": _generator,
    "coroutine": _suspended,
    "cached function": lambda node: functools.lru_cache(lambda: node),
    "callback of a weak reference": lambda node: weakref.ref(Node, node.link),
    "finalizer that makes it live on": Resurrected,
}


def release(name: str) -> Any:
    """Let go of what a worker's variable holds."""
    found = HELD.pop(name, None)
    if isinstance(found, threading.Event):
        found.set()
    return f"{name} had" in HELD


def use(name: str) -> int:
    """Use the value that a worker's variable leads to."""
    return sum(isinstance(each.owner_name(), str) for each in HELD[name].links)


@pytest.fixture(scope="module", params=PROCESSES)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    gc.freeze()
    with System(request.param, timeout=20, orphan_grace=GRACE) as made:
        for name in NAMES:
            made.worker(name)
        yield made


def closed(nodes: list[Any]) -> list[Any]:
    """*nodes*; each has a reference to the next one now, the last one to the first."""
    for one, other in itertools.pairwise([*nodes, nodes[0]]):
        (one.local_value() if one.is_owner() else one.rpc_sync()).link(other)
    return nodes


def ring_of(*owners: str) -> list[Any]:
    """A ring of objects on *owners*."""
    return closed([remote(owner, Node) for owner in owners])


def ring_here(number: int) -> list[Any]:
    """A ring of objects of this process."""
    return closed([RRef(Node()) for _ in range(number)])


def row_of(number: int) -> list[Any]:
    """Objects on workers in turn, each with references to its two neighbours."""
    nodes = [remote(NAMES[place % 3], Node) for place in range(number)]
    for one, other in itertools.pairwise(nodes):
        one.rpc_sync().link(other)
        other.rpc_sync().link(one)
    return nodes


def ids(nodes: list[Any]) -> set[str]:
    return {str(node.id) for node in nodes}


def there(system: System, names: set[str]) -> set[str]:
    """The objects of *names* that exist."""
    rows = system.references(timeout=PATIENCE)
    return {row.rref for row in rows if row.role in ("owner", "alias")} & names


def assert_goes(system: System, names: set[str]) -> None:
    """Searches free all of *names*, though not always the first one: a count may be on its way."""
    search_until(system, lambda: not there(system, names), lambda: there(system, names))


def search_until(
    system: System, condition: Callable[[], object], otherwise: Any = "nothing is found"
) -> None:
    """Search again and again, until *condition* holds."""

    def search() -> object:
        system.collect(timeout=PATIENCE)
        return condition()

    eventually(search, otherwise, PATIENCE)


def objects_of(found: tuple[Any, ...]) -> set[str]:
    return {str(each) for garbage in found for each in garbage.objects}


def found_in(system: System, **how: Any) -> tuple[Any, ...]:
    """What searches find, as soon as one finds anything."""
    found: tuple[Any, ...] = ()

    def find() -> tuple[Any, ...]:
        nonlocal found
        found = system.collect(timeout=PATIENCE, **how)
        return found

    eventually(find, "nothing is found", PATIENCE)
    return found


def assert_stays(system: System, names: set[str]) -> None:
    """Nothing of *names* is taken for garbage."""
    for _ in range(3):
        assert not objects_of(system.collect(timeout=PATIENCE)) & names
        time.sleep(0.05)
    assert there(system, names) == names


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


def test_the_metrics_tell_of_it(system: System) -> None:
    before = system.counters(timeout=PATIENCE)
    names = ids(ring_of("B", "C"))
    assert_goes(system, names)
    after = system.counters(timeout=PATIENCE)
    assert sum(after[name].searches - before[name].searches for name in after) > 0
    assert sum(after[name].collected - before[name].collected for name in after) >= len(names)
    told = text("s", after, {}).splitlines()
    for metric in ("searches_total", "collected_total", "search_pause_seconds"):
        lines = [line.split() for line in told if line.startswith(f"farref_{metric}{{")]
        shown = {line[0]: float(line[1]) for line in lines}
        field = {"search_pause_seconds": "pause"}.get(metric, metric.removesuffix("_total"))
        assert sorted(shown.values()) == sorted(getattr(each, field) for each in after.values())
        assert max(shown.values()) > 0


def test_a_list_over_workers_with_links_both_ways_goes(system: System) -> None:
    nodes = row_of(12)
    names = ids(nodes)
    nodes[:] = nodes[7:8]
    assert_stays(system, names)
    nodes.clear()
    assert_goes(system, names)


@pytest.mark.parametrize("how", WRAPS)
def test_a_ring_through_any_kind_of_object_goes(system: System, how: str) -> None:
    nodes = [remote("B", Node), remote("C", Node)]
    nodes[0].rpc_sync().wrap(how, nodes[1])
    nodes[1].rpc_sync().link(nodes[0])
    names = ids(nodes)
    assert_stays(system, names)
    nodes.clear()
    assert_goes(system, names)


@pytest.mark.parametrize("how", TANGLES)
def test_what_is_reported_goes_although_it_is_in_cycles_of_python(system: System, how: str) -> None:
    """No process collects by itself, nor is it asked again: a report means that the ring goes."""
    for name in NAMES:
        rpc_sync(name, gc.disable)
    try:
        nodes = ring_of("B", "C", "C", "D")
        for node in nodes:
            node.rpc_sync().tangle(how)
        names, found = ids(nodes), set[str]()
        nodes.clear()
        del node

        def reported() -> bool:
            found.update(
                str(each) for it in system.collect(timeout=PATIENCE) for each in it.objects
            )
            return not found.isdisjoint(names)

        eventually(reported, patience=PATIENCE)
        assert found >= names
        eventually(lambda: not there(system, names))
    finally:
        for name in NAMES:
            rpc_sync(name, gc.enable)


def pass_on(ref: Any) -> Any:
    return ref


def test_a_ring_through_an_alias_goes(system: System) -> None:
    node = remote("B", Node)
    alias = remote("C", pass_on, args=(node,))
    node.rpc_sync().link(alias)
    names = ids([node, alias])
    del alias
    assert there(system, names)
    del node
    assert_goes(system, names)


@pytest.mark.parametrize("how", ["hold", "watch", "thread"])
def test_what_a_variable_of_a_worker_reaches_stays(system: System, how: str) -> None:
    """A variable, a weak reference, or the variable of a thread leads to a value of the ring."""
    nodes = ring_of("B", "C")
    names = ids(nodes)
    getattr(nodes[0].rpc_sync(), how)("kept")
    nodes.clear()
    assert_stays(system, names)
    if how == "hold":
        assert rpc_sync("B", use, args=("kept",)) == 1
    rpc_sync("B", release, args=("kept",))
    assert_goes(system, names)


def test_a_ring_that_is_cut_open_stays_as_far_as_it_is_reached(system: System) -> None:
    nodes = ring_of("B", "C", "D")
    names = ids(nodes)
    nodes[0].rpc_sync().apart()
    nodes.clear()
    # B's variable holds the second; the second leads to the third, and the third to the first.
    assert_stays(system, names)
    rpc_sync("B", release, args=("apart",))
    eventually(lambda: not there(system, names))


def test_a_dry_run_only_tells(system: System) -> None:
    nodes = ring_of("B", "C")
    names = ids(nodes)
    nodes.clear()
    found = found_in(system, dry_run=True)
    assert {str(each) for each in found[0].objects} == names
    assert found[0].cut == 0
    assert found[0].ring[0] == found[0].ring[-1]
    assert there(system, names) == names
    assert_goes(system, names)


def make_told(log: list[str], name: str) -> None:
    node = Node()
    HELD[f"log {name}"] = log
    HELD[name] = RRef(node, on_delete=functools.partial(_told, log, name))


def _told(log: list[str], name: str, node: Node) -> None:
    log.append(f"{name} {len(node.links)}")


def take(name: str) -> Any:
    return HELD.pop(name)


def test_on_delete_runs_once_for_each_object(system: System) -> None:
    nodes = []
    for owner in ("B", "C"):
        rpc_sync(owner, make_told, args=([], f"told {owner}"))
        nodes.append(rpc_sync(owner, take, args=(f"told {owner}",)))
    nodes[0].rpc_sync().link(nodes[1])
    nodes[1].rpc_sync().link(nodes[0])
    names = ids(nodes)
    nodes.clear()
    assert_goes(system, names)
    for owner in ("B", "C"):
        log = functools.partial(rpc_sync, owner, logged, args=(f"log told {owner}",))
        eventually(log)
        assert log() == [f"told {owner} 1"]


def logged(name: str) -> Any:
    return list(HELD[name])


class Saver(Node):
    """Its finalizer keeps the handles of its value."""

    def __del__(self) -> None:
        HELD["saved"] = self.links


def use_saved() -> int:
    """Use the object that a saved handle leads to; this one leads back to the ring."""
    count: int = HELD["saved"][0].rpc_sync().use_next()
    return count


class User(Node):
    def use_next(self) -> int:
        count: int = self.links[0].rpc_sync().count()
        return count


def test_what_a_finalizer_saves_is_there_and_leads_to_an_error(system: System) -> None:
    nodes = [remote("B", Saver), remote("C", User)]
    nodes[0].rpc_sync().link(nodes[1])
    nodes[1].rpc_sync().link(nodes[0])
    names, cut = ids(nodes), str(nodes[0].id)
    nodes.clear()
    search_until(system, lambda: rpc_sync("B", saves))
    assert there(system, names) == names
    with pytest.raises(RefLostError, match=cut):
        rpc_sync("B", use_saved)
    rpc_sync("B", release, args=("saved",))
    assert_goes(system, names)


def saves() -> bool:
    return "saved" in HELD


def owned(*systems: System) -> list[int]:
    """The numbers of objects that live in *systems*, after one search more in each."""
    for system in systems:
        system.collect(timeout=PATIENCE)
    return [len(system.endpoint.core.context.owners) for system in systems]


def assert_owned(numbers: list[int], *systems: System) -> None:
    """The objects of *systems* become so few, and no fewer. A ring may need several searches."""
    assert until(systems[0], lambda: owned(*systems) == numbers, PATIENCE), owned(*systems)
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


@pytest.mark.parametrize("sharing", ["borrow", "fork"])
def test_a_ring_goes_in_any_discipline(sharing: Any) -> None:
    with System(timeout=20, sharing=sharing) as system:
        for name in NAMES:
            system.worker(name)
        nodes = ring_of(*NAMES)
        names = ids(nodes)
        assert_stays(system, names)
        nodes.clear()
        assert_goes(system, names)


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="cycles must be one of collect, report, off, not 'on'"):
        System(cycles="on")  # type: ignore[arg-type]  # that is the point
