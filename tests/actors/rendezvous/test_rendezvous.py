"""Actors and programs that really meet: stores, kills, and a service that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import (
    FetchTimeoutError,
    Group,
    ProtocolError,
    RefActor,
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousTimeoutError,
    RendezvousTimeouts,
    System,
    WorkerInfo,
    WouldBlockError,
    rendezvous_handler_registry,
)
from farref.actors.rendezvous.service import ask
from farref.testing import severed

from ...bases import PROCESSES
from ...stopping import stop
from ..conftest import GRACE
from ..helpers import idle, until

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE = "farref rendezvous"
"""The name of the service's endpoint."""
SOON = RendezvousTimeouts(join=20, last_call=0.2)
PATIENT = RendezvousTimeouts(join=20, last_call=10)
"""For groups that need all members, on a machine of any speed."""
FAIR = RendezvousTimeouts(join=20, last_call=3)
"""For those groups, and smaller ones later."""


class Node:
    """Carries out a test's orders on a worker, one call at a time."""

    def __init__(self, run: str, least: int, most: int, **more: Any) -> None:
        self.meeting = farref.rendezvous(
            run, min_nodes=least, max_nodes=most, **{"timeouts": SOON, **more}
        )

    def meet(self) -> tuple[int, int, list[str]]:
        group = self.meeting.next_rendezvous()
        return group.round, group.rank, [member.name for member in group.members]

    def pid(self) -> int:
        return os.getpid()

    def news(self, timeout: float = 10) -> str | None:
        return self.group.wait_for_news(timeout)

    @property
    def group(self) -> Group:
        assert self.meeting.group is not None
        return self.meeting.group

    def store(self, method: str, *args: Any) -> Any:
        return getattr(self.group.store, method)(*args)

    def begin_get(self, key: str) -> None:
        """Get *key* beside the other calls of this object."""
        self.outcome = ThreadPoolExecutor(1).submit(self.group.store.get, key)

    def end_get(self) -> bytes:
        return self.outcome.result(20)

    def call(self, method: str) -> Any:
        return getattr(self.meeting, method)()


Handle = Any


def node_on(system: System, name: str, run: str = "run", *what: Any, **more: Any) -> Handle:
    """A node on the worker *name*, which is started if need be."""
    if name not in {info.name for info in system.workers()}:
        system.worker(name)
    return farref.remote(name, Node, (run, *what), more)


def meet(*nodes: Handle) -> list[Any]:
    """All of them, at once."""
    futures = [node.rpc_async(timeout=30).meet() for node in nodes]
    return [future.result() for future in futures]


def kill(node: Handle) -> None:
    os.kill(node.rpc_sync().pid(), signal.SIGKILL)


def pid_of(system: System, name: str) -> int:
    pid: int = farref.rpc_sync(name, os.getpid)
    return pid


@pytest.fixture(params=PROCESSES)
def processes(request: pytest.FixtureRequest) -> Iterator[System]:
    with System(request.param, timeout=20, orphan_grace=GRACE, silence=1) as system:
        yield system


@pytest.fixture
def ours() -> Iterator[System]:
    """On our base only: the tests do not depend on the base."""
    with System("farrefBase", timeout=20, orphan_grace=GRACE, silence=1) as system:
        yield system


# ---- meeting


def test_workers_and_the_program_meet_in_any_order(own_system: System) -> None:
    meeting = farref.rendezvous("run", min_nodes=3, name="n1", timeouts=SOON)
    others = [node_on(own_system, n, "run", 3, 3) for n in ("n10", "n2")]
    futures = [node.rpc_async(timeout=30).meet() for node in others]
    group = meeting.next_rendezvous()
    assert [member.name for member in group.members] == ["n1", "n2", "n10"]
    assert [member.rank for member in group.members] == [0, 1, 2]
    assert (group.rank, group.world_size, group.round) == (0, 3, 0)
    assert [future.result()[1] for future in futures] == [2, 1]
    assert {future.result()[2] == ["n1", "n2", "n10"] for future in futures} == {True}
    assert repr(group) == "<round 0 of 'run': rank 0 of 3>"
    workers = [member.worker for member in group.members]
    assert all(isinstance(worker, WorkerInfo) for worker in workers)
    assert farref.rpc_sync(workers[2], farref.get_worker_info).name == "n10"
    assert group.news is None
    assert group.wait_for_news(0) is None


