"""Links that are cut and healed, endpoints that are stopped, and the layer itself."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from thespian.actors import ActorAddress

import farref
from farref import FetchTimeoutError, RefActor, RRef, System, WorkerDiedError, WorkerNotFoundError
from farref.actors.core.faulty import Gate
from farref.protocol.delivery import Packet
from farref.protocol.ids import WorkerId
from farref.protocol.sharing import DISCIPLINES
from farref.testing import (
    Faults,
    Rule,
    assert_nothing_held,
    counts,
    cut,
    delay,
    drop,
    duplicate,
    heal,
    reorder,
    set_faults,
    severed,
    until,
)

from ..actors.calls.test_sharing import lend_on, read
from ..actors.cluster.witness import witness
from ..actors.handles.test_freed import keep, let_go, use_kept
from ..actors.helpers import hold, make_box
from ..bases import BASES, PROCESSES
from ..stopping import stopped
from ..waiting import eventually
from .conftest import RETRY, faulty

OUTAGE = 6 * RETRY
"""Seconds: several retransmissions are lost."""
BACKLOG = 10_000
"""The messages to one endpoint after which senders wait; docs/limits.md has this number."""


@pytest.fixture(params=BASES)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    with faulty(request.param) as system:
        yield system


@pytest.fixture
def processes() -> Iterator[System]:
    with faulty("farrefBase") as system:
        yield system


# ---- cut


def test_a_call_waits_for_the_link(system: System) -> None:
    farref.rpc_sync("B", pow, (2, 2))
    with severed(system, "program", "B"):
        future = farref.rpc_async("B", pow, (2, 3))
        assert not until(system, future.done, OUTAGE)
        assert farref.rpc_sync("C", pow, (2, 4)) == 16
    assert future.result() == 8


def test_two_workers_are_parted(system: System) -> None:
    """A reference takes the remaining way; the other messages go when the link is back."""
    ref = farref.remote("B", make_box, (5,))
    assert ref.rpc_sync().get() == 5
    cut(system, "B", "C")
    reading = farref.rpc_async("C", read, (ref,))
    keeping = farref.rpc_async("C", keep, (ref,))
    assert not until(system, reading.done, OUTAGE)
    assert farref.rpc_sync("D", read, (ref,)).content == 5
    assert until(system, lambda: counts(system)["C"].cut > 1)
    assert not reading.done()
    keeping.result()
    del ref
    gc.collect()
    heal(system, "B", "C")
    assert reading.result().content == 5
    assert farref.rpc_sync("C", use_kept).content == 5
    assert farref.rpc_sync("C", let_go) == 1


def test_what_is_let_go_during_an_outage_is_freed_after_it(system: System) -> None:
    refs = [farref.remote("B", make_box) for _ in range(20)]
    farref.wait(refs, num_returns=20)
    with severed(system, "program", "B"):
        refs.clear()
        gc.collect()
        until(system, lambda: False, OUTAGE)


def test_a_wait_ends_with_its_timeout_on_a_cut_link(processes: System) -> None:
    with severed(processes, "program", "B"):
        with pytest.raises(FetchTimeoutError):
            farref.rpc_sync("B", pow, (2, 2), timeout=0.2)
        with pytest.raises(FetchTimeoutError):
            farref.remote("B", pow, (2, 2)).to_here(timeout=0.2)
    assert farref.rpc_sync("B", pow, (2, 2)) == 4


def test_memory_is_bounded_while_the_link_is_cut(processes: System) -> None:
    """So many calls wait to be sent, and further senders wait for them."""
    farref.rpc_sync("B", pow, (2, 2))
    futures: list[Any] = []

    def send() -> None:
        for _ in range(BACKLOG + 2000):
            # The machine may be slow, and the repeated packets keep it busy.
            call = farref.rpc_async("B", len, (bytes(1000),), timeout=100)
            futures.append(call)

    with severed(processes, "program", "B"):
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        assert until(processes, lambda: len(futures) > BACKLOG - 10, 60), len(futures)
        before = psutil.Process().memory_info().rss
        assert not until(processes, lambda: len(futures) > BACKLOG + 1, 20 * RETRY)
        assert psutil.Process().memory_info().rss - before < 30e6
    thread.join(60)
    assert sum(future.result() for future in futures) == 1000 * (BACKLOG + 2000)


def test_an_endpoint_that_is_cut_off_dies(processes: System) -> None:
    """No message reaches it, and its references are released all the same."""
    ref = RRef([1])
    farref.rpc_sync("B", keep, (ref,))
    pid = farref.rpc_sync("B", os.getpid)
    cut(processes, "program", "B")
    future = farref.rpc_async("B", pow, (2, 2))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError):
        future.result()
    del ref


def test_links_are_cut_in_a_system_that_began_without_faults() -> None:
    with System("simpleSystemBase", timeout=20) as system:
        system.worker("B")
        with severed(system, "program", "B"):
            future = farref.rpc_async("B", pow, (2, 2))
            assert not until(system, future.done, OUTAGE)
        assert future.result() == 4
        with pytest.raises(WorkerNotFoundError):
            cut(system, "program", "nobody")
        assert_nothing_held(system)


class Parent(RefActor):
    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.child = self.createActor(Echo)
        self.send(self.child, (sender, RRef(message)))


class Echo(RefActor):
    async def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        self.send(message[0], await message[1])


@pytest.mark.processes
def test_whoever_joins_has_the_faults() -> None:
    """An actor's own child, and another program."""
    with faulty("farrefBase", drop(first=1)) as system:
        assert system.ask(system.create(Parent, "P"), "hello") == "hello"
        with System.attach(system.name) as other:
            assert farref.rpc_sync("B", pow, (2, 2)) == 4
            theirs = counts(system)
            mine = theirs[farref.get_worker_info().name]
            assert other.endpoint.core.me != system.endpoint.core.me
        assert mine.struck["Call"] == 1
        assert any(name.startswith("P/Echo") and each.dropped for name, each in theirs.items())


