"""Why a command had no effect, read from the state of the machines.

This module decides nothing and changes nothing. If a guard of a machine were removed, the trace
would show the effect instead of the reason.
"""

from __future__ import annotations

from ..plurals import plural
from ..protocol.borrowing import BorrowingUser
from ..protocol.context import Context
from ..protocol.delivery import Channel, Packet
from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
from ..protocol.lending import LendingUser
from ..protocol.messages import (
    AliasGone,
    AliasRef,
    Cancel,
    CancelRefused,
    Canonical,
    CreditAsked,
    CreditGiven,
    Cut,
    Fetch,
    Holders,
    Invoke,
    Message,
    NotifyRefRemoved,
    Probe,
    RefRemoved,
    Reply,
    Returned,
)
from ..protocol.owner import Owner
from ..protocol.user import User
from .show import listed, request_name


def why_kept(context: Context, rref: RRefId) -> str:
    """Why the endpoint sends no `Delete` for *rref*, or does not free it."""
    me = context.me
    if (owner := context.owners.get(rref)) is not None:
        return f"({me} keeps {rref}: {_and(owner_keeps(owner))})"
    if (user := context.users.get(rref)) is not None:
        return f"(nothing leaves {me}: {_and(user_keeps(user, _loans_of(context)))})"
    return f"({me} holds nothing of {rref} any more)"


def owner_keeps(owner: Owner) -> list[str]:
    """The reasons why an object stays alive at its owner."""
    reasons: list[str] = []
    if not owner.created:
        reasons.append("its creation has not come yet")
    elif not owner.resolved and owner.alias is None:
        reasons.append("it has no value yet")
    reasons += _held(owner)
    if forks := [f"{fork} of {to}" for fork, to in owner.forks.items() if fork not in owner.lent]:
        reasons.append(f"{_subject('fork', 'forks', forks)} known")
    reasons += _lent([f"{fork} at {to}" for fork, to in owner.lent.items()])
    if owner.pending:
        reasons.append(_unanswered(owner.pending))
    if owner.running:
        reasons.append("a request runs on it")
    if owner.aside:
        reasons.append("a request awaits on it" if owner.serial else "requests run on it")
    if owner.queue:
        reasons.append(f"{len(owner.queue)} more wait" if owner.running else "requests wait")
    return reasons


def user_keeps(user: User, lent: set[ForkId]) -> list[str]:
    """The reasons why a user keeps a reference; *lent* are the loans of calls it waits for."""
    reasons: list[str] = []
    if user.lost:
        reasons.append(f"{user.owner}, the owner, is dead")
    reasons += _held(user)
    if user.requested is not None:
        reasons.append(f"fork {user.requested} is not confirmed")
    if isinstance(user, LendingUser):
        lent = set(user.lent)
    if children := [f"{fork} at {to}" for fork, to in user.children.items() if fork not in lent]:
        reasons.append(f"{_subject('child', 'children', children)} not confirmed")
    reasons += _lent([f"{fork} at {to}" for fork, to in user.children.items() if fork in lent])
    if user.pending:
        reasons.append(_unanswered(user.pending))
    if user.loans:
        loans = [str(fork) for fork in sorted(user.loans)]
        reasons.append(f"{_subject('loan', 'loans', loans)} for a call that runs")
    if isinstance(user, BorrowingUser) and not user.known:
        reasons += _not_known(user)
    return reasons


def _held(entry: Owner | User) -> list[str]:
    """The handles, and the messages that are being handled."""
    counts = (("handle", entry.handles, "held"), ("message", entry.messages, "being handled"))
    return [
        f"{count:,} {plural(noun, count)} {'is' if count == 1 else 'are'} {how}"
        for noun, count, how in counts
        if count
    ]


def _not_known(user: BorrowingUser) -> list[str]:
    """Facts that the owner has yet to learn or to confirm."""
    reasons: list[str] = []
    if user.reported:
        reported = [str(fork) for fork in sorted(user.reported)]
        reasons.append(f"the notice for {listed(reported)} has not come")
    if user.borrowers:
        borrowers = [f"{fork} of {to}" for fork, to in user.borrowers.items()]
        reasons.append(f"only {user.rref}'s table here knows {listed(borrowers)}")
    return reasons


