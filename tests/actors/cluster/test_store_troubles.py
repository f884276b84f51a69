"""What can befall a store for real: compaction, a restart, no space, silence, another leader.

Meanwhile calls and references go on; nothing hangs for good, nothing is freed early, and the log
or the error names the reason.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
import uuid
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from farref import RRef, System, SystemDownError, WorkerDiedError, rpc_sync
from farref.actors.cluster import registrar_proxy
from farref.actors.cluster.etcd import EtcdStore
from farref.protocol.succession.campaign import Renew, Renewed, WhoLeads
from farref.protocol.succession.ledger import Refused, Write, Written
from farref.testing import assert_nothing_held, until

from ...etcd import HERE, Etcd, RefusedError, Slow, coded
from ...marks import NAMES
from ...ports import free_ports
from ...stopping import stopped
from ..helpers import Box
from .test_etcd import KEY, elected, kill_candidate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

AGAIN = "the etcd works again"
FULL = "database space exceeded"


def options(spec: str, **more: Any) -> dict[str, Any]:
    (port,) = free_ports(1)
    name = f"trouble-{uuid.uuid4().hex[:8]}"
    given = {"name": name, "registry": spec, "host": HERE, "port": port, "silence": 1.0}
    return {**given, "orphan_grace": 0.3, **more}


class Held:
    """An object of this program's, which the worker A of *system* holds through the trouble."""

    def __init__(self, system: System) -> None:
        system.worker("A")
        self._system = system
        box = Box(0)
        self._watch = weakref.ref(box)
        rpc_sync("A", keep, (RRef(box),))
        self.used()

    def used(self) -> None:
        """A's reference is good, and its calls go on."""
        gc.collect()
        assert self._watch() is not None
        assert rpc_sync("A", reads, ()) == 0

    def is_let_go(self) -> None:
        """A is killed. The registrar tells all, and the object is freed, not before."""
        self.used()
        os.kill(rpc_sync("A", os.getpid), signal.SIGKILL)
        with pytest.raises(WorkerDiedError):
            rpc_sync("A", pow, (2, 2))
        assert until(self._system, lambda: self._watch() is None)
        assert_nothing_held(self._system)


KEPT: list[Any] = []


def keep(ref: RRef[Box]) -> None:
    KEPT.append(ref)


def reads() -> int:
    content: int = KEPT[0].rpc_sync().get()
    return content


@pytest.fixture
def sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that finds no registrar ends well before the program gives up waiting for it."""
    monkeypatch.setattr(registrar_proxy, "SEARCH", 4.0)  # actors inherit it by the fork


@contextlib.contextmanager
def making(system: System, name: str) -> Iterator[threading.Thread]:
    """A worker is made meanwhile. It is there in the end."""
    thread = threading.Thread(target=system.worker, args=(name,))
    thread.start()
    yield thread
    thread.join(60)
    assert rpc_sync(name, pow, (2, 3)) == 8


class Compacting(threading.Thread):
    """Compacts *etcd* again and again."""

    def __init__(self, etcd: Etcd) -> None:
        super().__init__(daemon=True)
        self._etcd = etcd
        self._over = threading.Event()
        self.times = 0

    def run(self) -> None:
        while not self._over.wait(0.1):
            self._etcd.compact()
            self.times += 1

    def end(self) -> None:
        self._over.set()
        self.join(60)


@NAMES
def test_an_etcd_that_is_compacted_all_the_time(tmp_path: Path) -> None:
    """farref reads the present only. By hand, and by the etcd itself, each second."""
    automatic = ["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1s"]
    with Etcd(tmp_path, 1, *automatic) as etcd:
        given = options(etcd.spec)
        compacting = Compacting(etcd)
        compacting.start()
        with System(**given) as system:
            held = Held(system)
            for number in range(3):
                kill_candidate()  # the next one reads all facts
                system.worker(f"B{number}")
                held.used()
            before = compacting.times
            assert until(system, lambda: compacting.times > before + 3)
            held.is_let_go()
        compacting.end()
        assert etcd.keys(f"farref/systems/{given['name']}/") == []
        with pytest.raises(RefusedError, match="compacted"):
            etcd.post("/kv/range", {"key": coded("x"), "revision": 2})


def test_the_rules_of_the_store_do_not_need_what_was_compacted(tmp_path: Path) -> None:
    """Terms and the number of the last write are of the keys' present values."""
    with Etcd(tmp_path) as etcd:
        store = EtcdStore(etcd.spec, uuid.uuid4().hex, KEY, 5.0)
        first = elected(store)
        one = Write(first.term, 1, 0, (("a", b"1"),))
        done = store.write(one)
        assert isinstance(done, Written)
        two = Write(first.term, 2, done.revision, (("a", b"2"),))
        after = store.write(two)
        assert isinstance(after, Written)
        etcd.compact()
        etcd.restart()
        assert store.write(one) == Refused()
        assert store.write(two) == after  # sent again: the answer was lost
        assert store.ask(WhoLeads(), "two", b"") == first
        assert store.ask(Renew(first.lease), "one", b"") == Renewed()
        assert store.read() == ({"a": b"2"}, after.revision)
        three = Write(first.term, 3, after.revision, (("a", None),))
        assert isinstance(store.write(three), Written)


