"""Effects, messages and tables as the lines that a trace shows.

Ids print as the machines print them (``A/1``); the word before an id says whether it is a
reference, a fork or a call. Four or more lines (or items of one line) that are equal, or whose
numbers count up by one, are shown as one: ``A/1..A/1000``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import msgspec

from ..protocol.alias import Alias
from ..protocol.borrowing import BorrowingUser
from ..protocol.context import Context
from ..protocol.effects import (
    Collect,
    Confirmed,
    Effect,
    Fail,
    Free,
    Garbage,
    Hand,
    Look,
    Looked,
    Lose,
    Loss,
    Refuse,
    Resume,
    Run,
    Scan,
    Send,
    Settle,
    Stop,
    Unstopped,
    Weigh,
)
from ..protocol.ids import CallId, ForkId, RRefId, WorkerId
from ..protocol.messages import (
    Call,
    Cargo,
    Create,
    Delete,
    Descriptor,
    Fetch,
    Grip,
    Hop,
    Invoke,
    Message,
    Moved,
    Passing,
    Report,
    Request,
)
from ..protocol.owner import Owner
from ..protocol.state import Name, Waiting
from ..protocol.user import Loan, User

SHORTEST_RUN = 4
"""Fewer equal lines than this are shown one by one."""
LONGEST_PERIOD = 4
"""A run may repeat a group of up to this many lines."""

COUNTED = re.compile(r"(?:[A-Za-z]\w*/|[A-Za-z]+)?\d+")


# ---- runs of equal lines


def summarize(lines: Sequence[str]) -> list[str]:
    """*lines*, with every run that is equal or counts up shown as one group of lines."""
    return [text if times == 1 else f"{text}  ({times:,} times)" for text, times in _runs(lines)]


def listed(items: Iterable[str]) -> str:
    """*items* in one line, with every run that only counts up shown as ``first..last``."""
    return ", ".join(
        text if times == 1 or ".." in text else f"{text} ({times:,} times)"
        for text, times in _runs(list(items))
    )


def _runs(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(lines):
        for period in range(1, LONGEST_PERIOD + 1):
            times = _repeats(lines, at, period)
            if times >= SHORTEST_RUN:
                last = at + period * (times - 1)
                for i in range(period):
                    yield _span(lines[at + i], lines[last + i]), times
                at += period * times
                break
        else:
            yield lines[at], 1
            at += 1


def _repeats(lines: Sequence[str], at: int, period: int) -> int:
    times = 1
    while at + period * (times + 1) <= len(lines) and all(
        _counts_on(lines[at + i], lines[at + period * times + i], times) for i in range(period)
    ):
        times += 1
    return times


def _counts_on(first: str, later: str, steps: int) -> bool:
    """Whether *later* is *first* with each number either the same or counted up by *steps*."""
    if COUNTED.split(first) != COUNTED.split(later):
        return False
    return all(
        a == b or (_stem(a) == _stem(b) and _number(b) == _number(a) + steps)
        for a, b in zip(COUNTED.findall(first), COUNTED.findall(later), strict=True)
    )


def _span(first: str, last: str) -> str:
    ends = iter(COUNTED.findall(last))

    def both(match: re.Match[str]) -> str:
        end = next(ends)
        return match[0] if match[0] == end else f"{match[0]}..{end}"

    return COUNTED.sub(both, first)


def _stem(counted: str) -> str:
    return counted.rstrip("0123456789")


def _number(counted: str) -> int:
    return int(counted[len(_stem(counted)) :])


# ---- messages


def message_text(message: Message) -> str:
    """``ForkRequest(rref=A/1, fork=A/2)``, ``Tell(A/1 as fork A/2)``. Defaults are left out.

    A creation's watermark is left out, too, if no earlier creation is outstanding.
    """
    parts: list[str] = []
    usual = message.rref.number if isinstance(message, Create) else None
    for field in msgspec.structs.fields(message):
        value = getattr(message, field.name)
        if isinstance(value, Cargo):
            parts += _payload_text(value)
            if value.descriptors:
                parts.append(listed(map(descriptor_text, value.descriptors)))
        elif isinstance(value, Moved):
            parts.append(f"moved to {descriptor_text(value.fork)}{_way(value.path)}")
        elif value == field.default or (field.name == "settled" and value == usual):
            pass
        elif value is True:
            parts.append(field.name)
        elif isinstance(value, tuple) and not isinstance(value, RRefId | ForkId | CallId):
            parts.append(f"{field.name}=[{listed(map(_item, value))}]")
        else:
            parts.append(f"{field.name}={value}")
    return f"{type(message).__name__}({', '.join(parts)})"


def descriptor_text(descriptor: Descriptor) -> str:
    """``B/1 as fork A/1``, ``B/1 lent as fork A/1``, ``B/1 back as fork A/1``."""
    how = {Passing.FORK: "", Passing.LOAN: "lent ", Passing.BACK: "back "}[descriptor.passing]
    counted = " (counted)" if descriptor.counted and descriptor.passing is Passing.LOAN else ""
    named = f", called {descriptor.name}" if descriptor.name is not None else ""
    return f"{descriptor.rref} {how}as fork {descriptor.fork}{counted}{named}"


def _way(path: tuple[RRefId, ...]) -> str:
    """The path of an alias to its canonical object; empty if nothing is in between."""
    return f" by way of {listed(map(str, path[:-1]))}" if path[:-1] else ""


def _item(value: object) -> str:
    """One item of a message's field."""
    match value:
        case Report(rref=rref, fork=fork, held=held, borrowers=borrowers):
            return f"{rref} by fork {fork} {'held' if held else 'returned'}{_table(borrowers)}"
        case Delete(rref=rref, forks=forks, borrowers=borrowers):
            return f"{rref} by fork {' and '.join(map(str, forks))}{_table(borrowers)}"
        case Hop(run=run, call=call):
            return f"{run} for {call}"
        case Grip(rref=rref, by=by, others=others):
            holders = [*map(str, by), *map(_item, others)]
            return f"{rref} by {' and '.join(holders) or 'nobody'}"
        case (RRefId() as rref, ForkId() as fork):
            return f"{rref} by fork {fork}"
        case (ForkId() as fork, WorkerId() as worker):
            return f"{fork} of {worker}"
        case _:
            return str(value)