class Trainer(RefActor):
    """Meets in a handler, and goes on handling messages."""

    async def receiveMsg_str(self, message: str, sender: Any) -> None:
        if message == "are you there?":
            self.send(sender, "yes")
            return
        meeting = farref.rendezvous("run", min_nodes=2, name=message, timeouts=SOON)
        with pytest.raises(WouldBlockError, match="await"):
            meeting.next_rendezvous()
        group = await meeting
        store = group.store.awaitable
        waiting = store.get("from the program")
        with pytest.raises(WouldBlockError, match="await"):
            group.store.set("x", b"y")
        await store.set("from the actor", f"rank {group.rank}")
        self.send(sender, [group.rank, await waiting])
        self.send(sender, await group.change())


def test_actors_await_what_programs_block_for(own_system: System) -> None:
    trainer = own_system.create(Trainer)
    own_system.tell(trainer, "actor")
    assert own_system.ask(trainer, "are you there?") == "yes"
    meeting = farref.rendezvous("run", min_nodes=2, name="b program", timeouts=SOON)
    group = meeting.next_rendezvous()
    assert group.store.get("from the actor") == b"rank 0"
    assert own_system.ask(trainer, "are you there?") == "yes"
    group.store.set("from the program", "go on")
    assert own_system.listen() == [0, b"go on"]
    meeting.leave()
    assert own_system.listen() == "lost: b program"


class Leaver(RefActor):
    """Does in handlers all the things that programs do."""

    async def receiveMsg_str(self, message: str, sender: Any) -> None:
        if message == "meet":
            self.meeting = farref.rendezvous("run", min_nodes=1, max_nodes=2, timeouts=SOON)
            with pytest.raises(WouldBlockError, match="await"):
                self.meeting.leave()
            self.send(sender, (await self.meeting).world_size)
        elif message == "add":
            group = self.meeting.group
            assert group is not None
            store = group.store.awaitable
            self.send(sender, sorted(await asyncio.gather(*(store.add("n", 1) for _ in range(9)))))
        elif message == "pass":
            async with farref.rendezvous("run", min_nodes=1, timeouts=SOON) as meeting:
                self.send(sender, (await meeting).round)
        else:
            self.send(sender, await getattr(self.meeting.awaitable, message)())


def test_actors_leave_and_close_in_handlers(own_system: System) -> None:
    leaver = own_system.create(Leaver)
    meeting = farref.rendezvous("run", min_nodes=1, max_nodes=2, timeouts=SOON)
    group = meeting.next_rendezvous()
    own_system.tell(leaver, "meet")
    assert group.wait_for_news(10)
    assert meeting.next_rendezvous().world_size == 2
    assert own_system.listen() == 2
    assert own_system.ask(leaver, "num_nodes_waiting") == 0
    assert own_system.ask(leaver, "leave") is None
    assert meeting.num_nodes_waiting() == 1  # the round is not complete
    assert own_system.ask(leaver, "num_nodes_waiting") == 0  # it has left the run
    assert own_system.ask(leaver, "is_closed") is False
    assert own_system.ask(leaver, "shutdown") is True
    assert meeting.is_closed()
    assert meeting.num_nodes_waiting() == 0


def test_a_handler_leaves_at_the_end_of_a_block(own_system: System) -> None:
    leaver = own_system.create(Leaver)
    assert [own_system.ask(leaver, "pass") for _ in range(2)] == [0, 1]


def test_who_is_forgotten_leaves(own_system: System) -> None:
    """Otherwise the others would wait for it as long as its endpoint lives."""
    b = node_on(own_system, "B", "run", 1, 2, timeouts=PATIENT)
    meeting = farref.rendezvous("run", min_nodes=1, max_nodes=2, timeouts=PATIENT)
    both = b.rpc_async(timeout=30).meet()
    group: Group | None = meeting.next_rendezvous()
    assert both.result()[2] == ["B", "program"]
    del meeting
    assert b.rpc_sync().news(0) is None  # its group still exists
    del group
    assert b.rpc_sync().news() == "lost: program"


def test_an_order_can_be_asked_for(own_system: System) -> None:
    nodes = [
        node_on(own_system, name, "run", 3, 3, order=order)
        for name, order in (("a", 3), ("b", 1), ("c", None))
    ]
    assert meet(*nodes)[0] == (0, 1, ["b", "a", "c"])


