"""Slots between processes: when they are used, and what goes another way."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

import farref
from farref import SerializationError, System
from farref.actors.base import Limits, system_base
from farref.actors.core.current import frame
from farref.actors.values import packing
from farref.serialization import slots
from farref.serialization.slots import SLOTS
from farref.testing import until

from ...marks import SHARED_MEMORY
from ...stopping import stopped

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.processes,
    SHARED_MEMORY,
]
SIZE = 100_000


@pytest.fixture
def system() -> Iterator[System]:
    slots.forget()
    with System("farrefBase", timeout=20, silence=None, orphan_grace=0.2) as system:
        system.worker("B")
        yield system


def ones() -> Any:
    return np.ones(SIZE, np.uint8)


def text() -> str:
    return "x" * SIZE


def in_use() -> tuple[int, int]:
    """The slots of this process, and those with a message in them."""
    made = SLOTS - len(slots._own.room)
    return made, made - len(slots._own.free)


def test_they_are_used_and_free_again(system: System) -> None:
    ref = farref.remote("B", ones)
    assert until(system, lambda: ref.to_here() is not None and len(slots._known) > 0)
    values = [ref.to_here() for _ in range(3 * SLOTS)]
    made, used = farref.rpc_sync("B", in_use)
    assert 1 <= made <= 2
    assert used <= 1  # the last one may not be acknowledged yet
    assert until(system, lambda: farref.rpc_sync("B", in_use)[1] == 0)
    assert {int(each.sum()) for each in values} == {SIZE}


def test_the_slots_of_a_dead_worker(system: System) -> None:
    assert until(system, lambda: farref.rpc_sync("B", ones) is not None and len(slots._known) > 0)
    os.kill(farref.rpc_sync("B", os.getpid), signal.SIGKILL)
    assert until(system, lambda: not slots._known)


def test_the_registrar_does_not_answer(system: System) -> None:
    """Nothing waits for the answer to the question whether a receiver is near."""
    registrar = psutil.Process(farref.rpc_sync("B", os.getpid)).ppid()
    with stopped(registrar):
        for _ in range(3):
            assert farref.rpc_sync("B", ones).sum() == SIZE
    assert until(system, lambda: farref.rpc_sync("B", ones) is not None and len(slots._known) > 0)


def test_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer under the lock must raise nothing: its request would be lost."""

    def failing() -> None:
        raise OSError("no descriptor is left")

    monkeypatch.setattr(packing, "slots", failing)
    assert packing._in_slot(b"", memoryview(bytes(SIZE))) is None
    assert packing._in_slot(b"", None) is None


def test_an_answer_that_is_too_large_for_a_message() -> None:
    """One in a slot is not; a text is for no slot."""
    with System(system_base(limits=Limits(max_message_bytes=60_000)), timeout=20) as system:
        system.worker("B")
        ref = farref.remote("B", text)
        with pytest.raises(SerializationError, match="limit is 60000"):
            farref.rpc_sync("B", text)
        for _ in range(2):
            with pytest.raises(SerializationError, match="limit is 60000"):
                ref.to_here()

        def arrives() -> bool:
            try:
                return int(farref.rpc_sync("B", ones).sum()) == SIZE
            except SerializationError:
                return False

        assert until(system, arrives)
        assert farref.remote("B", ones).to_here().sum() == SIZE


@pytest.mark.parametrize("by_call", [False, True], ids=["fetch", "call"])
def test_a_first_answer_that_is_too_large_for_a_message(by_call: bool) -> None:
    """Then its sender asks whether the receiver is near, and waits."""
    with System(system_base(limits=Limits(max_message_bytes=60_000)), timeout=20) as system:
        system.worker("B")
        value = farref.rpc_sync("B", ones) if by_call else farref.remote("B", ones).to_here()
        assert value.sum() == SIZE


held: list[int] = []


def fill() -> None:
    """From now on this process has no descriptor left, until `free`."""
    few = len(os.listdir("/proc/self/fd")) + 3
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        pass


def free() -> None:
    for each in held:
        os.close(each)
    held.clear()


def asked() -> int:
    """The number of receivers that this process asks about just now."""
    return len(frame().core.front.calls.packer._asked)


def test_a_sender_that_could_not_ask_asks_again(system: System) -> None:
    farref.rpc_sync("B", fill)
    assert farref.rpc_sync("B", ones).sum() == SIZE
    assert until(system, lambda: farref.rpc_sync("B", asked) == 0)
    assert farref.rpc_sync("B", in_use) == (0, 0)
    farref.rpc_sync("B", free)
    assert until(system, lambda: farref.rpc_sync("B", ones) is not None and len(slots._known) > 0)


def test_a_receiver_without_descriptors() -> None:
    """Only the values in slots fail. What the sender sends later is not held up."""
    code = """
        import os, resource, sys
        import numpy as np
        import farref
        from farref import SerializationError, System
        from farref.actors.core.current import frame
        from farref.testing import until

        def ones():
            return np.ones(100_000, np.uint8)

        def is_known():
            core = frame().core
            return any(core.peers.near.values())

        if __name__ == "__main__":
            with System("farrefBase", timeout=20) as system:
                system.worker("B")
                farref.rpc_sync("B", ones)
                assert until(system, lambda: farref.rpc_sync("B", is_known))
                assert "farref.serialization.slots" not in sys.modules
                least = len(os.listdir("/proc/self/fd")) + 3
                resource.setrlimit(resource.RLIMIT_NOFILE, (least, least))
                held = []
                try:
                    while True:
                        held.append(os.dup(0))
                except OSError:
                    pass
                for _ in range(3):
                    try:
                        farref.rpc_sync("B", ones)
                    except SerializationError as error:
                        print("refused")
                    assert farref.rpc_sync("B", len, args=("abc",)) == 3
                for each in held:
                    os.close(each)
                print(farref.rpc_sync("B", ones).sum())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout == "refused\n" * 3 + f"{SIZE}\n", done.stderr


RAN: list[bool] = []


def ran() -> list[bool]:
    return RAN


def fill_before_it_leaves(ref: farref.RRef[Any]) -> None:
    """The next array leaves when a method of it has run, in another thread of this process."""
    delivery: Any = frame().core.outlet
    post = delivery.post

    def later(packets: Any) -> None:
        ((_, packet),) = packets
        if getattr(packet.messages[0].cargo.payload, "buffers", ()):
            delivery.post = post
            method = threading.Thread(target=lambda: ref.rpc_sync().fill(7))
            method.start()
            method.join(10)
            RAN.append(not method.is_alive())
        post(packets)

    delivery.post = later


def test_what_runs_after_a_fetch_does_not_change_its_copy(system: System) -> None:
    """A fetch has the turn until the value is copied."""
    ref = farref.remote("B", ones)
    assert until(system, lambda: ref.to_here() is not None and len(slots._known) > 0)
    farref.rpc_sync("B", fill_before_it_leaves, (ref,))
    assert set(ref.to_here()) == {1}
    assert farref.rpc_sync("B", ran) == [True]
    assert set(ref.to_here()) == {7}