def _table(borrowers: tuple[tuple[ForkId, WorkerId], ...]) -> str:
    return f"; borrowers {' and '.join(map(_item, borrowers))}" if borrowers else ""


def request_name(request: Request | Resume) -> str:
    """A request under its command's name: ``fetch C/1 on A/1``."""
    match request:
        case Resume(call=call):
            return f"{call}, which goes on"
        case Call(call=call):
            return f"call {call}"
        case Create(rref=rref, target=None):
            return f"the creation of {rref}"
        case Create(rref=rref, target=target):
            return f"the creation of {rref} on {target}"
        case Invoke(call=call, rref=rref):
            return f"invoke {call} on {rref}"
        case Fetch(call=call, rref=rref):
            return f"fetch {call} of {rref}"
        case _:
            assert_never(request)


def cargo_text(cargo: Cargo) -> str:
    """The user's content of a message."""
    return (
        listed([*_payload_text(cargo), *(str(d.rref) for d in cargo.descriptors)])
        or "an empty message"
    )


def _payload_text(cargo: Cargo) -> list[str]:
    """The payload in words, if it has any."""
    text = "" if cargo.payload is None else str(cargo.payload)
    return [text] if text else []


# ---- effects


def effect_text(me: WorkerId, effect: Effect) -> str:
    """One effect at the endpoint *me*, as one line."""
    match effect:
        case Send(to=to, message=message):
            return f"{me} -> {to}  {message_text(message)}"
        case Run(request=request):
            return f"{me} runs {request_name(request)}"
        case Resume(call=call):
            return f"{me} lets {call} go on"
        case Refuse(request=request, why=why, ring=ring):
            waits = f" ({listed(map(_item, ring))})" if ring else ""
            return f"{me} refuses {request_name(request)}: {why.value}{waits}"
        case Look(run=run):
            return f"{me} looks for the call that {run} waits for"
        case Hand(sender=sender, message=message):
            return f"{me} gets {cargo_text(message.cargo)} from {sender}"
        case Settle(reply=reply):
            inside = f", with {cargo_text(reply.cargo)}" if reply.cargo != Cargo() else ""
            return f"{me} gets the reply to {reply.call}{inside}"
        case Fail(call=call, worker=worker, rref=rref):
            lost = f", and {rref} with it" if rref is not None else ""
            return f"{me} gets no reply to {call}: {worker} died{lost}"
        case Stop(call=call):
            return f"{me} is to end call {call}, unless a plain function runs it"
        case Unstopped(call=call):
            return f"{me} is told that {call} goes on"
        case Confirmed(rref=rref):
            return f"{me} is confirmed as a user of {rref}"
        case Lose(rref=rref, why=why):
            no_more = "no value of it can come any more"
            return f"{me} gives up {rref}: {no_more if why is Loss.CREATOR else why.value}"
        case Free(rref=rref):
            return f"{me} frees {rref}"
        case Scan(asker=asker, look=look, rrefs=rrefs, exact=exact):
            what, how = ", ".join(map(str, rrefs)), " exactly" if exact else ""
            return f"{me} searches its values{how} for {what}, for look {look} of {asker}"
        case Collect(rref=rref):
            return f"{me} collects {rref}: it drops the value"
        case Weigh(start=start):
            return f"{me} weighs the answers of its search from {start}"
        case Looked(start=start, garbage=()):
            return f"{me} finds no garbage at {start}"
        case Looked(garbage=garbage):
            return f"{me} finds garbage: {'; and '.join(map(_garbage, garbage))}"
        case _:
            assert_never(effect)


