"""The handler over a backend in memory: its promises, and every way in which it can fail."""

from __future__ import annotations

import _thread
import gc
import resource
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from farref.elastic import (
    DynamicRendezvousHandler,
    PrefixStore,
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    RendezvousTimeoutError,
    Timeouts,
)
from farref.elastic.etcd import EtcdRendezvousBackend, client
from farref.protocol.rendezvous.codec import decode

from ..marks import TORCH
from ..ports import free_port
from ..waiting import eventually
from .kit import FAIR, SHORT, Line, MemoryBackend, MemoryStore, joining, meet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from farref.elastic import RendezvousBackend
    from farref.protocol.rendezvous.state import State

    Runs = Callable[..., "MemoryRun"]
    """Makes a run for so many nodes."""


SHORT_WAIT = timedelta(milliseconds=50)


class MemoryRun:
    """A run in memory, with its nodes."""

    def __init__(self, least: int, most: int, timeouts: Timeouts = SHORT) -> None:
        self.backend, self.store = MemoryBackend(), MemoryStore()
        self.numbers = least, most
        self.timeouts = timeouts
        self.nodes: list[DynamicRendezvousHandler] = []

    def node(
        self, name: str, line: RendezvousBackend | None = None, order: int | None = None
    ) -> DynamicRendezvousHandler:
        handler = DynamicRendezvousHandler.from_backend(
            "run",
            self.store,
            line or self.backend,
            *self.numbers,
            name,
            self.timeouts,
            order=order,
        )
        self.nodes.append(handler)
        return handler

    @property
    def state(self) -> State:
        assert self.backend.stored is not None
        return decode(self.backend.stored[0])


@pytest.fixture
def run_of() -> Iterator[Runs]:
    runs: list[MemoryRun] = []

    def made(least: int, most: int, timeouts: Timeouts = SHORT) -> MemoryRun:
        runs.append(MemoryRun(least, most, timeouts))
        return runs[-1]

    yield made
    for run in runs:
        for node in run.nodes:
            node.shutdown()


# --- Rounds -------------------------------------------------------------------------------


def test_the_members_of_a_round_agree(run_of: Runs) -> None:
    run = run_of(3, 3)
    infos = meet(*(run.node(name) for name in ("b", "a", "c")))
    assert sorted(info.rank for info in infos) == [0, 1, 2]
    assert {info.world_size for info in infos} == {3}
    assert len({(info.round, info.members, info.bootstrap_store_info) for info in infos}) == 1
    assert [member.node.name for member in infos[0].members] == ["a", "b", "c"]


