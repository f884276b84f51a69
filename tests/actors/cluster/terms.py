"""A registrar of one term, over a store that takes everything at once: no process, no clock."""

from __future__ import annotations

from typing import Any

from thespian.actors import ActorAddress

from farref.actors.base.addresses import Address
from farref.actors.cluster.elected import Elected
from farref.actors.wire.messages import Deliver, EndpointJoin, Forward, HostInfo, HostJoin
from farref.actors.wire.settings import Settings
from farref.protocol.ids import WorkerId
from farref.protocol.succession.ledger import Ledger, Written


def at(name: str) -> ActorAddress:
    return ActorAddress(Address(name))


def host_id(name: str) -> WorkerId:
    return WorkerId(name, ord(name))


class Term:
    """The registrar of a term, its store's *facts*, and the messages that have left it."""

    def __init__(self, term: int = 1, facts: dict[str, bytes] | None = None, own: str = "") -> None:
        self.facts = facts if facts is not None else {}
        self._ledger = Ledger(term, 0)
        settings = Settings(silence=5.0)
        self.elected = Elected(self._ledger, settings, dict(self.facts), at(f"proxy {own}"))
        self._sent: list[tuple[str, Deliver]] = []
        """The host of each message."""
        self.flush()

    def flush(self) -> None:
        write = self._ledger.write()
        while write is not None:
            self.facts.update({key: value for key, value in write.changes if value is not None})
            for key in [key for key, value in write.changes if value is None]:
                self.facts.pop(key, None)
            write = self._ledger.answered(Written(1))
        released: list[Any] = self._ledger.released()
        for to, message in released:
            self._sent.append((to.addressDetails.key.removeprefix("proxy "), message))

    def host(self, name: str, *, joined: bool = False) -> None:
        """A host joins."""
        message = HostJoin(host_id(name), HostInfo(name, {}), joined)
        self.elected.host(message, at(f"proxy {name}"))
        self.flush()

    def ask(self, host: str, message: Any, sender: str = "") -> None:
        """*sender*, by default the proxy, of *host* asks for something."""
        asker = at(sender or f"proxy {host}")
        forward = Forward(host_id(host), self._ledger.term, 1, asker, message)
        self.elected.take(forward, at(f"proxy {host}"))
        self.flush()

    def endpoint(self, name: str, host: str) -> None:
        """An endpoint joins on *host*."""
        self.ask(host, EndpointJoin(WorkerId(name, 0), 1, "", beats=False, place=host), name)

    def ticks(self, number: int) -> None:
        for _ in range(number):
            self.elected.tick()
            self.flush()

    def delivered(self, host: str, kind: Any = object) -> list[Deliver]:
        """The messages of *kind* to *host* since the last question about them."""
        wanted = [to == host and isinstance(each.message, kind) for to, each in self._sent]
        found = [each for (_, each), wants in zip(self._sent, wanted, strict=True) if wants]
        self._sent = [each for each, wants in zip(self._sent, wanted, strict=True) if not wants]
        return found

    def to(self, host: str, kind: type) -> list[Any]:
        """The contents of `delivered`."""
        return [each.message for each in self.delivered(host, kind)]
