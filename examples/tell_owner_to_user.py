"""By messages: B sends a reference to its own object to C, and forgets it.

Look for
  - the two messages about the reference: one shares it, and one frees it;
  - B's handler: it is over, and B's own handle gone, before C has even got the message. The
    known fork holds the object for C.
"""

from dataclasses import dataclass

from thespian.actors import ActorAddress

from farref import RefActor, RRef, System
from farref.examples.harness import run_alone

SHARING = "fork"


@dataclass
class Begin:
    c: ActorAddress


@dataclass
class Look:
    rref: RRef[str]


class B(RefActor):
    def receiveMsg_Begin(self, message: Begin, sender: ActorAddress) -> None:
        self.send(message.c, Look(RRef("data")))
        self.send(sender, "sent")


class C(RefActor):
    async def receiveMsg_Look(self, message: Look, _sender: ActorAddress) -> None:
        assert await message.rref == "data"


def play(system: System) -> None:
    b, c = system.create(B, "B"), system.create(C, "C")
    system.ask(b, Begin(c))


if __name__ == "__main__":
    run_alone(__doc__, play)
