"""An actor that holds tasks back until a signal comes, as in Ray's pattern of synchronization.

Each task calls the `async` method `wait` of one `SignalActor`, and waits for its end. The program
calls `send`, and all of them go on. Nine lines differ from the structure of Ray's program, out of
23: the import, the two decorators, which are left out, the five that make the actor or the tasks,
call a method or get a result, and the last one of the task, which returns the time in place of
printing "go!". (New are the start of the system, with the workers, which Ray starts by itself, and
the checks. The actor counts those that wait, as the one of Ray's own tests does.)
"""

from __future__ import annotations

import asyncio
import time

import farref
from farref import RRef, System, remote

TASKS = 4


class SignalActor:
    """An `asyncio.Event` for all processes."""

    def __init__(self) -> None:
        self.ready_event = asyncio.Event()
        self.num_waiters = 0

    def send(self, clear: bool = False) -> None:
        """Let all go on that wait."""
        self.ready_event.set()
        if clear:
            self.ready_event.clear()

    async def wait(self, should_wait: bool = True) -> None:
        """Wait for `send`."""
        if should_wait:
            self.num_waiters += 1
            await self.ready_event.wait()
            self.num_waiters -= 1

    def cur_num_waiters(self) -> int:
        """The number of tasks that wait now."""
        return self.num_waiters


def wait_and_go(signal: RRef[SignalActor]) -> float:
    """Wait for the signal. Returns the time after that."""
    farref.get(signal.remote().wait())
    return time.monotonic()  # of the machine: the same clock in all processes


def main() -> None:
    """Start the tasks, then send the signal."""
    with System() as system:
        for number in range(TASKS):
            system.worker(f"worker-{number + 1}")

        signal = remote(farref.ANY, SignalActor)
        tasks = [remote(farref.ANY, wait_and_go, args=(signal,)) for _ in range(TASKS)]
        print("ready...")
        end = time.monotonic() + 30
        while signal.rpc_sync().cur_num_waiters() < TASKS:
            early, _ = farref.wait(tasks, timeout=0.01)
            assert early == [], "a task did not wait"
            assert time.monotonic() < end, "the tasks did not begin"
        print("set...")
        sent = time.monotonic()
        farref.get(signal.remote().send())
        went = farref.get(tasks)

        assert all(each > sent for each in went), "a task went before the signal"
        for task, when in zip(tasks, went, strict=True):
            print(f"{task.owner_name()}: go! {1000 * (when - sent):.0f} ms after the signal")


if __name__ == "__main__":
    main()
