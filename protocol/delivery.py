"""Messages between two endpoints: each exactly once, in order, over a link that may err.

A `Channel` is one endpoint's half of the conversation with one peer. Messages leave it in
**packets**. A packet holds all messages that have not left yet, numbered, with a cumulative
acknowledgement of the peer's messages. (So acknowledgements ride on other traffic, and one mailbox
turn sends one packet to each peer.) The link may lose, repeat, delay and reorder packets::

    sender      unsent --packet()--> in flight --acknowledged--> forgotten
                               ^         |
                               +-tick()--+   retransmitted, with backoff, until acknowledged
    receiver    a number is handed over when all smaller ones have been; a number that came
                before is dropped; one that is ahead waits, inside the window

A user message may have to wait for the peer's credit before it gets a number: see `credit`. Then
messages that need no credit overtake it. The questions and answers about credit are messages of the
conversation themselves, so none is lost; only the channel looks at them.

Invariants (explored over every loss, repetition and order of small programs):

* the messages of one flow that were handed over are a prefix of those that the peer sent in it:
  none twice, none skipped, none reordered (G3);
* while both ends live, and the link delivers now and then, every message that needs no credit is
  handed over; and if the receiver takes messages now and then, every message is;
* memory is bounded: at most `WINDOW` messages are in flight, at most as many wait out of order, and
  both ends forget acknowledged messages. The receiver is handed no more messages than it has given
  credit for. The sender itself must limit the messages that wait there (`load`).

A peer is one *incarnation* (`WorkerId`). So a restarted peer has another channel with its own
numbers, and no message of the old conversation can be mistaken for one of the new. Time is an
argument, in seconds on any clock that does not go back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

import msgspec

from .credit import Credit, accounts
from .errors import ProtocolError
from .messages import CreditAsked, CreditGiven, Flow, Message

Full = Callable[[], Collection[Flow]]
"""The flows of which this endpoint can take no more now."""

WINDOW = 1024
"""The most messages in flight, per channel and direction; and of one flow, without new credit."""
ACK_DELAY = 0.05
"""Seconds for which an acknowledgement waits for other traffic to ride on."""
FIRST_RETRY = 1.0
"""Seconds without an acknowledgement until messages in flight are sent again."""
LAST_RETRY = 15.0
"""The backoff doubles the pause between retransmissions up to this many seconds."""


class Packet(msgspec.Struct, frozen=True):
    """*messages* are numbered from *first*; all numbers below *expects* have come in."""

    first: int
    messages: tuple[Message, ...]
    expects: int


class Channel(msgspec.Struct, eq=False):
    """One endpoint's half of the conversation with one peer."""

    unsent: deque[Message] = msgspec.field(default_factory=deque)
    """Messages that have a number and have not left."""
    flight: deque[Message] = msgspec.field(default_factory=deque)
    """Messages that have left and are not acknowledged."""
    _next: int = 0
    """The number that the first unsent message will get."""
    retry_at: float | None = None
    """The time when messages in flight are sent again."""
    _pause: float = msgspec.field(default_factory=lambda: FIRST_RETRY)
    handed: int = 0
    """How many messages of the peer have been handed over: those with smaller numbers."""
    _told: int = 0
    """The last *expects* that was sent to the peer."""
    acknowledge_at: float | None = None
    """The time when an acknowledgement leaves alone."""
    _ahead: dict[int, Message] = {}
    _credits: dict[Flow, Credit] = msgspec.field(default_factory=accounts)
    """The peer's credit, for each flow."""
    asking: int = 0
    """The flows for which this endpoint has asked for credit, and has got none yet."""
    _released: list[tuple[Message, int]] = []
    """Messages that waited for credit and have now got their numbers; for `released`."""
    owed: tuple[Flow, ...] = ()
    """The flows for which the peer asked for credit and has got none yet."""
    retransmissions: int = 0
    """Messages sent again so far."""
    duplicates: int = 0
    """Messages that came again, and were dropped, so far."""

    @property
    def backlog(self) -> int:
        """The number of messages, sent or not, that have a number and are not acknowledged."""
        return len(self.unsent) + len(self.flight)

    def load(self, flow: Flow) -> tuple[int, int]:
        """The outstanding load: the number of all messages, and the bytes of *flow*.

        It counts messages that the peer has not acknowledged, and those that wait for its credit.
        """
        waiting = 0
        for each in self._credits.values():
            waiting += len(each.waiting)
        return self.backlog + waiting, self.bytes_of(flow)

    def bytes_of(self, flow: Flow) -> int:
        """The bytes of *flow* in the `load`."""
        credit = self._credits[flow]
        return credit.bytes + credit.waiting_bytes

    @property
    def waits(self) -> bool:
        """Whether a message waits for credit."""
        return any(credit.waiting for credit in self._credits.values())

    @property
    def unacknowledged(self) -> list[Message]:
        """The messages not acknowledged, in the order of sending, then those waiting for credit."""
        waiting = [message for credit in self._credits.values() for message, _ in credit.waiting]
        return [*self.flight, *self.unsent, *waiting]

    @property
    def deadline(self) -> float | None:
        """The time when `tick` has something to do; None if it has nothing."""
        retry, due = self.retry_at, self.acknowledge_at
        return due if retry is None or (due is not None and due < retry) else retry

    def send(self, message: Message, flow: Flow | None = None, size: int = 0) -> int | None:
        """Take *message* for the peer; it leaves with the next `packet`. Returns its number.

        A message of *flow*, of *size* bytes, may have to wait for credit. Then it has no number
        yet; see `released`.
        """
        if flow is not None:
            credit = self._credits[flow]
            if credit.messages >= WINDOW or credit.bytes >= credit.most:  # so if any waits
                credit.wait(message, size)
                return None
            credit.messages += 1
            credit.bytes += size
            number = self._next + len(self.unsent)
            self.unsent.append(message)
            half = 2 * credit.messages >= WINDOW or 2 * credit.bytes >= credit.most
            if half and credit.asked is None:
                self._ask(flow, credit)
            return number
        self.unsent.append(message)
        return self._next + len(self.unsent) - 1

    def released(self) -> list[tuple[Message, int]]:
        """Messages that waited for credit and leave with the next `packet`, with their numbers.

        Each message is returned once.
        """
        released, self._released = self._released, []
        return released

    def press(self, flow: Flow) -> None:
        """All waiting messages leave now, as if there were credit."""
        credit = self._credits[flow]
        while credit.waiting:
            self._release(credit)
        self._ask(flow, credit)

    def give(self, flow: Flow) -> None:
        """This endpoint can take messages of *flow* again."""
        self.owed = tuple(each for each in self.owed if each != flow)
        self.unsent.append(CreditGiven(flow=flow))

    def _ask(self, flow: Flow, credit: Credit) -> None:
        """Ask the peer, after all messages sent so far, whether it takes more."""
        if credit.asked is None:
            credit.asked = credit.messages, credit.bytes
            self.asking += 1
            self.unsent.append(CreditAsked(flow=flow))

    def _release(self, credit: Credit) -> None:
        message = credit.next()
        self._released.append((message, self._next + len(self.unsent)))
        self.unsent.append(message)

    def _given(self, flow: Flow) -> None:
        """The peer gives credit: as many waiting messages leave as it covers."""
        credit = self._credits[flow]
        self.asking -= credit.asked is not None
        credit.given()
        while credit.waiting and credit.messages < WINDOW and credit.bytes < credit.most:
            self._release(credit)
        if 2 * credit.messages >= WINDOW or 2 * credit.bytes >= credit.most:
            self._ask(flow, credit)

    def packet(self, now: float, again: Collection[Message] | None = None) -> Packet | None:
        """All messages that can leave now, in one packet; None if nothing must be said now.

        With *again*, a packet with these, the last ones in flight, and no other.
        """
        free, unsent = WINDOW - len(self.flight), self.unsent
        batch: tuple[Message, ...] = ()
        if again is not None:
            batch = tuple(again)
        elif not unsent or free <= 0:
            due = self.acknowledge_at
            if due is None or now < due:
                return None
        else:
            if len(unsent) == 1:  # nearly always
                batch = (unsent.popleft(),)
            else:
                batch = tuple([unsent.popleft() for _ in range(min(free, len(unsent)))])
            self._next += len(batch)
            self.flight.extend(batch)
            if self.retry_at is None:
                self.retry_at = now + self._pause
        self._told = self.handed
        self.acknowledge_at = None
        return Packet(self._next - len(batch), batch, self.handed)

    def receive(self, packet: Packet, now: float, full: Full = tuple) -> list[Message]:
        """Take a packet of the peer; return the messages to hand over now, in order.

        The flows in ``full()`` get no credit until `give` is called. It is called only if the peer
        asks for credit. Messages about credit are handed over, too: they mean nothing to others.
        The packet was decoded, so everything in it has its type. Raises `ProtocolError`, with
        nothing changed, if no correct peer sends the packet.
        """
        first, messages, flight = packet.first, packet.messages, self.flight
        end, new = first + len(messages), packet.expects - self._next + len(flight)
        if first < 0:
            raise ProtocolError(f"a packet begins with message number {first}")
        if not 0 <= packet.expects <= self._next:
            raise ProtocolError(f"a packet acknowledges {packet.expects} of {self._next} messages")
        if end > self.handed + WINDOW:
            raise ProtocolError(
                f"a packet brings messages up to {end}, "
                f"outside the window that begins at {self.handed}"
            )
        if new > 0:
            for _ in range(new):
                flight.popleft()
            self._pause = FIRST_RETRY
            self.retry_at = now + self._pause if flight else None
        if first == self.handed and not self._ahead:  # nearly always
            handed = list(messages)
            self.handed = end
        else:
            handed = self._put_in_order(packet)
        for message in handed:
            if type(message) is CreditAsked:
                self._asked(message.flow, full)
            elif type(message) is CreditGiven:
                self._given(message.flow)
        if self.handed - self._told >= WINDOW // 4:
            self.acknowledge_at = now  # before the sender's window fills and it must stop
        elif messages and self.acknowledge_at is None:
            self.acknowledge_at = now + ACK_DELAY
        return handed

    def _asked(self, flow: Flow, full: Full) -> None:
        if flow not in full():
            self.unsent.append(CreditGiven(flow=flow))
        elif flow not in self.owed:
            self.owed = (*self.owed, flow)

    def _put_in_order(self, packet: Packet) -> list[Message]:
        """The messages to hand over now, of this packet, and earlier ones that came too early."""
        self.duplicates += self._repeated(packet)
        handed: list[Message] = []
        for number, message in enumerate(packet.messages, packet.first):
            if number == self.handed:
                handed.append(message)
                self.handed += 1
                while self.handed in self._ahead:
                    handed.append(self._ahead.pop(self.handed))
                    self.handed += 1
            elif number > self.handed:
                self._ahead[number] = message
        return handed

    def _repeated(self, packet: Packet) -> int:
        """How many of the messages have come before."""
        last = packet.first + len(packet.messages)
        handed = max(0, min(self.handed, last) - packet.first)
        return handed + sum(packet.first <= number < last for number in self._ahead)

    def tick(self, now: float) -> Packet | None:
        """The packet due at *now*: a retransmission, or an acknowledgement that found no ride."""
        if self.retry_at is not None and now >= self.retry_at:
            self._pause = min(2 * self._pause, LAST_RETRY)
            self.retry_at = now + self._pause
            self.retransmissions += len(self.flight)
            return self.packet(now, self.flight)
        if self.acknowledge_at is not None and now >= self.acknowledge_at:
            return self.packet(now, ())
        return None
