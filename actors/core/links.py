"""An endpoint's conversations: one delivery channel per peer, and the times when they are due.

Used under the endpoint's lock. All messages that one step sends to one peer leave as one packet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop, heappush, heapreplace

from ...protocol import delivery
from ...protocol.delivery import Channel, Full, Packet
from ...protocol.ids import WorkerId
from ...protocol.messages import Flow, Message

Outgoing = list[tuple[WorkerId, Packet]]

CROWD = 16
"""With this many messages in flight to one peer, the next ones gather: the peer has enough to
do."""
LATER = float("inf"), 0
GATHERED = 64
"""This many gathered messages leave at once, in any thread."""


class Links:
    """The channels of one endpoint."""

    def __init__(self) -> None:
        self.channels: dict[WorkerId, Channel] = {}
        """The channel to each peer, from its first message on."""
        # Dicts for sets: the order of sending must not depend on hashes, as simulations are
        # replayed.
        self.dirty: dict[WorkerId, None] = {}
        """Peers for which new messages may leave."""
        self._prompt: set[WorkerId] = set()
        """Those of them whose messages do not gather."""
        self.timed: dict[WorkerId, tuple[float, int]] = {}
        """Peers whose channel has a deadline: the earliest time at which it may be, and their
        place in line among those with the same time."""
        self._alarms: list[tuple[float, int, WorkerId]] = []
        """A heap of these times, and of later ones that no longer count."""
        self._places = 0
        self._gone = (0, 0)
        """The counts of `repeated` from forgotten channels."""
        self.owing: dict[WorkerId, None] = {}
        """Peers that have asked for room and still wait for it."""
        self.on_release: Callable[[WorkerId, Message, int], None] = lambda *_: None
        """Told of messages that had waited for room and now have their numbers."""

    def send(
        self,
        to: WorkerId,
        message: Message,
        flow: Flow | None = None,
        size: int = 0,
        now: float | None = None,
        *,
        prompt: bool = False,
    ) -> tuple[int | None, Packet | None]:
        """Queue *message* for *to*; it leaves with the next `packets`.

        If *prompt*, it never gathers. With the time *now* it may leave at once.

        Returns its number, and its packet if it leaves at once. A message of *flow* with *size*
        bytes may have to wait for room first. Then it has no number yet.
        """
        channel = self.channels.get(to) or self.channel(to)
        number = channel.send(message, flow, size)
        if now is not None and len(channel.flight) < CROWD and to in self.timed:
            return number, channel.packet(now)
        self.dirty[to] = None
        if prompt:
            self._prompt.add(to)
        return number, None

    def press(self, to: WorkerId, flow: Flow) -> None:
        """Let messages that wait for room at *to* leave with the next `packets`."""
        channel = self.channels.get(to)
        if channel is not None:  # None: it has died just now
            channel.press(flow)
            self.dirty[to] = None
            self._tell_released(to, channel)

    def handed(self, sender: WorkerId) -> int:
        """The number of messages of *sender* that have been handed over."""
        return (self.channels.get(sender) or self.channel(sender)).handed

    def receive(
        self, sender: WorkerId, packet: Packet, now: float, full: Full = tuple
    ) -> tuple[list[Message], int]:
        """The messages that a packet of *sender* brings, in order, and the number of the first.

        The flows in ``full()`` get no room until `give` finds them no longer full. Raises
        `ProtocolError`.
        """
        channel = self.channels.get(sender) or self.channel(sender)
        messages = channel.receive(packet, now, full)
        due = channel.acknowledge_at
        if channel.unsent or (due is not None and now >= due):  # or the window has room now
            self.dirty[sender] = None
            self._tell_released(sender, channel)
        if channel.owed:
            self.owing[sender] = None
        time, retry = self.timed.get(sender, LATER)[0], channel.retry_at
        if (due is not None and due < time) or (retry is not None and retry < time):
            self.keep_time(sender, channel)
        return messages, channel.handed - len(messages)

    def _tell_released(self, to: WorkerId, channel: Channel) -> None:
        for message, number in channel.released():
            self.on_release(to, message, number)

    @property
    def left(self) -> bool:
        """Whether messages stayed here to gather, or a peer is owed room. Needs no lock."""
        return bool(self.dirty or self.owing)

    def give(self, full: Callable[[WorkerId], Collection[Flow]]) -> None:
        """Give room for the flows that are no longer *full*, to each peer that asked."""
        for worker in list(self.owing):
            channel, shut = self.channel(worker), full(worker)
            for flow in channel.owed:
                if flow not in shut:
                    channel.give(flow)
                    self.dirty[worker] = None
                    self._prompt.add(worker)
            if not channel.owed:
                del self.owing[worker]

    def packets(self, now: float, *, gather: bool = False) -> tuple[Outgoing, bool]:
        """All that can leave now, and whether the mailbox thread has to look again soon.

        It has to when a channel has a deadline that had none before; and, with *gather*, when
        messages stay here to be joined by others, because many are in flight already.
        """
        if not self.dirty:
            return [], False
        packets, news = [], False
        dirty, self.dirty = self.dirty, {}
        for worker in dirty:
            channel = self.channels.get(worker)
            if channel is None:
                continue
            if (
                gather
                and CROWD <= len(channel.flight) < delivery.WINDOW
                and len(channel.unsent) < GATHERED
                and worker not in self._prompt
            ):
                self.dirty[worker] = None
                news = True
                continue
            if self._prompt:
                self._prompt.discard(worker)
            packet = channel.packet(now)
            if packet is not None:
                packets.append((worker, packet))
                if worker not in self.timed:  # else a packet puts its deadline off
                    self.keep_time(worker, channel)
                    news = True
        return packets, news

    def keep_time(self, worker: WorkerId, channel: Channel) -> None:
        """Note that the deadline of *channel*, to *worker*, may be earlier now."""
        deadline = channel.deadline
        time, place = self.timed.get(worker, LATER)
        if deadline is None or deadline >= time:
            return
        if not place:
            self._places = place = self._places + 1
        self.timed[worker] = deadline, place
        heappush(self._alarms, (deadline, place, worker))
        if len(self._alarms) > 2 * len(self.timed) + GATHERED:
            self._alarms = [(*alarm, each) for each, alarm in self.timed.items()]
            heapify(self._alarms)

    def due(self, now: float) -> Outgoing:
        """The retransmissions and the lone acknowledgements that are due at *now*."""
        packets: Outgoing = []
        while (deadline := self.deadline()) is not None and deadline <= now:
            worker = self._alarms[0][-1]
            packet = self.channels[worker].tick(now)
            if packet is not None:
                packets.append((worker, packet))
        return packets

    def deadline(self) -> float | None:
        """The time when `due` has something next; None while nothing is awaited."""
        while self._alarms:
            time, place, worker = self._alarms[0]
            if (time, place) != self.timed.get(worker):
                heappop(self._alarms)
                continue
            deadline = self.channels[worker].deadline
            if deadline == time:
                return time
            if deadline is None:
                heappop(self._alarms)
                del self.timed[worker]
            else:
                self.timed[worker] = deadline, place
                heapreplace(self._alarms, (deadline, place, worker))
        return None

    def load(self, worker: WorkerId, flow: Flow) -> tuple[int, int]:
        """Messages, and bytes of *flow*, that *worker* has not taken: see `Channel.load`."""
        channel = self.channels.get(worker)
        return channel.load(flow) if channel is not None else (0, 0)

    def waiting(self) -> Iterator[tuple[WorkerId, Message]]:
        """All messages without acknowledgement, each with its receiver."""
        for worker, channel in self.channels.items():
            for message in channel.unacknowledged:
                yield worker, message

    def unacknowledged(self, worker: WorkerId) -> list[Message]:
        """The messages to *worker* that it may not have received, in order."""
        channel = self.channels.get(worker)
        return channel.unacknowledged if channel is not None else []

    @property
    def backlogged(self) -> bool:
        """Whether a sent message has no acknowledgement, or waits for room."""
        return any(each.backlog or each.waits for each in list(self.channels.values()))

    def repeated(self) -> tuple[int, int]:
        """How many messages have been sent again, and how many have come again and were dropped."""
        channels = self.channels.values()
        again, twice = self._gone
        again += sum(channel.retransmissions for channel in channels)
        return again, twice + sum(channel.duplicates for channel in channels)

    def forget(self, worker: WorkerId) -> list[Message]:
        """Forget *worker*, which is dead. Returns the messages that it may not have received."""
        channel = self.channels.pop(worker, None)
        left: list[Message] = []
        if channel is not None:
            left = channel.unacknowledged
            again, twice = self._gone
            self._gone = again + channel.retransmissions, twice + channel.duplicates
        self.owing.pop(worker, None)
        self.timed.pop(worker, None)
        self.dirty.pop(worker, None)
        self._prompt.discard(worker)
        return left

    def channel(self, worker: WorkerId) -> Channel:
        """The channel to *worker*, which is opened if there is none."""
        channel = self.channels.get(worker)
        if channel is None:
            channel = self.channels[worker] = Channel()
        return channel