def test_a_late_one_waits_and_all_meet_again_with_their_ranks(own_system: System) -> None:
    b, c = (node_on(own_system, name, "run", 2, 3, timeouts=FAIR) for name in "BC")
    assert meet(b, c) == [(0, 0, ["B", "C"]), (0, 1, ["B", "C"])]
    late = node_on(own_system, "A", "run", 2, 3, timeouts=FAIR)
    future = late.rpc_async(timeout=30).meet()
    assert b.rpc_sync().news() == "waiting: A"
    assert c.rpc_sync().call("num_nodes_waiting") == 1
    assert meet(b, c) == [(1, 0, ["B", "C", "A"]), (1, 1, ["B", "C", "A"])]
    assert future.result() == (1, 2, ["B", "C", "A"])


def test_a_spare_steps_in_for_who_leaves(own_system: System) -> None:
    b, c = (node_on(own_system, name, "run", 2, 2) for name in "BC")
    meet(b, c)
    spare = node_on(own_system, "A", "run", 2, 2).rpc_async(timeout=30).meet()
    idle(own_system, 0.3)
    assert not spare.done()
    b.rpc_sync().call("leave")
    assert c.rpc_sync().news() in ("lost: B", "waiting: A")
    assert meet(c) == [(1, 1, ["A", "C"])]
    assert spare.result() == (1, 0, ["A", "C"])


# ---- death


def test_survivors_of_a_kill_are_told_and_meet_again(processes: System) -> None:
    """No node is in a call, and rank 0 dies."""
    nodes = [node_on(processes, name, "run", 2, 3, timeouts=FAIR) for name in "ABC"]
    assert meet(*nodes) == [(0, rank, ["A", "B", "C"]) for rank in range(3)]
    assert nodes[1].rpc_sync().call("num_nodes_waiting") == 0
    waiting = [node.rpc_async().news() for node in nodes[1:]]
    kill(nodes[0])
    assert [future.result() for future in waiting] == ["lost: A"] * 2
    assert nodes[1].rpc_sync().call("num_nodes_waiting") == 1
    assert meet(*nodes[1:]) == [(1, 1, ["C", "B"]), (1, 0, ["C", "B"])]
    again = node_on(processes, "D", "run", 2, 3, timeouts=FAIR)
    coming = again.rpc_async(timeout=30).meet()
    assert nodes[1].rpc_sync().news() == "waiting: D"
    assert meet(*nodes[1:]) == [(2, 1, ["C", "B", "D"]), (2, 0, ["C", "B", "D"])]
    assert coming.result() == (2, 2, ["C", "B", "D"])


def test_who_is_started_again_under_its_name_has_its_rank(ours: System) -> None:
    nodes = [node_on(ours, name, "run", 3, 3) for name in "ABC"]
    meet(*nodes)
    kill(nodes[0])
    assert nodes[1].rpc_sync().news() == "lost: A"
    assert until(ours, lambda: "A" not in {info.name for info in ours.workers()})
    again = node_on(ours, "A", "run", 3, 3)
    assert meet(again, *nodes[1:]) == [(1, rank, ["A", "B", "C"]) for rank in range(3)]


def test_one_that_is_stopped_is_given_up_and_the_others_go_on(ours: System) -> None:
    nodes = [node_on(ours, name, "run", 1, 2, timeouts=FAIR) for name in "AB"]
    meet(*nodes)
    pid = nodes[0].rpc_sync().pid()
    stop(pid)
    try:
        assert nodes[1].rpc_sync().news() == "lost: A"
        assert meet(nodes[1]) == [(1, 0, ["B"])]
    finally:
        os.kill(pid, signal.SIGCONT)


def test_one_whose_keep_alives_stop_is_given_up(ours: System) -> None:
    """The service's own clock decides, although the endpoint lives."""
    quick = RendezvousTimeouts(join=20, last_call=10, keep_alive=0.1, attempts=20)
    nodes = [node_on(ours, name, "run", 1, 2, timeouts=quick) for name in "AB"]
    meet(*nodes)
    with severed(ours, "A", SERVICE):
        assert nodes[1].rpc_sync().news() == "lost: A"
    assert "given up" in nodes[0].rpc_sync().news()
    with pytest.raises(RendezvousStateError, match="no member"):
        nodes[0].rpc_sync().store("set", "a", b"b")