@contextmanager
def no_room_for_threads() -> Iterator[None]:
    """This process has no address space for the stack of a new thread, but for other things."""
    used = psutil.Process().memory_info().vms
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = threading.stack_size(256 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        threading.stack_size(before)


def test_without_a_thread_there_is_a_named_error(run_of: Runs) -> None:
    node = run_of(1, 1).node("a")
    with no_room_for_threads():
        for ask in (node.next_rendezvous, node.is_closed, node.set_closed):
            with pytest.raises(RendezvousConnectionError, match=r"new thread .*`pids.max`"):
                ask()
    assert node.next_rendezvous().rank == 0


def test_the_bootstrap_address_is_fresh_each_round(run_of: Runs) -> None:
    run = run_of(2, 2)
    nodes = run.node("a"), run.node("b")
    first, second = meet(*nodes), meet(*nodes)
    assert {info.bootstrap_store_info.master_addr for info in (*first, *second)} == {"a"}
    assert first[0].bootstrap_store_info != second[0].bootstrap_store_info
    assert second[0].bootstrap_store_info == second[1].bootstrap_store_info


def test_newcomers_get_the_order_they_ask_for(run_of: Runs) -> None:
    run = run_of(3, 3)
    infos = meet(run.node("a"), run.node("b", order=2), run.node("c", order=1))
    assert [info.rank for info in infos] == [2, 1, 0]


def test_the_store_of_a_round_is_of_its_members_alone(run_of: Runs) -> None:
    run = run_of(1, 1)
    a, spare = run.node("a"), run.node("b")
    info = a.next_rendezvous()
    meeting = joining(spare)
    eventually(lambda: run.state.spares, "the other is a spare")
    info.store.set("key", "of round 0")
    assert not meeting.done()
    assert a.num_nodes_waiting() == 0  # there is no room for it
    a._attendance.end(close=False)
    taken = meeting.result(60)
    assert taken.round > info.round
    assert not taken.store.check(["key"])
    assert info.store.get("key") == b"of round 0"


def test_a_lost_member_is_a_reason_to_meet_again(run_of: Runs) -> None:
    run = run_of(1, 3, FAIR)
    lines = [Line(run.backend) for _ in range(3)]
    nodes = [run.node(name, line) for name, line in zip("abc", lines, strict=True)]
    ranks = {info.rank: node for info, node in zip(meet(*nodes), nodes, strict=True)}
    lines[nodes.index(ranks[0])].open.clear()  # rank 0 is as good as dead
    eventually(lambda: ranks[1].num_nodes_waiting() > 0, "one survivor knows")
    eventually(lambda: ranks[2].num_nodes_waiting() > 0, "the other survivor knows")
    infos = meet(ranks[1], ranks[2])
    assert [info.world_size for info in infos] == [2, 2]
    assert {info.bootstrap_store_info for info in infos} == {infos[0].bootstrap_store_info}
    assert infos[0].bootstrap_store_info.master_addr != ranks[0].node.name
    lines[nodes.index(ranks[0])].open.set()
    eventually(lambda: ranks[0].num_nodes_waiting() > 0, "it was given up, and is told")


def test_a_node_that_leaves_is_missed_at_once(run_of: Runs) -> None:
    run = run_of(1, 2, replace(FAIR, keep_alive=60))
    a, b = run.node("a"), run.node("b")
    meet(a, b)
    b._attendance.end(close=False)
    eventually(lambda: a.num_nodes_waiting() > 0, "the other knows, without a missed keep-alive")
    assert a.next_rendezvous().world_size == 1


def test_a_handler_that_nobody_has_leaves(run_of: Runs) -> None:
    run = run_of(2, 2)
    a = run.node("a")
    b = DynamicRendezvousHandler.from_backend("run", run.store, run.backend, 2, 2, "b", SHORT)
    meet(a, b)
    del b
    gc.collect()
    eventually(lambda: len(run.state.seats()) == 1, "it is gone")


def test_a_program_that_ends_leaves(tmp_path: Any, etcd: int) -> None:
    program = f"""
import sys
from farref.elastic import DynamicRendezvousHandler
from farref.elastic.etcd import EtcdRendezvousBackend, client
backend = EtcdRendezvousBackend(client("127.0.0.1", {etcd}), "ends")
handler = DynamicRendezvousHandler.from_backend("ends", None, backend, 1, 1, "a")
handler.next_rendezvous()
sys.exit("bye")
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False)
    assert ended.stderr.decode().strip() == "bye"
    found = EtcdRendezvousBackend(client("127.0.0.1", etcd), "ends").get_state()
    assert found is not None
    assert decode(found[0]).empty


def test_an_interrupted_node_leaves(run_of: Runs) -> None:
    run = run_of(2, 2)
    node = run.node("a")

    def interrupt() -> None:
        eventually(lambda: run.backend.stored and run.state.participants, "it waits")
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        node.next_rendezvous()
    eventually(lambda: run.state.empty, "it is gone")


# --- Ends ---------------------------------------------------------------------------------


def test_a_closed_run_takes_nobody(run_of: Runs) -> None:
    run = run_of(1, 2)
    a, b = run.node("a"), run.node("b")
    a.next_rendezvous()
    assert not b.is_closed()
    b.set_closed()
    assert b.is_closed()
    with pytest.raises(RendezvousClosedError):
        b.next_rendezvous()
    eventually(a.is_closed, "its member is told")
    with pytest.raises(RendezvousClosedError):
        a.next_rendezvous()
    eventually(lambda: run.state.empty, "they are gone")


def test_a_spare_exits_gracefully(run_of: Runs) -> None:
    run = run_of(1, 1)
    a = run.node("a")
    a.next_rendezvous()
    spare = joining(run.node("b"))
    eventually(lambda: run.state.spares, "the other is a spare")
    assert a.shutdown()
    with pytest.raises(RendezvousGracefulExitError):
        spare.result(60)


def test_a_run_id_can_be_used_again(run_of: Runs) -> None:
    run = run_of(2, 2)
    nodes = run.node("a"), run.node("b")
    before = meet(*nodes)
    before[0].store.set("key", "old")
    assert all(node.shutdown() for node in nodes)
    after = meet(run.node("a"), run.node("b"))
    assert after[0].round > before[0].round
    assert not after[0].store.check(["key"])


def test_a_run_that_was_closed_by_the_dead_can_be_used_again(run_of: Runs) -> None:
    run = run_of(1, 1)
    line = Line(run.backend)
    dead = run.node("dead", line)
    dead.next_rendezvous()
    dead.set_closed()
    line.open.clear()
    try:
        assert run.node("a").next_rendezvous().world_size == 1
    finally:
        line.open.set()


def test_who_does_not_take_part_closes_nothing_by_a_shutdown(run_of: Runs) -> None:
    run = run_of(1, 1)
    node = run.node("a")
    assert node.shutdown()
    assert run.backend.stored is None
    assert node.num_nodes_waiting() == 0
    assert not node.is_closed()
    node.next_rendezvous()
    assert run.node("b").shutdown()
    assert not run.state.closed


# --- Failures, each by its name -----------------------------------------------------------


def test_too_few_nodes(run_of: Runs) -> None:
    run = run_of(2, 2, Timeouts(join=0.3, last_call=0.1))
    with pytest.raises(RendezvousTimeoutError, match="1 of at least 2 nodes came"):
        run.node("a").next_rendezvous()
    eventually(lambda: run.state.empty, "it has left")


def test_other_numbers_of_nodes(run_of: Runs) -> None:
    run = run_of(1, 2)
    run.node("a").next_rendezvous()
    run.numbers = 2, 4
    with pytest.raises(RendezvousStateError, match="2 to 4 nodes"):
        run.node("b").next_rendezvous()


def error_of(ask: Callable[[], object]) -> str:
    """The name and the text of the error that *ask* raises, if any."""
    try:
        ask()
    except RendezvousError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def test_a_state_that_is_spoilt_while_a_round_is_on(run_of: Runs) -> None:
    run = run_of(1, 1)
    node = run.node("a")
    node.next_rendezvous()
    assert run.backend.stored is not None
    run.backend.stored = b"\x00" * 100, run.backend.stored[1]
    eventually(lambda: "StateError" in error_of(node.num_nodes_waiting), "the error is named")
    with pytest.raises(RendezvousStateError):
        node.next_rendezvous()
    assert not node.shutdown()


def cut(line: Line) -> None:
    line.cut = True


def hang(line: Line) -> None:
    line.open.clear()


def mend(line: Line) -> None:
    line.cut = False
    line.open.set()


FAULTS = [(cut, "the line is cut"), (hang, "did not answer in time")]


@pytest.mark.parametrize(("fault", "says"), FAULTS)
def test_a_backend_that_was_never_there(
    run_of: Runs, fault: Callable[[Line], None], says: str
) -> None:
    run = run_of(1, 1, Timeouts(join=0.2, last_call=0.1, close=0.2, heartbeat=0.2, keep_alive=0.2))
    line = Line(run.backend)
    fault(line)
    node = run.node("a", line)
    for ask in (node.next_rendezvous, node.is_closed, node.num_nodes_waiting, node.set_closed):
        with pytest.raises(RendezvousConnectionError, match=says):
            ask()
    assert not node.shutdown()
    mend(line)


@pytest.mark.parametrize(("fault", "says"), FAULTS)
def test_a_backend_that_is_lost_while_a_round_is_on(
    run_of: Runs, fault: Callable[[Line], None], says: str
) -> None:
    """An answer, even a late one, mends it."""
    run = run_of(1, 1, replace(SHORT, keep_alive=0.1, heartbeat=0.3))
    line = Line(run.backend)
    node = run.node("a", line)
    node.next_rendezvous()
    fault(line)
    assert node.num_nodes_waiting() == 0  # for some time: all may be well again
    eventually(lambda: says in error_of(node.is_closed), "it is named")
    assert says in error_of(node.num_nodes_waiting)
    mend(line)
    eventually(lambda: not error_of(node.num_nodes_waiting), "it is well again")
    assert not node.is_closed()
    assert node.next_rendezvous().world_size == 1


class Forgetful(MemoryBackend):
    def set_state(self, state: bytes, token: Any = None) -> None:
        """Wrong on purpose: stores nothing, and answers None."""


class Broken(MemoryBackend):
    def get_state(self) -> Any:
        raise ZeroDivisionError("broken")


@pytest.mark.parametrize(
    ("backend", "error", "says"),
    [
        (Forgetful, RendezvousStateError, "memory keeps no state: .* answered None 20"),
        (Broken, ZeroDivisionError, "broken"),  # what it should not raise
    ],
)
def test_a_backend_that_is_wrong(
    run_of: Runs, backend: type[MemoryBackend], error: type[Exception], says: str
) -> None:
    run = run_of(1, 1)
    run.backend = backend()
    node = run.node("a")
    for ask in (node.next_rendezvous, node.set_closed):
        with pytest.raises(error, match=says):
            ask()
    run.nodes.clear()


def test_a_backend_that_answers_none_although_it_stores(run_of: Runs) -> None:
    class Terse(MemoryBackend):
        def set_state(self, state: bytes, token: Any = None) -> None:
            super().set_state(state, token)

    run = run_of(1, 1)
    run.backend = Terse()
    assert run.node("a").next_rendezvous().world_size == 1


@contextmanager
def stranger(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A foreign server on a port."""
    lines: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                with line:
                    lines.append(line)
                    answer(line)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            with suppress(OSError):  # answered already
                lines[-1].shutdown(socket.SHUT_RDWR)
            thread.join()


def answers(data: bytes) -> Callable[[socket.socket], None]:
    def answer(line: socket.socket) -> None:
        line.recv(65536)
        line.sendall(data)

    return answer


def web(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\x00 what is this?",
        web(b"<html>a web server</html>"),
        web(b'["etcdserver"]'),
        web(b'{"kvs": [{"value": "!", "mod_revision": "x"}]}'),
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"",
    ],
    ids=["bytes", "html", "list", "kvs", "404", "nothing"],
)
def test_a_stranger_instead_of_etcd(data: bytes) -> None:
    pytest.importorskip("etcd3gw", reason="etcd3gw is not installed here")
    with stranger(answers(data)) as port:
        backend = EtcdRendezvousBackend(client("127.0.0.1", port, timeout=2), "run")
        with pytest.raises(RendezvousConnectionError, match="etcd"):
            backend.get_state()


