"""Why one endpoint holds one reference: protocol tables, messages on their way, variables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from ...protocol.borrowing import BorrowingUser
from ...protocol.bulk import apart
from ...protocol.effects import Resume
from ...protocol.ids import ForkId, RRefId
from ...protocol.messages import (
    Ack,
    AliasGone,
    AliasRef,
    Bulk,
    Canonical,
    ChildAck,
    Delete,
    ForkRequest,
    Message,
)
from ...protocol.owner import Owner
from ...protocol.user import User
from ..core.core import Core
from ..core.delivery import Delivery
from ..handles.rref import RRef
from ..recording.tracing import spell
from ..values.objects import Objects
from .retaining import retaining

_CONTROL = (Ack, AliasGone, AliasRef, Canonical, ChildAck, Delete, ForkRequest)


class Holding(msgspec.Struct, frozen=True):
    """One reason for which an endpoint holds a reference. Ids are in full.

    ============  ========================================================================
    kind          the reference is held by
    ============  ========================================================================
    global        a module's variable, or an object that it leads to
    attribute     the actor's attribute, or an object that it leads to
    local, task   a variable of a running function, or of a coroutine that waits
    internal      a variable of a library, such as the arguments of a running call
    object        the value of another object, *rref*, which lives here
    garbage       no variable: it is garbage, or held by a library's C code
    unfound       an unknown holder: the search reached its limits
    message       messages that came, and have not been handled
    serving       a request of *worker*'s with the reference in it, which waits or runs here
    pending       requests made here on it, that *worker* has not answered
    request       a request on it, which waits here (*worker* sent it) or runs here
    fork, lent    the owner: it counts *worker*, for good or for a call
    pin           a pin: it was passed on to *worker*, which the owner has not confirmed yet (G2)
    loan          a loan to *worker* for a call that is not answered
    asked         a request: *worker*, the owner, has not confirmed this endpoint yet
    table         the loan *fork* to *worker*, made here or further down; the owner will hear of it
    alias         the alias *rref*, which lives here and stands for it
    placeholder   its creation: other endpoints have heard of it, this one has not
    flight        (not a hold) a message about it that *worker* has not acknowledged
    stream        (not a hold) somebody iterates over it: how far, and what it waits for
    ============  ========================================================================
    """

    kind: str
    text: str = ""
    """The variable and the path on from it, or the kind of message."""
    where: str = ""
    """``file:line in function``, or a module's file."""
    worker: str = ""
    rref: str = ""
    fork: str = ""
    age: float | None = None
    """Seconds since the fork or request was made here. For `asked` with a fork from elsewhere:
    since this endpoint heard of the reference."""
    count: int = 1


def holdings_of(core: Core, objects: Objects, delivery: Delivery, rref: RRefId) -> list[Holding]:
    """All reasons for which an endpoint holds *rref*. Takes up to some seconds. Any thread."""
    with core.lock:
        context = core.context
        entry = context.owners.get(rref) or context.users.get(rref)
        if entry is None:
            return list(_flights(core, delivery, rref))
        found = [*_tables(core, entry), *_flights(core, delivery, rref)]
        aliases = context.aliases.standing().get(rref, [])
        found += [Holding("alias", rref=spell(alias)) for alias in aliases]
        count = entry.handles - len(aliases)
    if count > 0:
        found += _handles(core, objects, rref, count)
    return found


def _handles(core: Core, objects: Objects, rref: RRefId, count: int) -> Iterator[Holding]:
    context = core.context

    def wanted(ref: RRef[Any]) -> bool:
        return rref in (ref.id, context.whereabouts(ref.id))

    found = retaining(core, objects, wanted, count)
    for way in found.ways:
        root = way.root
        if root.kind == "object":
            yield Holding("object", way.text, rref=spell(root.owned) if root.owned else "")
        else:
            yield Holding(root.kind, way.text, root.where)
    for text in found.unnamed:
        yield Holding("garbage", text)
    if found.missing > 0:
        cut = "" if found.complete else "the search was cut short"
        yield Holding("unfound", cut, count=found.missing)


def _tables(core: Core, entry: Owner | User) -> Iterator[Holding]:
    """The reasons in the protocol's tables. Under the endpoint's lock."""
    context, now, rref = core.context, time.monotonic(), entry.rref

    def age(fork: ForkId) -> float | None:
        return core.ages.of_fork(fork.number, now) if fork.parent == core.me else None

    brought = context.loans.served(rref)
    for call in brought:
        yield Holding("serving", spell(call), worker=spell(call.caller))
    if entry.messages > len(brought):
        yield Holding("message", count=entry.messages - len(brought))
    asked = [call for call in entry.pending if call in context.waiting]
    if asked:
        oldest = max(core.ages.of_call(call.number, now) for call in asked)
        to = context.waiting[asked[0]].to
        yield Holding("pending", worker=spell(to), age=oldest, count=len(asked))
    lent: Any = getattr(entry, "lent", {})
    if isinstance(entry, Owner):
        stream = core.front.pulls.streams().get(rref)
        if stream is not None:
            yield Holding("stream", str(stream), count=stream.items)
        if entry.running:
            yield Holding("request", "runs on it")
        for call in entry.aside:
            what = "awaits" if entry.serial else "runs on it"
            yield Holding("request", what, worker=spell(call.caller))
        for sender, request in entry.queue.values():
            if isinstance(request, Resume):
                continue  # it is one of those that await
            yield Holding(
                "request", f"{type(request).__name__} waits for its turn", "", spell(sender)
            )
        if not entry.created:
            yield Holding("placeholder", worker=spell(rref.creator))
        for fork, worker in entry.forks.items():
            kind = "lent" if fork in lent else "fork"
            yield Holding(kind, worker=spell(worker), fork=spell(fork), age=age(fork))
        return
    for fork, worker in entry.children.items():
        kind = "loan" if fork in lent else "pin"
        yield Holding(kind, worker=spell(worker), fork=spell(fork), age=age(fork))
    if entry.requested is not None:
        fork = entry.requested
        waited = age(fork)
        yield Holding(
            "asked",
            worker=spell(entry.owner),
            fork=spell(fork),
            age=max(0.0, now - entry.born) if waited is None else waited,
        )
    if isinstance(entry, BorrowingUser):
        for fork, worker in entry.borrowers.items():
            yield Holding("table", worker=spell(worker), fork=spell(fork))


def _flights(core: Core, delivery: Delivery, rref: RRefId) -> Iterator[Holding]:
    """Unacknowledged messages about *rref*. Under the endpoint's lock."""
    now = time.monotonic()
    for to, whole in delivery.links.waiting():
        for message in apart(whole) if isinstance(whole, Bulk) else (whole,):
            for fork in _forks_in(message, rref):
                name, age = "", None
                if fork is not None:
                    name = spell(fork)
                    age = core.ages.of_fork(fork.number, now) if fork.parent == core.me else None
                kind = type(message).__name__
                yield Holding("flight", kind, worker=spell(to), fork=name, age=age)


def _forks_in(message: Message, rref: RRefId) -> Iterator[ForkId | None]:
    cargo = getattr(message, "cargo", None)
    for descriptor in getattr(cargo, "descriptors", ()):
        if descriptor.rref == rref:
            yield descriptor.fork
    if isinstance(message, _CONTROL) and message.rref == rref:
        yield getattr(message, "fork", None)
