"""By messages: A sends B's own object home, in a message without a reply.

Look for
  - B's child ACK: there is no reply that could tell A that B has the message. Only after the
    child ACK may A delete its reference (G2), so the object lives while the message is under way;
  - B's object: B gets the object itself by local_value(), not a copy.
"""

from dataclasses import dataclass

from thespian.actors import ActorAddress

import farref
from farref import RefActor, RRef, System
from farref.examples.harness import run_alone

SHARING = "fork"


@dataclass
class Begin:
    b: ActorAddress


@dataclass
class Take:
    rref: RRef[list[int]]


class A(RefActor):
    async def receiveMsg_Begin(self, message: Begin, sender: ActorAddress) -> None:
        rref = farref.remote(message.b, list, args=((2, 1),))
        self.send(message.b, Take(rref))
        self.send(sender, len(await rref))


class B(RefActor):
    async def receiveMsg_Take(self, message: Take, _sender: ActorAddress) -> None:
        await message.rref  # until it has been made
        message.rref.local_value().append(3)


def play(system: System) -> None:
    a, b = system.create(A, "A"), system.create(B, "B")
    assert system.ask(a, Begin(b)) in (2, 3)  # Take may come first or second


if __name__ == "__main__":
    run_alone(__doc__, play)
