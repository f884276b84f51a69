"""Credit-based flow control: an endpoint that sends more than its peer takes has to wait.

An acknowledgement says that a message has arrived, not that the receiver has begun to handle it.
Until then the message takes memory. So user messages need *credit* from their receiver::

    sender      send() --credit--> unsent ... handed over   counts messages and bytes sent since
                  |                                         its last credit
                  +--none--> waiting, until credit is given

    half of it is used        CreditAsked ->
                              <- CreditGiven                at once, or when the receiver is not
                                                            full any more

The receiver counts nothing. A question for credit travels behind the messages that it is about, on
a link that keeps the order. So the answer says that the receiver has taken in all of them. Only the
sender knows their size, and takes it off its count. Each question is answered once, and there is
one question at a time.

User messages have three *flows*, each with its own credit, because different code takes them:

==========  =====================================  ==============================================
mail        `Tell`                                 an actor's handlers; a program that listens
requests    calls, creations, fetches, `Cancel`    the receiver's threads
results     `Reply`, and the answer to an `ask`    nobody: a receiver is never full of them
==========  =====================================  ==============================================

Within one flow the order is kept. Control messages need no credit and pass all waiting messages;
results pass mail and requests. So a full endpoint still gets the answers that it waits for, and two
endpoints that flood each other cannot hold up each other's answers (G6).

Invariants (explored with the rest of `delivery`):

* at most `WINDOW` messages have left since credit was given, and the bytes of all but the last of
  them are fewer than `Credit.most`: so a message larger than that passes, too;
* if a message waits, a question is on its way, or the receiver owes an answer.
"""

from __future__ import annotations

from collections import deque

import msgspec

from .messages import FLOWS, Flow, Message

CREDIT_BYTES = 16 << 20
"""The bytes of one flow that may leave for one peer before it gives new credit."""
FOR_RESULTS = 4
"""Results have this many times the credit: a receiver always takes them, and each question for
credit costs it as much as a result."""


class Credit(msgspec.Struct, eq=False):
    """The sender's account of one flow to one peer."""

    most: int
    messages: int = 0
    """Messages that have left, and for which no credit has been given again."""
    bytes: int = 0
    """The size of these messages."""
    asked: tuple[int, int] | None = None
    """The messages and bytes that the unanswered question is about."""
    waiting: deque[tuple[Message, int]] = msgspec.field(default_factory=deque)
    """Messages without credit, and the size of each."""
    waiting_bytes: int = 0

    def left(self, size: int) -> None:
        """A message of *size* bytes has left."""
        self.messages += 1
        self.bytes += size

    def wait(self, message: Message, size: int) -> None:
        """Keep *message* until there is credit."""
        self.waiting.append((message, size))
        self.waiting_bytes += size

    def next(self) -> Message:
        """Let the message that has waited longest leave. Returns it."""
        message, size = self.waiting.popleft()
        self.waiting_bytes -= size
        self.left(size)
        return message

    def given(self) -> None:
        """The question is answered: all messages that it was about have been taken in."""
        if self.asked is not None:
            messages, size = self.asked
            self.messages -= messages
            self.bytes -= size
            self.asked = None


def accounts() -> dict[Flow, Credit]:
    """The sender's accounts of all flows to one peer."""
    return {
        flow: Credit(CREDIT_BYTES * (FOR_RESULTS if flow == "results" else 1)) for flow in FLOWS
    }