def test_no_etcd_at_all() -> None:
    pytest.importorskip("etcd3gw", reason="etcd3gw is not installed here")
    port = free_port()
    there = EtcdRendezvousBackend(client("127.0.0.1", port), "run")
    handler = DynamicRendezvousHandler.from_backend(
        "run", None, there, 1, 1, "a", Timeouts(join=0.5, keep_alive=0.1)
    )
    with pytest.raises(RendezvousConnectionError, match=str(port)):
        handler.next_rendezvous()


def test_etcd_without_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "etcd3gw", None)
    with pytest.raises(ImportError, match=r"farref\[etcd\]"):
        client("127.0.0.1", 2379)


# --- The store ----------------------------------------------------------------------------


@TORCH
def test_prefixes() -> None:
    from torch.distributed import HashStore

    store = HashStore()
    one, other = PrefixStore("one", store), PrefixStore("other", store)
    one.multi_set(["a", "b"], [b"1", b"2"])
    assert one.multi_get(["a", "b"]) == [b"1", b"2"]
    assert not other.check(["a"])
    assert one.add("n", 2) == 2
    assert one.add("n", 3) == 5
    one.append("a", b"!")
    assert one.get("a") == b"1!"
    one.wait(["a", "b"])
    one.set("b", "4")
    assert one.clone().get("b") == b"4"
    assert sorted(one.list_keys()) == ["a", "b", "n"]
    one.queue_push("q", "first")
    assert (one.queue_len("q"), other.queue_len("q")) == (1, 0)
    assert one.queue_pop("q") == b"first"
    one.barrier("all", 1)
    one.barrier("all", 1, SHORT_WAIT)
    keys = store.num_keys()
    assert one.compare_set("c", "", "new") == b"new"
    assert one.compare_set("d", "expected", "new") == b"expected"
    assert one.compare_set("c", "other", "newer") == b"new"
    assert one.delete_key("c")
    assert not one.delete_key("c")
    assert one.num_keys() == store.num_keys() == keys
    other.set_timeout(SHORT_WAIT)
    assert one.timeout == SHORT_WAIT
    with pytest.raises(RuntimeError, match="timeout"):
        other.get("a")
    with pytest.raises(RuntimeError, match="timeout"):
        other.wait(["a"], SHORT_WAIT)
