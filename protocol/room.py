"""Room at the receiver: an endpoint that sends more than its peer takes has to wait.

Acknowledging says that a message has arrived. It does not say that anybody has begun with it, and
until somebody does it takes memory. So what the user sends needs *room* at its receiver::

    sender      send() --room--> unsent ... handed over    counts messages and bytes that have left
                  |                                        since it was given room last
                  +--none--> waiting, until room is given

    half of the room is used     RoomAsked ->
                              <- RoomGiven                 at once, or when the receiver is not
                                                           full any more

The receiver counts nothing here. A question for room travels behind the messages that it is about,
on a link that keeps the order. So its answer says that all of these have been taken in, and the
sender, who alone knows what they weigh, takes them off its count. Each question is answered once,
and there is one at a time.

User messages are of three *flows*, each with room of its own, because different code takes them:

==========  =====================================  ==============================================
mail        `Tell`                                 an actor's handlers; a program that listens
requests    calls, creations, fetches, `Cancel`    the receiver's threads
results     `Reply`, and the answer to an `ask`    nobody: a receiver always has room for them
==========  =====================================  ==============================================

Within one flow the order is kept. Control messages need no room, and pass everything that waits; so
do results pass mail and requests. So an endpoint that is full still gets the answers that it waits
for, and two that flood each other cannot hold up each other's answers (G6).

Invariants (explored with the rest of `delivery`):

* at most `WINDOW` messages have left without room being given, and less than `ROOM_BYTES` bytes
  before the last one: so a message larger than that passes, too;
* if anything waits, a question is on its way, or the receiver owes an answer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .messages import Message

ROOM_BYTES = 16 << 20
"""Bytes of one flow that may leave for one peer before it has given room for more."""


class Room:
    """What the sender knows of one flow to one peer."""

    __slots__ = ("asked", "bytes", "messages", "waiting", "waiting_bytes")

    def __init__(self) -> None:
        self.messages = 0
        """Messages that have left, and for which no room has been given again."""
        self.bytes = 0
        """What they weigh."""
        self.asked: tuple[int, int] | None = None
        """What of both the question is about that is not answered yet."""
        self.waiting: deque[tuple[Message, int]] = deque()
        """Messages that there is no room for, and what each weighs."""
        self.waiting_bytes = 0

    def left(self, size: int) -> None:
        """A message has left that weighs *size*."""
        self.messages += 1
        self.bytes += size

    def wait(self, message: Message, size: int) -> None:
        """*message* stays until there is room."""
        self.waiting.append((message, size))
        self.waiting_bytes += size

    def next(self) -> Message:
        """The message that has waited longest leaves now."""
        message, size = self.waiting.popleft()
        self.waiting_bytes -= size
        self.left(size)
        return message

    def given(self) -> None:
        """The question is answered: all that it was about has been taken in."""
        if self.asked is not None:
            messages, size = self.asked
            self.messages -= messages
            self.bytes -= size
            self.asked = None