def test_one_that_dies_while_they_meet_is_not_waited_for(ours: System) -> None:
    dies, b, c = (node_on(ours, name, "run", 2, 3) for name in "ABC")
    pid = dies.rpc_sync().pid()
    never = dies.rpc_async(timeout=30).meet()

    def come() -> list[str]:
        return farref.rpc_sync(SERVICE, seated, ("run",)) if services(ours) else []

    assert until(ours, lambda: come() == ["A"])
    assert not never.done()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(farref.OwnerDiedError):
        never.result()
    assert until(ours, lambda: come() == [])  # the service hears of it later
    for _, _, names in meet(b, c):
        assert names == ["B", "C"]


async def seated(run: str) -> list[str]:
    """The names of those in the round, as the service has them."""
    from farref.actors.rendezvous.service import _service

    hosted = _service().runs.get(run)
    return [] if hosted is None else [node.name for node in hosted.state.seats()]


# ---- the service dies


def services(system: System) -> list[str]:
    return [info.name for info in system.workers() if info.name.startswith(SERVICE)]


def test_a_standby_takes_over_when_the_service_is_killed(processes: System) -> None:
    b, c = (node_on(processes, name, "run", 2, 3, timeouts=FAIR) for name in "BC")
    meet(b, c)
    assert b.rpc_sync().store("add", "n", 1) == 1
    late = node_on(processes, "A", "run", 2, 3, timeouts=FAIR).rpc_async(timeout=30).meet()
    assert b.rpc_sync().news() == "waiting: A"
    key = c.rpc_async(timeout=30).store("get", "later")
    os.kill(pid_of(processes, SERVICE), signal.SIGKILL)
    assert b.rpc_sync().store("add", "n", 1) == 2
    assert b.rpc_sync().call("num_nodes_waiting") == 1  # exclusivity: no other got in
    assert not late.done()
    b.rpc_sync().store("set", "later", b"here")
    assert key.result() == b"here"
    assert until(processes, lambda: len(services(processes)) == 2)  # it has a standby of its own
    os.kill(pid_of(processes, services(processes)[0]), signal.SIGKILL)
    assert meet(b, c) == [(1, 0, ["B", "C", "A"]), (1, 1, ["B", "C", "A"])]
    assert late.result() == (1, 2, ["B", "C", "A"])


def test_handlers_find_the_standby_together(ours: System) -> None:
    """Each asks from the actor's own loop, and its keep-alives from the client's."""
    actor = ours.create(Leaver)
    assert ours.ask(actor, "meet") == 1
    assert ours.ask(actor, "add") == list(range(1, 10))
    os.kill(pid_of(ours, SERVICE), signal.SIGKILL)
    assert ours.ask(actor, "add") == list(range(10, 19))


def test_a_standby_that_is_killed_is_replaced(ours: System) -> None:
    b, c = (node_on(ours, name, "run", 2, 2) for name in "BC")
    meet(b, c)
    os.kill(pid_of(ours, f"{SERVICE} 2"), signal.SIGKILL)
    assert b.rpc_sync().store("add", "n", 1) == 1
    assert until(ours, lambda: services(ours) == [SERVICE, f"{SERVICE} 3"])
    os.kill(pid_of(ours, SERVICE), signal.SIGKILL)
    assert c.rpc_sync().store("add", "n", 1) == 2
    assert meet(b, c) == [(1, 0, ["B", "C"]), (1, 1, ["B", "C"])]


def test_a_standby_does_not_take_over_from_one_that_is_only_stopped(ours: System) -> None:
    b, c = (node_on(ours, name, "run", 2, 2) for name in "BC")
    meet(b, c)
    pid = pid_of(ours, SERVICE)
    stop(pid)
    try:
        with pytest.raises(RendezvousConnectionError, match="Its process may still run"):
            b.rpc_sync(timeout=40).store("add", "n", 1)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert c.rpc_sync().store("add", "n", 1) == 1
    assert meet(b, c) == [(1, 0, ["B", "C"]), (1, 1, ["B", "C"])]


def test_a_service_that_is_alone_and_killed_is_named_so(ours: System) -> None:
    b, c = (node_on(ours, name, "run", 2, 2, standby=False) for name in "BC")
    meet(b, c)
    assert services(ours) == [SERVICE]
    os.kill(pid_of(ours, SERVICE), signal.SIGKILL)
    assert "died, and any standby too" in b.rpc_sync().news()
    for doing in ("call", "is_closed"), ("store", "num_keys"), ("meet",):
        with pytest.raises(RendezvousConnectionError, match="died, and any standby too"):
            getattr(c.rpc_sync(), doing[0])(*doing[1:])


