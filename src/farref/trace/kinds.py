"""How each kind of message is called in a trace, and its colour."""

from __future__ import annotations

from typing import NamedTuple


class Appearance(NamedTuple):
    """The words and the colour of one kind of message."""

    hue: int
    """Of the 256-colour palette."""
    word: str
    """Its usual name."""
    forms: tuple[str, ...] = ()
    """Its forms in a trace, the longest first, with its fields in braces; if there is none, `word`.
    `labels` writes those that need more."""


GREY = 244
LOOKS: dict[str, Appearance] = {
    "ForkRequest": Appearance(
        166, "fork request", ("fork request {fork}", "fork req {fork}", "fork {fork}")
    ),
    "Ack": Appearance(136, "ACK", ("ACK {fork}", "ACK")),
    "ChildAck": Appearance(101, "child ACK", ("child ACK {fork}", "cACK {fork}", "cACK")),
    "Delete": Appearance(167, "delete"),
    "Returned": Appearance(71, "returned"),
    "NotifyRefRemoved": Appearance(
        166,
        "notify",
        ("notify at the end of {loans}", "notify of {loans}", "notify {loans}", "notify"),
    ),
    "RefRemoved": Appearance(167, "removed"),
    "AliasRef": Appearance(
        168,
        "alias",
        ("{alias} aliases {rref}", "{alias}->{rref}", "aliases {rref}", "alias"),
    ),
    "Canonical": Appearance(35, "canonical", ("{rref} is canonical", "canonical")),
    "AliasGone": Appearance(
        131,
        "no alias",
        ("{alias} no alias of {rref}", "no alias of {rref}", "no alias", "gone"),
    ),
    "Probe": Appearance(
        180, "probe", ("probe {before}for a ring by {start}", "probe {before}by {start}", "probe")
    ),
    "WhoHolds": Appearance(143, "look"),
    "Holders": Appearance(107, "looked"),
    "Cut": Appearance(203, "cut", ("cut {rref}", "cut")),
    "Cancel": Appearance(GREY, "cancel"),
    "CancelRefused": Appearance(GREY, "not cancelled"),
    "CreditAsked": Appearance(GREY, "creditasked"),
    "CreditGiven": Appearance(GREY, "creditgiven"),
    "Bulk": Appearance(245, "bulk"),
    "Tell": Appearance(134, "tell"),
    "Call": Appearance(37, "call"),
    "Create": Appearance(33, "remote"),
    "Invoke": Appearance(73, "method call"),
    "Fetch": Appearance(98, "to_here"),
    "Reply": Appearance(71, "reply"),
}
"""Of each class of messages, by its name."""
