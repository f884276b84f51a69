"""By messages: A asks B for an object and gets a reference back, a fork of the owner's.

One-way messages have no return value: the owner makes the object and sends its reference.
So "return value" becomes a share of the owner with a user, which is simpler than remote().

Look for
  - A's fork: it is known when B sends it. No ACK is needed, unlike for remote()'s creation;
  - A's handler: it awaits the value, and A could handle other messages meanwhile.
"""

from dataclasses import dataclass

from thespian.actors import ActorAddress

from farref import RefActor, RRef, System
from farref.examples.harness import run_alone

SHARING = "fork"


@dataclass
class Begin:
    b: ActorAddress


class Make:
    pass


@dataclass
class Made:
    rref: RRef[int]


class A(RefActor):
    def receiveMsg_Begin(self, message: Begin, sender: ActorAddress) -> None:
        self.program = sender
        self.send(message.b, Make())

    async def receiveMsg_Made(self, message: Made, _sender: ActorAddress) -> None:
        self.send(self.program, await message.rref)


class B(RefActor):
    def receiveMsg_Make(self, _message: Make, sender: ActorAddress) -> None:
        self.send(sender, Made(RRef(2 + 1)))


def play(system: System) -> None:
    a, b = system.create(A, "A"), system.create(B, "B")
    assert system.ask(a, Begin(b)) == 3


if __name__ == "__main__":
    run_alone(__doc__, play)