# ---- stopped, killed


@pytest.mark.parametrize("base", PROCESSES)
def test_a_stopped_worker_goes_on_where_it_was(base: str) -> None:
    """If it is not given up: calls wait, and then succeed, each once."""
    with faulty(base, silence=None) as system:
        ref = farref.remote("B", make_box, (1,))
        tally = farref.remote("B", list)
        farref.rpc_sync("C", keep, (ref,))
        with stopped(farref.rpc_sync("B", os.getpid)):
            futures = [tally.rpc_async().append(number) for number in range(30)]
            across = farref.rpc_async("C", lend_on, ("B", read, ref))
            late = farref.remote("B", make_box, (tally,))
            assert not until(system, across.done, 2.0)
            assert not any(future.done() for future in futures)
        for future in futures:
            future.result()
        assert tally.to_here() == list(range(30))
        assert across.result().content == 1
        assert late.rpc_sync().get() == tally
        assert farref.rpc_sync("C", let_go) == 1
        del ref, tally, across, late, futures, future


@pytest.mark.processes
@pytest.mark.parametrize("sharing", DISCIPLINES)
@pytest.mark.parametrize("step", ["ForkRequest", "ChildAck", "Call", "Reply", "Create"])
def test_a_worker_is_killed_at_a_step(sharing: Any, step: str, tmp_path: Path) -> None:
    """Its next message of that kind, sent or received, never arrives: the kill comes first."""
    lost = (drop(kinds=step, sender="B"), drop(kinds=step, receiver="B"))
    with faulty("farrefBase", sharing=sharing) as system:
        ref = farref.remote("D", list, ((7,),))
        mine = RRef([8])
        assert ref.to_here() == [7]
        pid = farref.rpc_sync("B", os.getpid)
        freed = witness(system, "D", "B")
        set_faults(system, Faults(*lost))
        future = farref.rpc_async("B", lend_on, ("C", keep, ref))
        creation = farref.remote("B", make_box, ([ref, mine],))
        until(system, lambda: False, 2 * RETRY)
        os.kill(pid, signal.SIGKILL)
        assert until(system, lambda: "B" not in {info.name for info in system.workers()})
        assert future.exception(timeout=20) is None or isinstance(
            future.exception(), WorkerDiedError
        )
        with pytest.raises(farref.FarrefError):
            creation.to_here()
        del creation, future
        gc.collect()
        set_faults(system, Faults())
        assert until(system, freed)
        assert ref.to_here() == [7]
        assert farref.rpc_sync("C", read, (ref,)) == [7]
        kept = farref.rpc_sync("C", let_go)
        assert kept in (0, 1)
        again = system.worker("B")
        assert farref.rpc_sync(again, read, (mine,)) == [8]
        del ref, mine


