"""An endpoint's conversations: one delivery channel per peer, and what is due on them.

Not thread-safe: the endpoint uses it under its lock, and posts the packets afterwards. What one
turn sends to one peer leaves as one packet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..protocol import delivery
from ..protocol.delivery import Channel, Packet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..protocol.ids import WorkerId
    from ..protocol.messages import Message

    Outgoing = list[tuple[WorkerId, Packet]]


CROWD = 16
"""Messages in flight to one peer, from which on the next ones gather: it has enough to do."""
GATHERED = 64
"""So many leave at once, whoever sends them."""


class Links:
    """The channels of one endpoint."""

    def __init__(self) -> None:
        self._channels: dict[WorkerId, Channel] = {}
        # Dicts for sets: what leaves first does not hang on hashes; simulations are replayed.
        self._dirty: dict[WorkerId, None] = {}
        """Peers for which something new may leave."""
        self._prompt: set[WorkerId] = set()
        """Those of them for which nothing gathers."""
        self._timed: dict[WorkerId, None] = {}
        """Peers on whose channel something will be due."""
        self._gone = (0, 0)
        """What `repeated` says of channels that have been forgotten."""
        self._withheld: dict[WorkerId, int] = {}
        """Peers that are not told of what has come since: what acknowledgements say instead."""

    def send(self, to: WorkerId, message: Message, *, prompt: bool = False) -> int:
        """Take *message* for *to*; it leaves with the next `packets`, if *prompt* in any case.

        Returns its number.
        """
        self._dirty[to] = None
        if prompt:
            self._prompt.add(to)
        return self._channel(to).send(message)

    def handed(self, sender: WorkerId) -> int:
        """How many messages of *sender* have been handed over."""
        return self._channel(sender).handed

    def receive(self, sender: WorkerId, packet: Packet, now: float) -> list[Message]:
        """What a packet of *sender*'s brings, in order. Raises `ProtocolError`."""
        channel = self._channel(sender)
        messages = channel.receive(packet, now)
        if channel.backlog > channel.in_flight:  # there may be room for it in the window now
            self._dirty[sender] = None
        self._timed[sender] = None
        return messages

    def withhold(self, worker: WorkerId) -> None:
        """Acknowledge nothing more to *worker*: when its window is full, it waits.

        What it sends until then is taken, control at once, as ever. To *worker* it looks like
        acknowledgements that are late, which a link may always make them.
        """
        self._withheld.setdefault(worker, self._channel(worker).told)

    @property
    def left(self) -> bool:
        """Whether messages have stayed for others to join, or acknowledgements are withheld."""
        return bool(self._dirty or self._withheld)

    @property
    def withholding(self) -> bool:
        """Whether anybody waits for its acknowledgements."""
        return bool(self._withheld)

    def resume(self, now: float) -> None:
        """Acknowledge all that has come meanwhile."""
        withheld, self._withheld = self._withheld, {}
        for worker in withheld:
            self._channel(worker).hurry(now)
            self._timed[worker] = None

    def _told(self, worker: WorkerId, packet: Packet | None) -> Packet | None:
        """*packet*, without the acknowledgement that is withheld; None if there is nothing else."""
        told = self._withheld.get(worker)
        if told is None or packet is None:
            return packet
        return replace(packet, expects=told) if packet.messages else None

    def packets(self, now: float, *, gather: bool = False) -> tuple[Outgoing, bool]:
        """All that can leave now, and whether somebody has to look at it again soon.

        That is so when something is due that nothing was due before; and, with *gather*, when
        messages stay here that others may join: where a crowd of them is in flight already.
        """
        if not self._dirty:
            return [], False
        packets, news = [], False
        dirty, self._dirty = self._dirty, {}
        for worker in dirty:
            channel = self._channels.get(worker)
            if gather and channel is not None and CROWD <= channel.in_flight < delivery.WINDOW:
                gathered = channel.backlog - channel.in_flight
                if gathered < GATHERED and worker not in self._prompt:
                    self._dirty[worker] = None
                    news = True
                    continue
            self._prompt.discard(worker)
            packet = self._told(worker, channel.packet(now)) if channel is not None else None
            if packet is not None:
                packets.append((worker, packet))
                news = news or worker not in self._timed
                self._timed[worker] = None
        return packets, news

    def due(self, now: float) -> Outgoing:
        """Retransmissions, and acknowledgements that found no ride, that are due at *now*."""
        found = (
            (worker, self._told(worker, self._channels[worker].tick(now))) for worker in self._timed
        )
        return [(worker, packet) for worker, packet in found if packet is not None]

    def urgent(self, worker: WorkerId, now: float) -> Outgoing:
        """What is due on the link to *worker* alone: it costs the same with many peers."""
        packet = self._told(worker, self._channel(worker).tick(now))
        return [(worker, packet)] if packet is not None else []

    def deadline(self) -> float | None:
        """When `due` has something next; None while nothing is waited for."""
        dues: list[float] = []
        for worker in list(self._timed):
            deadline = self._channels[worker].deadline
            if deadline is None:
                self._timed.pop(worker, None)
            else:
                dues.append(deadline)
        return min(dues, default=None)

    def backlog(self, worker: WorkerId) -> int:
        """Messages to *worker* that it has not acknowledged."""
        channel = self._channels.get(worker)
        return channel.backlog if channel is not None else 0

    def waiting(self) -> Iterator[tuple[WorkerId, Message]]:
        """All messages that have not been acknowledged, and to whom each goes."""
        for worker, channel in self._channels.items():
            for message in channel.unacknowledged:
                yield worker, message

    def unacknowledged(self, worker: WorkerId) -> list[Message]:
        """The messages to *worker* that it may not have received, in order."""
        channel = self._channels.get(worker)
        return channel.unacknowledged if channel is not None else []

    @property
    def backlogged(self) -> bool:
        """Whether anything that was sent is not acknowledged."""
        return any(channel.backlog for channel in list(self._channels.values()))

    def repeated(self) -> tuple[int, int]:
        """Messages that were sent again, and that came again and were dropped, so far."""
        channels = self._channels.values()
        again, twice = self._gone
        again += sum(channel.retransmissions for channel in channels)
        return again, twice + sum(channel.duplicates for channel in channels)

    def forget(self, worker: WorkerId) -> None:
        """*worker* is dead: nothing is sent again."""
        channel = self._channels.pop(worker, None)
        if channel is not None:
            again, twice = self._gone
            self._gone = again + channel.retransmissions, twice + channel.duplicates
        self._withheld.pop(worker, None)
        self._timed.pop(worker, None)
        self._dirty.pop(worker, None)
        self._prompt.discard(worker)

    def _channel(self, worker: WorkerId) -> Channel:
        channel = self._channels.get(worker)
        if channel is None:
            channel = self._channels[worker] = Channel()
        return channel
