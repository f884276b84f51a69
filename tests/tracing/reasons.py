"""Why a command had no effect, read from the state of the machines.

Nothing here decides anything and nothing is told by a trace: if a guard of a machine were
removed, the effect would show and the reason would not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farref.protocol.ids import RRefId
from farref.protocol.messages import Cancel, Fetch, Invoke, Message

from .show import listed, request_name

if TYPE_CHECKING:
    from farref.protocol.context import Context
    from farref.protocol.delivery import Channel, Packet
    from farref.protocol.ids import CallId, WorkerId
    from farref.protocol.owner import Owner
    from farref.protocol.user import User


def why_kept(context: Context, rref: RRefId) -> str:
    """Why the endpoint sends no `Delete` for *rref*, or does not free it."""
    me = context.me
    if (owner := context.owners.get(rref)) is not None:
        return f"({me} keeps {rref}: {_and(owner_keeps(owner))})"
    if (user := context.users.get(rref)) is not None:
        return f"(nothing leaves {me}: {_and(user_keeps(user))})"
    return f"({me} holds nothing of {rref} any more)"


def owner_keeps(owner: Owner) -> list[str]:
    """What keeps an object alive at its owner."""
    reasons: list[str] = []
    if not owner.created:
        reasons.append("its creation has not come yet")
    elif not owner.resolved:
        reasons.append("it has no value yet")
    if owner.handles:
        reasons.append(_handles(owner.handles))
    if owner.forks:
        forks = [f"{fork} of {to}" for fork, to in owner.forks.items()]
        reasons.append(f"{_subject('fork', 'forks', forks)} known")
    if owner.pending:
        reasons.append(_unanswered(owner.pending))
    if owner.running:
        reasons.append("a request runs on it")
    if owner.queue:
        reasons.append(f"{len(owner.queue)} more wait" if owner.running else "requests wait")
    return reasons


def user_keeps(user: User) -> list[str]:
    """What keeps a reference alive at its user."""
    reasons: list[str] = []
    if user.lost:
        reasons.append(f"{user.owner}, the owner, is dead")
    if user.handles:
        reasons.append(_handles(user.handles))
    if user.requested is not None:
        reasons.append(f"fork {user.requested} is not confirmed")
    if user.children:
        children = [f"{fork} at {to}" for fork, to in user.children.items()]
        reasons.append(f"{_subject('child', 'children', children)} not confirmed")
    if user.pending:
        reasons.append(_unanswered(user.pending))
    return reasons


def why_silent(context: Context, sender: WorkerId, message: Message) -> str:
    """Why receiving *message* had no effect at all."""
    me = context.me
    if sender in context.dead:
        return f"({me} ignores it: {sender} is dead)"
    if isinstance(message, Cancel):
        return f"({me} has no call {message.call} of {sender}'s in a queue)"
    rref: RRefId = getattr(message, "rref")  # noqa: B009  (every silent message has one)
    return why_kept(context, rref)


def why_queued(context: Context, message: Message) -> str | None:
    """Why a request on an object waits, if it does."""
    if not isinstance(message, Fetch | Invoke):
        return None
    owner = context.owners.get(message.rref)
    if owner is None or all(request != message for _, request in owner.queue):
        return None
    name = request_name(message)
    if not owner.created:
        return f"({context.me} queues {name}: its creation has not come yet)"
    if not owner.resolved:
        return f"({context.me} queues {name}: it has no value yet)"
    return f"({context.me} queues {name}: it is busy)"


def why_dropped(me: WorkerId, sender: WorkerId, packet: Packet, channel: Channel) -> str:
    """Why *packet* handed nothing over, after *channel* has taken it."""
    if not packet.messages:
        return f"({me} learns nothing new: {sender} expects {packet.expects})"
    last = packet.first + len(packet.messages) - 1
    if last < channel._expects:
        return f"({me} drops it: all below {channel._expects} came before)"
    return f"({me} keeps it back: {channel._expects} has not come yet)"


def _handles(count: int) -> str:
    return "1 handle is held" if count == 1 else f"{count:,} handles are held"


def _unanswered(pending: set[CallId]) -> str:
    calls = [str(call) for call in sorted(pending)]
    return f"{_subject('call', 'calls', calls)} not answered"


def _subject(one: str, many: str, names: list[str]) -> str:
    """``fork A/1 is``, ``forks A/1, A/2 are``."""
    noun, verb = (one, "is") if len(names) == 1 else (many, "are")
    return f"{noun} {listed(names)} {verb}"


def _and(reasons: list[str]) -> str:
    return ", ".join(reasons) if reasons else "for no reason that the trace tests know"
