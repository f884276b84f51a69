"""The same world over delivery: one `Channel` per pair of endpoints carries the messages.

After the command ``channels``, a message that an endpoint sends waits in its channel. ``packet``
lets all messages that wait for one peer leave together. The *packet* is then in flight: it can be
delivered, lost or duplicated. Only ``tick`` makes time pass.
"""

from __future__ import annotations

from collections.abc import Callable

from ..plurals import plural
from ..protocol.delivery import Channel, Packet
from ..protocol.errors import ProtocolError
from ..protocol.ids import WorkerId
from ..protocol.messages import Message
from ..world.net import Transit
from ..world.shell import Shell
from .reasons import why_dropped
from .show import listed, message_text


class WorldLinks:
    """A `Channel` for each direction of each pair that has talked, and a clock."""

    def __init__(
        self, flight: list[Transit], say: Callable[[str], None], lives: Callable[[str], bool]
    ) -> None:
        """Packets leave for *flight*; *say* shows a line; *lives* tells if an endpoint lives."""
        self._flight = flight
        self._say = say
        self._lives = lives
        self.now = 0.0
        self.channels: dict[tuple[WorkerId, WorkerId], Channel] = {}
        self._packets = 0

    def channel(self, me: WorkerId, peer: WorkerId) -> Channel:
        """The half of *me* in its conversation with *peer*."""
        return self.channels.setdefault((me, peer), Channel())

    def send(self, sender: WorkerId, to: WorkerId, message: Message) -> None:
        self.channel(sender, to).send(message)

    def packet(self, sender: WorkerId, to: WorkerId) -> None:
        """Let every message and acknowledgement leave that can."""
        channel = self.channel(sender, to)
        packet = channel.packet(self.now)
        if packet is not None:
            self._fly(sender, to, packet)
        elif channel.backlog:
            flying = len(channel.flight)
            self._say(
                f"(nothing leaves {sender}: {_messages(flying)} in flight, "
                f"{channel.backlog - flying:,} more wait)"
            )
        else:
            self._say(f"(nothing leaves {sender}: it has nothing new for {to})")

    def tick(self, seconds: float) -> None:
        """Let time pass; show the due packets."""
        self.now = round(self.now + seconds, 6)
        due = False
        for (sender, to), channel in self.channels.items():
            if not self._lives(sender.name):
                continue
            sent = channel.retransmissions
            packet = channel.tick(self.now)
            if packet is not None:
                due = True
                self._fly(sender, to, packet, again=channel.retransmissions > sent)
        if not due:
            self._say(f"(nothing is due at {self.now:g} s; {self._next_deadline()})")

    def _next_deadline(self) -> str:
        deadlines = [c.deadline for c in self.channels.values() if c.deadline is not None]
        return f"next at {min(deadlines):g} s" if deadlines else "nobody waits for anything"

    def _fly(self, sender: WorkerId, to: WorkerId, packet: Packet, *, again: bool = False) -> None:
        self._packets += 1
        text = packet_text(f"p{self._packets}", sender, to, packet, again=again)
        self._flight.append(Transit(sender, to, packet, text))
        self._say(text)

    def receive(self, endpoint: Shell, sender: WorkerId, packet: Packet) -> None:
        """Give *packet* to the channel, and the messages that it releases to the endpoint."""
        me = endpoint.me
        channel = self.channel(me, sender)
        backlog = channel.backlog
        try:
            handed = channel.receive(packet, self.now)
        except ProtocolError as error:
            self._say(f"{me} raises ProtocolError: {error}")
            return
        if forgotten := backlog - channel.backlog:
            self._say(f"{me} forgets {_messages(forgotten)} that {sender} has")
        for message in handed:
            endpoint.receive(sender, message)
        if not handed and (packet.messages or not forgotten):
            self._say(why_dropped(me, sender, packet, channel))

    def unacknowledged(self, me: WorkerId, peer: WorkerId) -> list[Message]:
        """The messages from *me* that *peer* may not have received."""
        return self.channel(me, peer).unacknowledged

    def status(self) -> None:
        """Show both halves of every conversation."""
        for (me, peer), channel in self.channels.items():
            backlog = _messages(channel.backlog)
            again = f", {channel.retransmissions:,} sent again" if channel.retransmissions else ""
            due = "nothing due" if channel.deadline is None else f"due at {channel.deadline:g} s"
            self._say(f"{me} to {peer}: {backlog} not acknowledged{again}, {due}")

    def leftovers(self) -> list[str]:
        """Conversations with something unacknowledged, or with a due acknowledgement."""
        return [
            f"{me} to {peer}: {_messages(channel.backlog)} not acknowledged"
            for (me, peer), channel in self.channels.items()
            if channel.deadline is not None and self._lives(me.name)
        ]


def packet_text(
    name: str, sender: WorkerId, to: WorkerId, packet: Packet, *, again: bool = False
) -> str:
    """``p1  A -> B  0: Tell(m1), 1: Tell(m2); expects 0``."""
    numbered = listed(
        f"{number}: {message_text(message)}"
        for number, message in enumerate(packet.messages, packet.first)
    )
    content = f"{'again ' if again else ''}{numbered}; " if numbered else ""
    return f"{name}  {sender} -> {to}  {content}expects {packet.expects}"


def _messages(count: int) -> str:
    return f"{count:,} {plural('message', count)}"