def _lent(loans: list[str]) -> list[str]:
    return [f"{_subject('loan', 'loans', loans)} not returned"] if loans else []


def _loans_of(context: Context) -> set[ForkId]:
    return {loan.fork for waiting in context.waiting.values() for loan in waiting.loans}


def why_silent(context: Context, sender: WorkerId, message: Message) -> list[str]:
    """Why receiving *message* had no effect at all."""
    me = context.me
    if sender in context.dead:
        return [f"({me} ignores it: {sender} is dead)"]
    match message:
        case Cancel(call=call):
            return [f"({me} has no call {call} of {sender}'s in a queue)"]
        case CancelRefused(call=call):
            return [f"({me} has the reply to {call} already)"]
        case Probe():
            return [f"({me} ends it: it has been here, or the ring is no more)"]
        case Holders(look=look):
            return [f"({me} waits for more answers, or not for look {look} any more)"]
        case Cut(rref=rref):
            return [f"({me} lets {rref} be: it has been used since, or is gone)"]
        case AliasRef(rref=rref):
            return [f"({me} does not know yet what {rref} is{_labelled(context, rref)})"]
        case Canonical(rref=rref):
            return [f"({me} knows that {context.whereabouts(rref)} has a value)"]
        case AliasGone(rref=rref):
            return [f"({me} knows {_aliases_of(context, rref)})"]
        case Reply(call=call):
            return [f"({me} has nobody to tell of {call})"]
        case CreditAsked() | CreditGiven():
            return [f"({me} leaves it to delivery)"]
        case Returned(loans=reports):
            rrefs = [report.rref for report in reports]
        case NotifyRefRemoved(loans=loans):
            rrefs = [rref for rref, _ in loans]
        case RefRemoved(removed=removed):
            rrefs = [each.rref for each in removed]
        case _:
            # Every other silent message is about one reference.
            rrefs = [getattr(message, "rref")]  # noqa: B009 - not each kind has an `rref`
    return [why_kept(context, rref) for rref in dict.fromkeys(rrefs)]


def _labelled(context: Context, rref: RRefId) -> str:
    owner = context.owners[rref]
    return "" if owner.label == rref else f"; {owner.label} leads to it"


def _aliases_of(context: Context, rref: RRefId) -> str:
    owner = context.owners.get(rref)
    if owner is None:
        return f"nothing of {rref} any more"
    aliases = listed(map(str, owner.aliases))
    return f"the aliases {aliases} of {rref}" if aliases else f"no alias of {rref}"


def why_queued(context: Context, message: Message) -> str | None:
    """Why a request on an object waits; None if it does not."""
    if not isinstance(message, Fetch | Invoke):
        return None
    owner = context.owners.get(message.rref)
    if owner is None or all(request != message for _, request in owner.queue.values()):
        return None
    name = request_name(message)
    if not owner.created:
        return f"({context.me} queues {name}: its creation has not come yet)"
    if owner.alias is not None:
        return f"({context.me} queues {name}: it stands for {owner.alias.target}, whatever that is)"
    if not owner.resolved:
        return f"({context.me} queues {name}: it has no value yet)"
    return f"({context.me} queues {name}: it is busy)"


def why_dropped(me: WorkerId, sender: WorkerId, packet: Packet, channel: Channel) -> str:
    """Why *packet* released no message, after *channel* has taken it."""
    if not packet.messages:
        return f"({me} learns nothing new: {sender} expects {packet.expects})"
    last = packet.first + len(packet.messages) - 1
    if last < channel.handed:
        return f"({me} drops it: all below {channel.handed} came before)"
    return f"({me} keeps it back: {channel.handed} has not come yet)"


def _unanswered(pending: set[CallId]) -> str:
    calls = [str(call) for call in sorted(pending)]
    return f"{_subject('call', 'calls', calls)} not answered"


def _subject(one: str, many: str, names: list[str]) -> str:
    """``fork A/1 is``, ``forks A/1, A/2 are``."""
    noun, verb = (one, "is") if len(names) == 1 else (many, "are")
    return f"{noun} {listed(names)} {verb}"


def _and(reasons: list[str]) -> str:
    return ", ".join(reasons) if reasons else "for no reason that the trace tests know"
