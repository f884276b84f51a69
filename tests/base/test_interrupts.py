"""Signal handlers while the main thread runs the loop, or uses a lock: delayed, and put back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorAddress
from thespian.system.multiprocCommon import shutdown_signal_detector

from farref.actors.base.interrupts import Condition, Interrupts
from farref.actors.base.poller import Poller

from ..actors.core.interrupting import Interrupting, is_free
from ..actors.scripts import SID
from ..marks import NAMES
from ..waiting import eventually
from .kit import PATIENCE


@pytest.fixture
def came() -> Iterator[list[int]]:
    """The signals that reached our handler for SIGALRM."""
    told: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: told.append(number))
    yield told
    signal.signal(signal.SIGALRM, before)


def test_a_handler_runs_when_the_wait_is_over(poller: Poller, came: list[int]) -> None:
    interrupts, handler = Interrupts(), signal.getsignal(signal.SIGALRM)
    assert interrupts.hold(poller)
    os.kill(os.getpid(), signal.SIGALRM)
    assert not came
    held_up = interrupts.delayed
    assert held_up
    assert not poller.wait(10)  # it does not sleep then
    interrupts.release()
    assert came == [signal.SIGALRM]
    assert not interrupts.delayed
    assert signal.getsignal(signal.SIGALRM) is handler


def test_a_handler_that_interrupts_the_sleep_runs_at_once(poller: Poller, came: list[int]) -> None:
    interrupts = Interrupts()
    assert interrupts.hold(poller)

    def interrupt() -> None:
        eventually(lambda: poller.asleep)
        os.kill(os.getpid(), signal.SIGALRM)
        eventually(lambda: came)
        poller.wake()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    poller.wait(PATIENCE)
    interrupting.join()
    assert came == [signal.SIGALRM]
    assert not interrupts.delayed
    interrupts.release()


def test_what_a_handler_raises_is_raised_when_the_wait_is_over(poller: Poller) -> None:
    def fail(*_: Any) -> None:
        raise TimeoutError("a deadline of ours")

    before = signal.signal(signal.SIGALRM, fail)
    interrupts = Interrupts()
    try:
        assert interrupts.hold(poller)
        os.kill(os.getpid(), signal.SIGALRM)
        with pytest.raises(TimeoutError, match="a deadline of ours"):
            interrupts.release()
        assert signal.getsignal(signal.SIGALRM) is fail
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_handler_that_sets_another(poller: Poller, came: list[int]) -> None:
    def other(*_: Any) -> None: ...

    interrupts = Interrupts()
    assert interrupts.hold(poller)
    signal.signal(signal.SIGALRM, other)
    interrupts.release()
    assert signal.getsignal(signal.SIGALRM) is other
    assert not came


def test_a_program_sets_ours_again(poller: Poller, came: list[int]) -> None:
    """Ours passes signals on to the handler that it replaced. A section puts that one back."""

    def other(*_: Any) -> None: ...

    interrupts, handler = Interrupts(), signal.getsignal(signal.SIGALRM)
    interrupts.hold(poller)
    ours = signal.signal(signal.SIGALRM, other)
    interrupts.release()
    with interrupts:
        pass  # it finds the other one
    signal.signal(signal.SIGALRM, ours)
    os.kill(os.getpid(), signal.SIGALRM)
    assert came == [signal.SIGALRM]
    with interrupts:
        pass
    assert signal.getsignal(signal.SIGALRM) is handler


def test_no_interrupt_changes_a_handler(came: list[int]) -> None:
    """Each place of a section is interrupted. The next section puts the handlers back."""
    interrupts, numbers = Interrupts(), (signal.SIGINT, signal.SIGALRM)
    handlers = [signal.getsignal(number) for number in numbers]

    def section() -> None:
        with interrupts:
            pass

    places = 0
    for place in Interrupting("/interrupts.py").at_every_place(section):
        section()
        assert [signal.getsignal(number) for number in numbers] == handlers, place
        places = place
    assert places > 20
    assert not came


def test_other_threads_have_nothing_to_do_with_it(poller: Poller) -> None:
    held: list[bool] = []
    thread = threading.Thread(target=lambda: held.append(Interrupts().hold(poller)))
    thread.start()
    thread.join()
    assert held == [False]


def test_the_handlers_of_thespian_stay_as_they_are(poller: Poller) -> None:
    """They raise nothing. An actor that wakes would otherwise set eight handlers twice."""
    theirs = shutdown_signal_detector("an actor", ActorAddress(None), None)
    before = signal.signal(signal.SIGALRM, theirs)
    interrupts = Interrupts()
    try:
        assert interrupts.hold(poller)
        assert signal.getsignal(signal.SIGALRM) is theirs
        interrupts.release()
        assert signal.getsignal(signal.SIGALRM) is theirs
    finally:
        signal.signal(signal.SIGALRM, before)


# ---- conditions


@pytest.mark.parametrize("timeout", [0.0, 0.001])
def test_no_interrupt_keeps_the_lock(timeout: float) -> None:
    lock = threading.RLock()
    condition = Condition(lock)

    def once() -> None:
        with condition:
            condition.wait(timeout)
        with condition:
            condition.notify_all()

    places = 0
    for place in Interrupting("/interrupts.py", "/threading.py").at_every_place(once):
        assert is_free(lock), place
        places += 1
    assert places > 5
    assert not condition._waiters


def test_it_waits_and_is_told() -> None:
    condition, came = Condition(), list[bool]()

    def wait() -> None:
        with condition, condition:  # twice
            came.append(condition.wait(20))

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: condition._waiters)
    with condition:  # the wait has let go of the lock as often as it was taken
        condition.notify_all()
    waiting.join()
    assert came == [True]
    with condition:
        assert not condition.wait(0.001)


# ---- the logger


HANDLER = """
    import logging, os, signal
    import psutil
    import farref
    from tests.base.kit import alive
    from tests.waiting import eventually

    def handle(*_):
        print("the program's handler", os.getpid(), flush=True)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handle)
    with farref.System() as system:
        system.worker("B")
        farref.rpc_sync("B", logging.getLogger("app").warning, args=("a record",))
        made = []
        while not made:
            every = [p for p in psutil.process_iter(["name"]) if sid(p.pid) == system._stay.session]
            made = [p for p in every if p.info["name"] == "farref: logger"]
        (logger,) = made
        logger.terminate()
        eventually(lambda: not alive(logger.pid))
        print("ended", flush=True)
"""


@NAMES
@pytest.mark.processes
def test_the_logger_has_no_handlers_of_the_programs() -> None:
    """It is told to end by SIGTERM; a handler that raises would show its traceback."""
    program = SID + textwrap.dedent(HANDLER)
    command, root = [sys.executable, "-c", program], Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False, timeout=60
    )
    # It may be told to end before it has shown the record.
    assert (done.stdout, done.stderr.replace("WARNING B app: a record\n", "")) == ("ended\n", "")