@pytest.mark.processes
def test_the_program_sleeps_while_its_workers_die_under_faults(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with faulty("farrefBase", drop(0.2), delay(0.2)):
        futures = [farref.rpc_async(name, hold, (gate, n)) for n, name in enumerate("BCD")]
        os.kill(farref.rpc_sync("C", os.getpid), signal.SIGKILL)
        with pytest.raises(WorkerDiedError):
            futures[1].result()
        gate.touch()
        assert [futures[n].result() for n in (0, 2)] == [0, 2]


# ---- the layer itself


def play(*rules: Any, seed: int = 1, packets: int = 200, arrive: int = 0) -> list[int]:
    """The numbers of the packets from A to B, as they arrive; this waits for *arrive* of them."""
    came: list[int] = []
    gate = Gate(
        WorkerId("A", 1), Faults(*rules, seed=seed), lambda out: came.append(out[0][1].first)
    )
    for number in range(packets):
        gate.post(WorkerId("B", 2), Packet(number, (), 0))
    eventually(lambda: len(came) >= arrive)
    gate.close()
    assert gate.counts().sent == packets
    return list(came)


def test_the_same_seed_makes_the_same_faults() -> None:
    rules = (drop(0.3), duplicate(0.3, seconds=0))
    assert play(*rules, seed=1) == play(*rules, seed=1) != play(*rules, seed=2)
    assert 300 < sum(len(play(*rules, seed=seed)) for seed in range(5)) / 5 * 2 < 420


@pytest.mark.parametrize(
    ("rule", "copies"),
    [
        (reorder(0.3, seconds=0.05), 1),
        (delay(0.3, seconds=(0.0, 0.05)), 1),
        (duplicate(seconds=(0.0, 0.05)), 2),
    ],
    ids=["overtaken", "late", "twice"],
)
def test_each_packet_arrives_out_of_order(rule: Rule, copies: int) -> None:
    came = play(rule, arrive=200 * copies)
    assert sorted(came) == sorted([*range(200)] * copies)
    assert came != sorted(came)


def test_rules_are_about_some_packets() -> None:
    assert play(drop(sender="B"), packets=3) == [0, 1, 2]
    assert play(drop(receiver="C"), packets=3) == [0, 1, 2]
    assert play(drop(kinds="Call"), packets=3) == [0, 1, 2]
    assert play(drop(sender="A", receiver="B", kinds="Acknowledgement"), packets=3) == []
    assert play(drop(first=2), packets=4) == [2, 3]


def test_faults_travel() -> None:
    faults = Faults(drop(0.5, kinds=("Call", "Ack"), first=3), reorder(), seed=4)
    assert pickle.loads(pickle.dumps(faults)) == faults


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: drop(1.5),
        lambda: drop(-0.1),
        lambda: drop(kinds="Nonsense"),
        lambda: drop(kinds=()),
        lambda: drop(first=0),
        lambda: delay(seconds=-1),
        lambda: delay(seconds=(2, 1)),
        lambda: reorder(seconds=0),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"not|no such"):
        wrong()


def test_what_is_no_rule_is_refused() -> None:
    nonsense: Any = 0.5
    with pytest.raises(TypeError, match="drop"):
        Faults(nonsense)
    with pytest.raises(TypeError, match="faults"):
        System("simpleSystemBase", faults=nonsense)
