"""A parameter server trains with three workers, loses one to kill -9, gains two, and goes on.

The workers meet by farref.rendezvous: each gets its rank and the size of the group. In a round each
takes two steps, and calls the server's model by reference in each. Then it waits for news of the
group, and after any news the living workers meet again. In the trace each round begins with calls
of the rendezvous service (`ask`); a call that waits there holds up no other.

Look for
  - B, in the middle of the group: the two others hear of its death though they do not call it.
    They meet in the next round, and keep their ranks if possible;
  - B's reference to the model: it is released after the grace for orphans, and the model lives
    on. At the end, when the run is closed and all references are gone, the model is freed;
  - D and E: they wait until the two others have left their round. There is one group at a time.

On simpleSystemBase actors are not processes and cannot be killed; there B just leaves.
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
from farref.examples.harness import run_alone

SHARING = "lend"
TIMES = RendezvousTimeouts(join=30, last_call=0.3)
STEPS_OF_A_ROUND = 2
meetings: dict[str, ActorRendezvous] = {}
"""The nodes in this process; a node that is removed from here ends."""


class Model:
    """The server's object: here, one weight, and a record of the steps."""

    def __init__(self) -> None:
        self.weight = 0.0
        self.steps: dict[tuple[int, int], int] = {}
        """The number of steps in each round, by the round's number and size."""

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
            system.workers()  # simpleSystemBase runs actors only during such calls
            time.sleep(0.01)

    start("A", "B", "C")
    until(lambda: model.trained_by(3))
    killed = end_one("B")
    until(lambda: model.trained_by(2))
    start("D", "E")
    until(lambda: model.trained_by(4))
    meeting.shutdown()
    for name, worker in workers.items():
        died = worker.exception()  # not raised: a traceback would keep this frame and the model
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
