"""The rules for `Faults`.

All four affect a packet with the probability *chance*. Arguments limit them to packets with a
message of one of the *kinds* (a name or several, of `KINDS`), to packets from *sender*, and to
packets to *receiver* (names of endpoints; this program is ``"program"``). With *first*, a rule
affects only the first so many packets with a message of each kind, on each link. A message that is
sent again counts again: ``drop(first=3)`` loses the first three sends of each kind of message.

All raise `ValueError` for an argument out of range.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypedDict, Unpack, get_args

from ..actors.wire.faults import ACKNOWLEDGEMENT, Fault, Rule
from ..protocol.messages import Message

KINDS = frozenset({ACKNOWLEDGEMENT, *(kind.__name__ for kind in get_args(Message))})
"""The kinds of messages (see `farref.protocol.messages`), and of a packet without messages."""

Seconds: TypeAlias = "float | tuple[float, float]"
"""A number of seconds, or a pair to draw from between."""


class Which(TypedDict, total=False):
    """The packets that a rule affects; without any of these all packets."""

    kinds: str | Iterable[str] | None
    """Only packets with a message of one of these."""
    sender: str | None
    """Only packets from this endpoint."""
    receiver: str | None
    """Only packets to this endpoint."""
    first: int | None
    """Only the first so many, for each kind on each link."""


def drop(chance: float = 1.0, **which: Unpack[Which]) -> Rule:
    """Lose packets. Their messages are sent again after a second, then two, and so on.

    All rules have these arguments: *chance* (0 to 1) of affecting a packet; only packets with a
    message of one of *kinds*; only from *sender*, only to *receiver* (names of endpoints); only the
    *first* so many, for each kind on each link.

    Raises:
        ValueError: an argument is out of range, or there is no such kind.
    """
    return _rule("drop", chance, 0.0, **which)


def delay(chance: float = 1.0, *, seconds: Seconds = (0.01, 0.1), **which: Unpack[Which]) -> Rule:
    """Let packets leave late, by *seconds*. Packets that are sent meanwhile overtake them.

    *seconds* are a number, or a pair to draw from between. The other arguments and the errors are
    those of `drop`.
    """
    return _rule("delay", chance, seconds, **which)


def duplicate(
    chance: float = 1.0, *, seconds: Seconds = (0.0, 0.1), **which: Unpack[Which]
) -> Rule:
    """Send packets twice, the second time *seconds* after the first.

    *seconds* are a number, or a pair to draw from between. The other arguments and the errors are
    those of `drop`.
    """
    return _rule("duplicate", chance, seconds, **which)


def reorder(chance: float = 1.0, *, seconds: float = 0.1, **which: Unpack[Which]) -> Rule:
    """Hold packets back until the next one to the same endpoint has left, *seconds* at most.

    The other arguments and the errors are those of `drop`.
    """
    if not seconds > 0:
        raise ValueError(f"seconds must be more than 0, not {seconds}")
    return _rule("reorder", chance, seconds, **which)


def _rule(
    fault: Fault,
    chance: float,
    seconds: Seconds,
    *,
    kinds: str | Iterable[str] | None = None,
    sender: str | None = None,
    receiver: str | None = None,
    first: int | None = None,
) -> Rule:
    if not 0 <= chance <= 1:
        raise ValueError(f"chance must be between 0 and 1, not {chance}")
    if first is not None and first < 1:
        raise ValueError(f"first must be 1 or more, not {first}")
    least, most = seconds if isinstance(seconds, tuple) else (seconds, seconds)
    if not 0 <= least <= most:
        raise ValueError(f"seconds must be a number or a pair (least, most), not {seconds}")
    names = None if kinds is None else frozenset([kinds] if isinstance(kinds, str) else kinds)
    if names is not None and (not names or not names <= KINDS):
        raise ValueError(
            f"no such kind of message: {', '.join(sorted(names - KINDS)) or 'none at all'}; "
            f"there are {', '.join(sorted(KINDS))}"
        )
    return Rule(
        fault=fault,
        chance=chance,
        kinds=names,
        sender=sender,
        receiver=receiver,
        first=first,
        seconds=(least, most),
    )
