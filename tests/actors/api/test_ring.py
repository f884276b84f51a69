"""The bell of the in-process base: whoever waits for it wakes, rung or not."""

from __future__ import annotations

import threading
import time

from farref.actors.simple import Ring


def test_whoever_waits_wakes_when_the_time_is_up_however_many_wait() -> None:
    for seconds in (0.0001, 0.0003, 0.001, 0.002, 0.01):
        ring, quiet = Ring(), threading.Event()
        waiting = [
            threading.Thread(target=_wait_again_and_again, args=(ring, seconds, quiet), daemon=True)
            for _ in range(12)
        ]
        for thread in waiting:
            thread.start()
        for _ in range(int(0.3 / seconds)):
            ring.set()
            time.sleep(seconds)
        quiet.set()
        for thread in waiting:
            thread.join(30)
        assert not any(thread.is_alive() for thread in waiting)


def _wait_again_and_again(ring: Ring, seconds: float, quiet: threading.Event) -> None:
    while not quiet.is_set():
        ring.wait(seconds)


def test_it_wakes_who_waits_and_the_next_who_does() -> None:
    ring = Ring()
    ring.set()
    ring.set()
    ring.wait(60)  # rung before
    waiting = threading.Thread(target=ring.wait, args=(60,), daemon=True)
    waiting.start()
    ring.set()
    waiting.join(30)
    assert not waiting.is_alive()