def _garbage(found: Garbage) -> str:
    what, ring = ", ".join(map(str, found.objects)), " -> ".join(map(str, found.ring))
    return f"{what}; a ring is {ring}" if ring else what


# ---- tables


def table_lines(context: Context) -> list[str]:
    """The tables of an endpoint, one entry a line."""
    me = context.me
    lines = [owner_text(me, owner) for owner in context.owners.values()]
    lines += [user_text(me, user) for user in context.users.values()]
    lines += [name_text(me, *each) for each in context.state.names.items()]
    for rref, held in context.state.held.items():
        lines += [
            f"{me} holds back, on {rref}: {message_text(each.message)}" for each in held.values()
        ]
    lines += [
        f"{me} waits for {waiting.to} to answer {call}{_for_whom(waiting)}"
        for call, waiting in context.waiting.items()
    ]
    return lines or [f"{me} (nothing)"]


def number_of_lines(context: Context) -> int:
    """The number of `table_lines`, without the cost of writing them."""
    held = sum(map(len, context.state.held.values()))
    entries = len(context.owners) + len(context.users) + len(context.state.names)
    return entries + held + len(context.waiting) or 1


def owner_text(me: WorkerId, owner: Owner) -> str:
    """``B owns A/1: resolved; known fork A/1 of A``."""
    stage = "resolved" if owner.resolved else "created" if owner.created else "placeholder"
    parts = [
        stage if owner.alias is None else _alias_text(owner.alias),
        f"label {owner.label}" if not owner.located and owner.label != owner.rref else "",
        _counted("handle", owner.handles),
        _counted("message", owner.messages),
        _each("known fork", (f"{fork} of {to}" for fork, to in owner.forks.items())),
        _each("lent", (f"{fork} to {to}" for fork, to in owner.lent.items())),
        _each("unanswered", map(str, sorted(owner.pending))),
        "busy" if owner.running else "",
        "not serial" if not owner.serial else "",
        _each("aside", map(str, sorted(owner.aside))),
        _each("queue", (request_name(request) for _, request in owner.queue.values())),
        _each("aliases", (f"{alias} of {who}" for alias, who in owner.aliases.items())),
        _each("to be told", (f"{who} for {call}" for call, who in owner.asking.items())),
    ]
    return f"{me} owns {owner.rref}: {'; '.join(filter(None, parts))}"


def _alias_text(alias: Alias) -> str:
    """``alias of B/1``, and the canonical object of the chain."""
    if alias.canonical is None:
        return f"alias of {alias.target}"
    return f"alias of {alias.canonical}, known to have a value{_way(alias.path)}"


def name_text(me: WorkerId, rref: RRefId, name: Name) -> str:
    """``A calls C/1 A/1: 1 handle; 1 request``."""
    counted = (_counted("handle", name.handles), _counted("request", name.requests))
    return f"{me} calls {name.canonical} {rref}: {'; '.join(filter(None, counted))}"


def _for_whom(waiting: Waiting) -> str:
    """The original asker of a request that was passed on."""
    relay = waiting.relay
    return f", passed on from {request_name(relay.request)}" if relay is not None else ""


def user_text(me: WorkerId, user: User) -> str:
    """``C uses A/1 of B: 1 handle; requested A/2; owed A/2 to A``."""
    lent = user.lent
    parts = [
        "lost" if user.lost else "",
        _counted("handle", user.handles),
        _counted("message", user.messages),
        _each("known fork", map(str, sorted(user.known))),
        *(_loan_text(fork, loan) for fork, loan in user.loans.items()),
        *(_borrower_parts(user) if isinstance(user, BorrowingUser) else ()),
        "" if user.requested is None else f"{_asking(user)} {user.requested}",
        _each("owed", (f"{fork} to {parent}" for fork, parent in user.owed.items())),
        _each("pinned child", (f"{f} at {to}" for f, to in user.children.items() if f not in lent)),
        _each("lent", (f"{f} to {user.children[f]}{_acked(ack)}" for f, ack in lent.items())),
        _each("unanswered", map(str, sorted(user.pending))),
    ]
    return f"{me} uses {user.rref} of {user.owner}: {'; '.join(filter(None, parts))}"


def _loan_text(fork: ForkId, loan: Loan) -> str:
    who = "the dead" if loan.lender is None else loan.lender
    return f"loan {fork} of {who}{' (counted)' if loan.counted else ''}"


def _borrower_parts(user: BorrowingUser) -> Iterator[str]:
    yield "" if user.guardian is None else f"guardian {user.guardian}"
    yield _each("reported", map(str, sorted(user.reported)))
    yield _each("borrower", map(_item, user.borrowers.items()))


def _asking(user: User) -> str:
    return "announced" if isinstance(user, BorrowingUser) and user.announcing else "requested"


def _acked(acknowledged: bool) -> str:
    return " (acknowledged)" if acknowledged else ""


def _counted(noun: str, count: int) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}" if count else ""


def _each(label: str, items: Iterable[str]) -> str:
    text = listed(items)
    return f"{label} {text}" if text else ""
