"""Both export caches of a pair stay equal, over links that lose, repeat and reorder packets.

Each rule of `protocol.exports` has a mutant here: the same run without the rule goes wrong.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from farref.protocol import credit, exports
from farref.protocol.delivery import Channel, Packet
from farref.protocol.errors import ProtocolError
from farref.protocol.exports import ExportCache, SentExports
from farref.protocol.messages import FLOWS, Cargo, Flow, Message, Tell

SEEDS = 60
ITEMS = 12


class Row(NamedTuple):
    """An item in a message: its index, and whether the message brings it."""

    name: int
    at: int
    new: bool


class WrongError(Exception):
    """A message found another item than its sender meant, or none."""


class Untouched(ExportCache[int]):
    """A mutant: use does not count."""

    def find(self, index: int) -> int:
        found = self._items.get(index)
        if found is None:
            raise ProtocolError("empty")
        return found[0]


class Exchange:
    """One sender and one receiver, and the link between them."""

    def __init__(self, seed: int, mutant: str = "") -> None:
        self.rng = random.Random(seed)
        self.mutant = mutant
        self.near, self.far = Channel(), Channel()
        self.link: list[tuple[Channel, Packet]] = []
        self.sent: dict[str, SentExports] = {}
        self.kept: dict[str, ExportCache[int]] = {}
        self.chosen: list[tuple[Flow, tuple[Row, ...]]] = []
        self.unopened: list[Message] = []
        self.now = 0.0
        self.opened = 0

    def size(self, name: int) -> int:
        return 1 + 7 * name % 30

    def send(self) -> None:
        """Choose between items and indices, and send: in one step, except in a mutant."""
        flow = self.rng.choice(FLOWS)
        sent = self.sent.setdefault(self.cache_of(flow), SentExports())
        names = [self.rng.randrange(ITEMS) for _ in range(self.rng.randint(1, 3))]
        rows = tuple(Row(name, *sent.export(name, self.size(name))) for name in names)
        self.chosen.append((flow, rows))
        while self.chosen and (self.mutant != "chosen early" or len(self.chosen) > 2):
            last = self.rng.randrange(len(self.chosen))
            flow, rows = self.chosen.pop(last)
            self.near.send(Tell(cargo=Cargo(payload=(flow, rows))), flow, self.rng.randint(1, 40))

    def cache_of(self, flow: str) -> str:
        return "" if self.mutant == "one cache for all flows" else flow

    def carry(self) -> None:
        """Let the link do something: carry, lose, repeat, in any order."""
        for channel in (self.near, self.far):
            packet = channel.packet(self.now) or channel.tick(self.now)
            if packet is not None:
                self.link += [(channel, packet)] * self.rng.choice((0, 1, 1, 1, 2))
        if self.link and self.rng.random() < 0.8:
            sender, packet = self.link.pop(self.rng.randrange(len(self.link)))
            other = self.far if sender is self.near else self.near
            handed = other.receive(packet, self.now)
            if other is self.far:
                self.unopened += [each for each in handed if type(each) is Tell]
        late = self.mutant == "moved when opened"
        while self.unopened and (not late or len(self.unopened) > 3):
            which = self.rng.randrange(len(self.unopened)) if late else 0
            self.open(self.unopened.pop(which))
        self.now += 0.3

    def open(self, message: Any) -> None:
        flow, rows = message.cargo.payload
        kind: Any = Untouched if self.mutant == "use does not count" else ExportCache
        kept = self.kept.setdefault(self.cache_of(flow), kind())
        for row in rows:
            try:
                if row.new:
                    index, _ = kept.add(row.name, self.size(row.name))
                    right = index == row.at
                else:
                    right = kept.find(row.at) == row.name
            except ProtocolError:
                right = False
            if not right:
                raise WrongError(row)
        self.opened += 1


def run(seed: int, mutant: str = "") -> Exchange:
    it = Exchange(seed, mutant)
    for _ in range(150):
        if it.rng.random() < 0.5:
            it.send()
        it.carry()
    for _ in range(2000):
        it.carry()
        if not (it.near.backlog or it.near.waits or it.far.backlog):
            break
    return it


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small caches and little room, so that flows overtake each other."""
    for module, limit, size in (
        (exports, "ITEMS", 5),
        (exports, "CAPACITY", 70),
        (credit, "CREDIT_BYTES", 100),
    ):
        monkeypatch.setattr(module, limit, size)


def test_every_message_finds_the_items_that_its_sender_meant() -> None:
    for seed in range(SEEDS):
        it = run(seed)
        assert it.opened > 30
        assert not it.near.waits
        for flow, kept in it.kept.items():
            theirs, mine = kept._items, it.sent[flow]._cache._items
            assert list(theirs.items()) == list(mine.items()), "both ends are equal"
            assert len(theirs) <= 5
            assert sum(size for _, size in theirs.values()) <= 70


@pytest.mark.parametrize(
    "mutant",
    ["one cache for all flows", "chosen early", "moved when opened", "use does not count"],
)
def test_without_one_of_the_rules_it_goes_wrong(mutant: str) -> None:
    wrong = 0
    for seed in range(SEEDS):
        try:
            run(seed, mutant)
        except WrongError:
            wrong += 1
    assert wrong


def test_an_item_that_is_too_large_and_an_empty_index() -> None:
    cache: ExportCache[str] = ExportCache()
    with pytest.raises(ProtocolError, match="an item of 71 bytes"):
        cache.add("large", 71)
    with pytest.raises(ProtocolError, match="index 0, which is empty"):
        cache.find(0)
    assert cache.add("whole", 70) == (0, [])
    assert cache.add("other", 1) == (0, ["whole"])
