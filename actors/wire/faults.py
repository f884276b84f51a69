"""Deliberate faults for tests (see `farref.testing`); `faulty` carries them out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import msgspec

Fault = Literal["drop", "delay", "duplicate", "reorder"]

ACKNOWLEDGEMENT = "Acknowledgement"
"""The kind of a packet that carries no message."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of some packets. `drop` and the similar functions make rules."""

    fault: Fault
    """The fault of the packets."""
    chance: float = 1.0
    """The chance, between 0 and 1, that a matching packet is struck."""
    kinds: frozenset[str] | None = None
    """Packets with a message of one of these kinds; None for any packet."""
    sender: str | None = None
    """Only packets of the endpoint of this name."""
    receiver: str | None = None
    """Only packets to the endpoint of this name."""
    first: int | None = None
    """Only the first packets, this many for each kind of message, sender and receiver."""
    seconds: tuple[float, float] = (0.0, 0.0)
    """The delay in seconds, drawn between these two."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults on the links of a system: rules, tried in their order, and a seed."""

    rules: tuple[Rule, ...] = ()
    seed: int = 0

    def __init__(self, *rules: Rule, seed: int = 0) -> None:
        for rule in rules:
            if not isinstance(rule, Rule):
                raise TypeError(f"faults must be made by drop(), delay() ..., not {rule!r}")
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "seed", seed)


class Counts(msgspec.Struct):
    """The fates of the packets that one endpoint sent."""

    sent: int = 0
    """All packets that it sent, also the lost ones."""
    dropped: int = 0
    """Lost by a rule."""
    delayed: int = 0
    """Sent late."""
    duplicated: int = 0
    """Sent twice."""
    reordered: int = 0
    """Held back until the next one had left."""
    cut: int = 0
    """Lost because the link was cut."""
    struck: Counter[str] = msgspec.field(default_factory=Counter)
    """Packets that a rule struck, by the kinds of the messages in them."""