def test_nobody_takes_over_where_only_the_link_is_cut(ours: System) -> None:
    """Named errors within the timeouts; when the link works again, all is as before."""
    quick = RendezvousTimeouts(join=20, last_call=0.1, heartbeat=0.5)
    b, c = (node_on(ours, name, "run", 2, 2, timeouts=quick) for name in "BC")
    meet(b, c)
    with severed(ours, "B", SERVICE):
        with pytest.raises(RendezvousConnectionError, match=r"did not answer within 0\.5 s"):
            b.rpc_sync().call("num_nodes_waiting")
        assert c.rpc_sync().call("num_nodes_waiting") == 0
        assert services(ours) == [SERVICE, f"{SERVICE} 2"]
    assert b.rpc_sync().store("add", "n", 1) == 1
    assert b.rpc_sync().news(0) is None


def test_what_nobody_asks_for_is_refused(ours: System) -> None:
    farref.rendezvous("run", min_nodes=1, timeouts=SOON).next_rendezvous()
    for what in ("take_over", "_endpoints_died", "no such thing"):
        with pytest.raises(ProtocolError, match="no request"):
            farref.rpc_sync(SERVICE, ask, (what,))
    with pytest.raises(RendezvousError, match="only a standby"):
        farref.rpc_sync(f"{SERVICE} 2", ask, ("about", "run"))
    ours.worker("B")
    with pytest.raises(ProtocolError, match="not a rendezvous service"):
        farref.rpc_sync("B", ask, ("about", "run"))


# ---- closing


def test_a_run_that_is_closed_ends_for_all_and_its_id_is_free_again(own_system: System) -> None:
    a, b = (node_on(own_system, name, "run", 1, 2, timeouts=PATIENT) for name in "AB")
    meet(a, b)
    spare = node_on(own_system, "C", "run", 1, 2).rpc_async(timeout=30).meet()
    idle(own_system, 3.0)  # so long a stalled machine may take to bring it
    assert not spare.done()
    assert a.rpc_sync().call("is_closed") is False
    a.rpc_sync().call("set_closed")
    assert b.rpc_sync().call("is_closed") is True
    assert b.rpc_sync().news() == "the run was closed"
    with pytest.raises(RendezvousGracefulExitError, match="not needed"):
        spare.result()
    with pytest.raises(RendezvousClosedError):
        b.rpc_sync().meet()
    with pytest.raises(RendezvousClosedError):
        node_on(own_system, "C", "run", 1, 2).rpc_sync().meet()
    assert a.rpc_sync().call("shutdown") is True
    assert a.rpc_sync().call("shutdown") is True
    assert a.rpc_sync().call("is_closed") is True
    new = node_on(own_system, "C", "run", 1, 1)
    assert new.rpc_sync().meet() == (1, 0, ["C"])


def test_who_leaves_at_the_end_of_a_block_is_gone(own_system: System) -> None:
    with farref.rendezvous("run", min_nodes=1, timeouts=SOON) as meeting:
        meeting.next_rendezvous()
    with farref.rendezvous("run", min_nodes=1, timeouts=SOON) as meeting:
        assert meeting.next_rendezvous().round == 1


# ---- too few, too late


def test_too_few_come(own_system: System) -> None:
    short = RendezvousTimeouts(join=0.5, last_call=0.1)
    meeting = farref.rendezvous("run", min_nodes=2, timeouts=short)
    with pytest.raises(RendezvousTimeoutError, match="fewer than 2 nodes came"):
        meeting.next_rendezvous()
    alone = farref.rendezvous("run", min_nodes=1, timeouts=SOON)  # all others have left
    assert alone.next_rendezvous().world_size == 1


def test_other_numbers_are_refused(own_system: System) -> None:
    first = node_on(own_system, "A", "run", 1, 2)
    first.rpc_sync().meet()
    other = farref.rendezvous("run", min_nodes=1, max_nodes=3, timeouts=SOON)
    with pytest.raises(RendezvousStateError, match="1 to 3 nodes"):
        other.next_rendezvous()


def test_where_nobody_runs_nothing_is_found() -> None:
    with pytest.raises(farref.SystemDownError):
        farref.rendezvous("run", min_nodes=1)
    with System("simpleSystemBase") as system:
        meeting = farref.rendezvous("run", min_nodes=1, timeouts=SOON)
        meeting.next_rendezvous()
    with pytest.raises(farref.SystemDownError):
        meeting.next_rendezvous()
    assert system is not None


