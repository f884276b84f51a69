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
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from farref import RRef, System, SystemDownError, WorkerDiedError, rpc_sync
from farref.actors.cluster import registrar_proxy
from farref.testing import assert_nothing_held, until

from ...etcd import HERE, Etcd, RefusedError, Slow, coded
from ...marks import NAMES
from ...ports import free_port
from ...stopping import stopped
from ..helpers import Box
from .test_etcd import kill_candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

AGAIN = "the etcd works again"
FULL = "database space exceeded"


def options(spec: str, **more: Any) -> dict[str, Any]:
    name = f"trouble-{uuid.uuid4().hex[:8]}"
    given = {"name": name, "registry": spec, "host": HERE, "port": free_port(), "silence": 1.0}
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


@contextlib.contextmanager
def compacting(etcd: Etcd) -> Iterator[list[None]]:
    """*etcd* is compacted again and again; the list grows each time."""
    over, times = threading.Event(), list[None]()

    def compact() -> None:
        while not over.wait(0.1):
            etcd.compact()
            times.append(None)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(compact)
        try:
            yield times
        finally:
            over.set()


@NAMES
def test_an_etcd_that_is_compacted_all_the_time(tmp_path: Path) -> None:
    """farref reads the present only. By hand, and by the etcd itself, each second."""
    automatic = ["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1s"]
    with Etcd(tmp_path, 1, *automatic) as etcd:
        given = options(etcd.spec)
        with compacting(etcd) as times, System(**given) as system:
            held = Held(system)
            for number in range(3):
                kill_candidate()  # the next one reads all facts
                system.worker(f"B{number}")
                held.used()
            before = len(times)
            assert until(system, lambda: len(times) > before + 3)
            held.is_let_go()
        assert etcd.keys(f"farref/systems/{given['name']}/") == []
        with pytest.raises(RefusedError, match="compacted"):
            etcd.post("/kv/range", {"key": coded("x"), "revision": 2})


@pytest.mark.parametrize(("servers", "trouble"), [(1, Etcd.restart), (3, Etcd.change_leader)])
def test_an_etcd_that_is_restarted_or_changes_its_leader(
    tmp_path: Path, servers: int, trouble: Callable[[Etcd], None]
) -> None:
    with Etcd(tmp_path, servers) as etcd, System(**options(etcd.spec)) as system:
        held = Held(system)
        for number in range(2):
            with making(system, f"B{number}"):
                trouble(etcd)
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
