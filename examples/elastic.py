"""A parameter server trains with three workers, loses one to kill -9, gains two, and goes on.

The workers meet by farref.rendezvous: each gets its rank and the size of the group. In a round each
takes two steps, in which it calls the server's model by reference; then it waits for news of the
group. Whatever happens, those who are there meet again: in the trace each round begins with calls
of the rendezvous service (`ask`), and one that waits there holds up nobody.

Look for
  - B, in the middle of the group: the two others hear of its death though they do not call it,
    and the next round has two of them, with the ranks that they had where that is possible;
  - what B held of the model is released when the grace for orphans has passed, and the model lives
    on; at the end, when the run is closed and everybody has let go, it is freed;
  - D and E wait until the two have left their round: there is one group at a time.

Where actors are no processes (simpleSystemBase) nobody can be killed; there B just leaves.
"""

import os
import signal
import time
from collections.abc import Callable

import farref
from farref import (
    ActorRendezvous,
    RendezvousClosedError,
    RendezvousTimeouts,
    RRef,
    System,
    WorkerDiedError,
)
from farref.commands.stage import run_alone

SHARING = "lend"
TIMES = RendezvousTimeouts(join=30, last_call=0.3)
STEPS_OF_A_ROUND = 2
meetings: dict[str, ActorRendezvous] = {}
"""The nodes in this process; one that is taken out ends."""


class Model:
    """What the server owns: here, one weight, and who took which steps."""

    def __init__(self) -> None:
        self.weight = 0.0
        self.steps: dict[tuple[int, int], int] = {}
        """Of each round, by its number and size, the steps that were taken."""

    def step(self, round_: int, size: int, gradient: float) -> float:
        self.weight += gradient / size
        self.steps[round_, size] = self.steps.get((round_, size), 0) + 1
        return self.weight

    def trained_by(self, size: int) -> bool:
        """Whether a group of this size has taken all the steps of a round."""
        return any(
            members == size and steps == size * STEPS_OF_A_ROUND
            for (_, members), steps in self.steps.items()
        )


def train(model: RRef[Model], name: str) -> list[str]:
    """On a worker: meet, train, and meet again, until the run is closed."""
    meeting = farref.rendezvous(
        "elastic", min_nodes=2, max_nodes=4, name=name, timeouts=TIMES, standby=False
    )
    history: list[str] = []
    meetings[name] = meeting
    with meeting:
        while True:
            try:
                group = meeting.next_rendezvous()
            except RendezvousClosedError:
                return history
            for _ in range(STEPS_OF_A_ROUND):
                model.rpc_sync().step(group.round, group.world_size, group.rank + 1.0)
            news = group.wait_for_news()
            history.append(f"round {group.round}, rank {group.rank}: {news}")
            if name not in meetings:
                return history


def play(system: System) -> None:
    model = Model()
    reference = RRef(model)
    meeting = farref.rendezvous("elastic", min_nodes=2, max_nodes=4, timeouts=TIMES, standby=False)
    workers = {}

    def start(*names: str) -> None:
        for name in names:
            system.worker(name)
        for name in names:
            workers[name] = farref.rpc_async(name, train, args=(reference, name))

    def until(happened: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not happened():
            assert time.monotonic() < end
            system.workers()  # where actors run only while the program calls in, this calls in
            time.sleep(0.01)

    start("A", "B", "C")
    until(lambda: model.trained_by(3))
    killed = end_one("B")
    until(lambda: model.trained_by(2))
    start("D", "E")
    until(lambda: model.trained_by(4))
    meeting.shutdown()
    for name, worker in workers.items():
        died = worker.exception()  # raised, it would keep this frame, and so the model
        if name == "B" and killed:
            assert isinstance(died, WorkerDiedError)
        else:
            assert name == "B" or worker.result()[-1].endswith("the run was closed")


def end_one(name: str) -> bool:
    """Kill a worker, if it is a process."""
    pid: int = farref.rpc_sync(name, os.getpid)
    if pid == os.getpid():
        farref.rpc_sync(name, leave, args=(name,))
        return False
    os.kill(pid, signal.SIGKILL)
    return True


def leave(name: str) -> None:
    meetings.pop(name).leave()


if __name__ == "__main__":
    run_alone(__doc__, play)