# ---- the store


@pytest.fixture
def group(own_system: System) -> Group:
    return farref.rendezvous("run", min_nodes=1, timeouts=SOON).next_rendezvous()


def test_what_a_store_can_do(group: Group) -> None:
    store = group.store
    store.set("text", "\u00fc")
    assert store.get("text") == "\u00fc".encode()
    store.multi_set(["a", "b"], [b"1", "2"])
    assert store.multi_get(["b", "a"]) == [b"2", b"1"]
    assert store.check(["a", "b"])
    assert not store.check(["a", "c"])
    store.wait(["a"], 1)
    assert [store.add("n", 5), store.add("n", -7), store.add("n", 0)] == [5, -2, -2]
    assert store.get("n") == b"-2"
    store.append("log", "x")
    store.append("log", b"y")
    assert store.get("log") == b"xy"
    assert store.num_keys() == 5
    assert store.delete_key("log") is True
    assert store.delete_key("log") is False
    assert store.num_keys() == 4


def test_compare_set(group: Group) -> None:
    store = group.store
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.compare_set("new", "expected", "desired") == b"expected"
    assert not store.check(["new"])


def test_views_and_clones(group: Group) -> None:
    store = group.store
    view = store.prefix("of").prefix("mine")
    view.set("k", b"v")
    assert store.get("of/mine/k") == b"v"
    assert view.get("k") == b"v"
    assert (view.num_keys(), store.prefix("other").num_keys()) == (1, 0)
    store.set("a", "1")
    assert sorted(store.list_keys()) == ["a", "of/mine/k"]
    assert view.list_keys() == ["k"]
    clone = view.clone()
    clone.set_timeout(timedelta(milliseconds=100))
    assert (clone.timeout, view.timeout, store.timeout) == (0.1, 300, 300)
    assert clone.prefix("x").timeout == 0.1
    assert clone.get("k") == b"v"
    with pytest.raises(FetchTimeoutError):
        clone.get("no such key")
    with pytest.raises(FetchTimeoutError):
        store.wait(["no such key"], timedelta(milliseconds=100))


def test_a_barrier_of_a_store_works_again_and_again(group: Group) -> None:
    store = group.store
    with ThreadPoolExecutor(1) as thread:
        for _ in range(3):
            other = thread.submit(store.barrier, "b", 2)
            store.barrier("b", 2, timedelta(seconds=20))
            other.result(20)
    with pytest.raises(FetchTimeoutError):
        store.barrier("b", 2, 0.1)
    with pytest.raises(ValueError, match="world_size must be"):
        store.barrier("b", 0)


def test_queues_name_their_replacement(group: Group) -> None:
    store: Any = group.store
    for queue, *value in ((store.queue_push, "v"), (store.queue_pop,), (store.queue_len,)):
        with pytest.raises(NotImplementedError, match="number the values"):
            queue("q", *value)
    store.set(f"q/{store.add('last', 1)}", "value")
    assert store.get(f"q/{store.add('next', 1)}") == b"value"


def test_the_first_node_after_everybody_left_decides_anew(own_system: System) -> None:
    slow = RendezvousTimeouts(join=20, last_call=600)
    with farref.rendezvous("run", min_nodes=1, max_nodes=1, timeouts=slow) as meeting:
        meeting.next_rendezvous()
    quick = RendezvousTimeouts(join=20, last_call=0.1)
    with farref.rendezvous("run", min_nodes=1, max_nodes=2, timeouts=quick) as meeting:
        assert meeting.next_rendezvous().world_size == 1


def test_a_standby_has_the_timeouts_of_the_first_node_after_everybody_left(
    processes: System,
) -> None:
    slow = RendezvousTimeouts(join=30, last_call=600, keep_alive=1)
    quick = RendezvousTimeouts(join=30, last_call=0.2, keep_alive=1)
    with farref.rendezvous("run", min_nodes=1, max_nodes=1, timeouts=slow) as meeting:
        meeting.next_rendezvous()
    with farref.rendezvous("run", min_nodes=1, max_nodes=2, timeouts=quick) as meeting:
        meeting.next_rendezvous()
        os.kill(pid_of(processes, SERVICE), signal.SIGKILL)
        assert meeting.next_rendezvous().world_size == 1  # the last call is the standby's


