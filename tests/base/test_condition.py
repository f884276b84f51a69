"""A signal handler raises at any moment while its thread uses a condition."""

from __future__ import annotations

import threading

import pytest

from farref.actors.base.interrupts import Condition

from ..actors.core.interrupting import Interrupting, is_free
from ..waiting import eventually


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
