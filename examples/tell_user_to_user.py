"""By messages: A sends a reference to an object of B's to C, twice; C keeps both.

Look for
  - the first time: C makes itself known to B by a fork request, then tells A by a child ACK;
  - the second time: C is confirmed already, so there is no fork request. The new fork joins
    the one that B knows, A gets its child ACK at once, and B hears nothing of it;
  - the end: C drops both references together, with one delete.
"""

from dataclasses import dataclass

from thespian.actors import ActorAddress

from farref import RefActor, RRef, System, WorkerInfo, remote
from farref.examples.harness import run_alone

SHARING = "fork"


@dataclass
class Begin:
    b: WorkerInfo
    c: ActorAddress


class A(RefActor):
    def receiveMsg_Begin(self, message: Begin, sender: ActorAddress) -> None:
        self.program, self.rref = sender, remote(message.b, pow, args=(2, 10))
        self.send(message.c, self.rref)

    def receiveMsg_int(self, kept: int, sender: ActorAddress) -> None:
        if kept == 1:
            self.send(sender, self.rref)
            del self.rref
        else:
            self.send(self.program, kept)


class C(RefActor):
    def __init__(self) -> None:
        self.kept: list[RRef[int]] = []

    async def receiveMsg_RRef(self, rref: RRef[int], sender: ActorAddress) -> None:
        self.kept.append(rref)
        assert await rref == 1024
        self.send(sender, len(self.kept))
        if len(self.kept) == 2:
            self.kept.clear()


def play(system: System) -> None:
    b, c = system.worker("B"), system.create(C, "C")
    assert system.ask(system.create(A, "A"), Begin(b, c)) == 2


if __name__ == "__main__":
    run_alone(__doc__, play)