def test_a_get_waits_and_others_go_on(group: Group) -> None:
    with ThreadPoolExecutor(1) as thread:
        got = thread.submit(group.store.get, "k")
        assert group.store.add("n", 1) == 1
        assert not got.done()
        group.store.set("k", b"v")
        assert got.result(20) == b"v"


def test_a_key_that_does_not_come(group: Group) -> None:
    group.store.set_timeout(0.2)
    with pytest.raises(FetchTimeoutError, match="'k'"):
        group.store.get("k")
    with pytest.raises(FetchTimeoutError):
        group.store.wait(["k"], 0.1)


@pytest.mark.parametrize(
    ("method", "args", "error"),
    [
        ("set", (1, b""), TypeError),
        ("set", ("k", 1), TypeError),
        ("get", (None,), TypeError),
        ("multi_get", ("keys",), TypeError),
        ("multi_set", (["a"], []), ValueError),
        ("add", ("k", 1.5), TypeError),
        ("add", ("k", True), TypeError),
        ("wait", (["k"], 0), ValueError),
        ("set_timeout", (-1,), ValueError),
        ("prefix", (1,), TypeError),
    ],
)
def test_what_a_store_refuses(
    simple_group: Group, method: str, args: tuple[Any, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        getattr(simple_group.store, method)(*args)


@pytest.fixture
def simple_group() -> Iterator[Group]:
    with System("simpleSystemBase"):
        yield farref.rendezvous("run", min_nodes=1, timeouts=SOON).next_rendezvous()


def test_nothing_is_added_to_what_is_no_number(simple_group: Group) -> None:
    simple_group.store.set("k", "x")
    with pytest.raises(ValueError, match="not a whole number"):
        simple_group.store.add("k", 1)


def test_only_a_rounds_members_get_its_store(own_system: System) -> None:
    a, b = (node_on(own_system, name, "run", 2, 2) for name in "AB")
    meet(a, b)
    a.rpc_sync().store("set", "k", b"v")
    a.rpc_sync().begin_get("never")
    b.rpc_sync().call("leave")
    with pytest.raises(RendezvousStateError, match="no member"):
        b.rpc_sync().store("get", "k")
    meet(a, b)
    with pytest.raises(RendezvousStateError, match="round 0 is over"):
        a.rpc_sync().end_get()
    assert a.rpc_sync().store("num_keys") == 0  # fresh


# ---- parameters, and the registry


def test_a_handler_by_the_registry(own_system: System) -> None:
    params = RendezvousParameters(
        "farref", "", "run", 1, 2, "here", last_call_timeout="1", join_timeout=20
    )
    handler = rendezvous_handler_registry.create_handler(params)
    assert (handler.get_backend(), handler.get_run_id()) == ("farref", "run")
    group = handler.next_rendezvous()
    assert [member.name for member in group.members] == ["here"]
    assert handler.num_nodes_waiting() == 0
    assert not handler.is_closed()
    handler.set_closed()
    assert handler.is_closed()
    assert handler.shutdown()


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({"min_nodes": 0}, ValueError),
        ({"min_nodes": 2, "max_nodes": 1}, ValueError),
        ({"min_nodes": "2"}, TypeError),
        ({"run_id": "", "min_nodes": 1}, ValueError),
    ],
)
def test_what_a_rendezvous_refuses(what: dict[str, Any], error: type[Exception]) -> None:
    with System("simpleSystemBase"), pytest.raises(error):
        farref.rendezvous(**{"run_id": "run", **what})


def test_a_program_that_ends_while_it_waits_says_nothing_of_it() -> None:
    program = """
import threading, farref
system = farref.System()
meetings = [farref.rendezvous("run", min_nodes=99, name=f"n{n}") for n in range(20)]
def wait(meeting):
    try: meeting.next_rendezvous()
    except farref.FarrefError: pass
for meeting in meetings: threading.Thread(target=wait, args=(meeting,), daemon=True).start()
alone = farref.rendezvous("alone", min_nodes=1)
group = alone.next_rendezvous()
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_nothing_hangs_when_the_system_ends_meanwhile() -> None:
    with ThreadPoolExecutor(1) as thread:
        with System("farrefBase", timeout=20) as system:
            meeting = farref.rendezvous("run", min_nodes=2, timeouts=SOON)
            waiting = thread.submit(meeting.next_rendezvous)
            assert until(system, lambda: SERVICE in services(system))
        assert isinstance(waiting.exception(20), RendezvousError | farref.SystemDownError | OSError)