def test_an_etcd_that_is_restarted(tmp_path: Path) -> None:
    with Etcd(tmp_path) as etcd, System(**options(etcd.spec)) as system:
        held = Held(system)
        with making(system, "B"):
            etcd.restart()
        held.is_let_go()


def test_another_server_of_three_leads(tmp_path: Path) -> None:
    with Etcd(tmp_path, 3) as etcd, System(**options(etcd.spec)) as system:
        held = Held(system)
        for number in range(2):
            with making(system, f"B{number}"):
                etcd.change_leader()
            held.used()
        held.is_let_go()


def test_an_etcd_without_space(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """New names wait until somebody has made space. The log names the reason, once."""
    with (
        Etcd(tmp_path, 1, "--quota-backend-bytes", "8000000") as etcd,
        System(**options(etcd.spec)) as system,
    ):
        held = Held(system)
        etcd.fill()
        with making(system, "B") as thread:
            assert until(system, lambda: FULL in caplog.text, 30)
            held.used()
            thread.join(2.0)
            held.used()
            assert thread.is_alive()
            etcd.make_space()
        held.is_let_go()
    (line,) = [line for line in caplog.text.splitlines() if FULL in line]
    assert "the etcd fails: http://" in line
    assert "new names and deaths wait" in line
    assert AGAIN in caplog.text.partition(FULL)[2]  # on a busy machine it may be too slow before


@pytest.mark.usefixtures("sooner")
def test_a_start_at_an_etcd_without_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Etcd(tmp_path, 1, "--quota-backend-bytes", "8000000") as etcd:
        etcd.fill()
        with pytest.raises(SystemDownError, match=f"nothing was heard of any registrar .*{FULL}"):
            System(**options(etcd.spec))
        monkeypatch.undo()
        etcd.make_space()
        with System(**options(etcd.spec)) as system:
            system.worker("A")


def test_an_etcd_that_is_silent_for_longer_than_the_lease(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The registrar has lost its lease then, and is elected again. Calls have gone on."""
    with Etcd(tmp_path) as etcd, System(**options(etcd.spec)) as system:
        held = Held(system)
        ((_, server),) = etcd.running.items()
        with making(system, "B") as thread, stopped(server.pid):
            end = time.monotonic() + 6.0  # the lease is of 2 seconds
            while time.monotonic() < end:
                held.used()
                thread.join(0.2)
        held.is_let_go()
    assert "the etcd fails: http://" in caplog.text
    assert AGAIN in caplog.text


@NAMES
def test_a_slow_etcd(tmp_path: Path) -> None:
    """Each answer takes a while: all goes on, only slower."""
    with (
        Etcd(tmp_path) as etcd,
        Slow(etcd.port, 0.2) as slow,
        System(**options(f"etcd://{HERE}:{slow.port}", silence=3.0)) as system,
    ):
        held = Held(system)
        kill_candidate()
        with making(system, "B"):
            held.used()
        held.is_let_go()


@pytest.mark.usefixtures("sooner")
def test_an_etcd_that_is_too_slow(tmp_path: Path) -> None:
    """A third of `silence` is the limit. The start ends, and says that it timed out."""
    with (
        Etcd(tmp_path) as etcd,
        Slow(etcd.port, 1.5) as slow,
        pytest.raises(SystemDownError, match=r"nothing was heard .*[Tt]imed? ?out"),
    ):
        System(**options(f"etcd://{HERE}:{slow.port}", silence=2.0))
