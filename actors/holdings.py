"""Why one endpoint holds one reference: its protocol tables, messages on their way, variables."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..protocol.borrowing import BorrowingUser
from ..protocol.messages import Ack, AliasGone, AliasRef, Canonical, ChildAck, Delete, ForkRequest
from ..protocol.owner import Owner
from .retaining import retaining
from .tracing import spell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..protocol.ids import ForkId, RRefId
    from ..protocol.messages import Message
    from ..protocol.user import User
    from .endpoint import Endpoint
    from .rref import RRef

_CONTROL = (Ack, AliasGone, AliasRef, Canonical, ChildAck, Delete, ForkRequest)


@dataclass(frozen=True, slots=True)
class Holding:
    """One reason for which an endpoint holds a reference. Ids are spelled in full.

    ============  ========================================================================
    kind          the reference is held by
    ============  ========================================================================
    global        a module's variable, or something that it leads to
    attribute     the actor's attribute, or something that it leads to
    local, task   a variable of a running function, or of a coroutine that waits
    internal      a variable of a library's, such as the arguments of a call that runs
    object        the value of the object *rref*, which lives here
    garbage       something that no variable leads to: garbage, or a library's C code
    unfound       something that a bounded search did not come to
    message       messages that came, and have not been handled
    serving       a request of *worker*'s that brought it, and waits or runs here
    pending       requests made here on it, that *worker* has not answered
    request       requests of *worker*'s on it, that wait or run here
    fork, lent    the owner counts *worker*, for good or for a call
    pin           it was passed on to *worker*, whom the owner has not confirmed yet (G2)
    loan          it was lent to *worker* for a call that is not answered
    asked         *worker*, the owner, has not confirmed this endpoint yet
    table         *worker* borrowed it from here, for the owner to learn of
    alias         the alias *rref*, which lives here, stands for it
    placeholder   its creation, of which others have heard, and this endpoint has not
    flight        (not a hold) a message about it that *worker* has not acknowledged
    ============  ========================================================================
    """

    kind: str
    text: str = ""
    """The variable and what leads on from it, or the kind of message."""
    where: str = ""
    """``file:line in function``, or a module's file."""
    worker: str = ""
    rref: str = ""
    fork: str = ""
    age: float | None = None
    """Seconds since the fork or request was made, if it was made here."""
    count: int = 1


def holdings_of(endpoint: Endpoint, rref: RRefId) -> list[Holding]:
    """Everything for which *endpoint* holds *rref*. Takes up to some seconds; in any thread."""
    with endpoint.lock:
        context = endpoint.context
        entry = context.owners.get(rref) or context.users.get(rref)
        if entry is None:
            return list(_flights(endpoint, rref))
        found = [*_tables(endpoint, entry), *_flights(endpoint, rref)]
        aliases = context.aliases.standing_for(rref)
        found += [Holding("alias", rref=spell(alias)) for alias in aliases]
        count = entry.handles - len(aliases)
    if count > 0:
        found += _handles(endpoint, rref, count)
    return found


def _handles(endpoint: Endpoint, rref: RRefId, count: int) -> Iterator[Holding]:
    context = endpoint.context

    def wanted(ref: RRef[Any]) -> bool:
        return rref in (ref.id, context.whereabouts(ref.id))

    found = retaining(endpoint, wanted, count)
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


def _tables(endpoint: Endpoint, entry: Owner | User) -> Iterator[Holding]:
    """What the machines know. Under the endpoint's lock."""
    context, now, rref = endpoint.context, time.monotonic(), entry.rref

    def age(fork: ForkId) -> float | None:
        return endpoint.mints.age_of_fork(fork.number, now) if fork.parent == endpoint.me else None

    brought = context.loans.served(rref)
    for call in brought:
        yield Holding("serving", spell(call), worker=spell(call.caller))
    if entry.messages > len(brought):
        yield Holding("message", count=entry.messages - len(brought))
    asked = [call for call in entry.pending if call in context.waiting]
    if asked:
        oldest = max(endpoint.mints.age_of_call(call.number, now) for call in asked)
        to = context.waiting[asked[0]].to
        yield Holding("pending", worker=spell(to), age=oldest, count=len(asked))
    lent: Any = getattr(entry, "lent", {})
    if isinstance(entry, Owner):
        if entry.running:
            yield Holding("request", "runs on it")
        for sender, request in entry.queue:
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


def _flights(endpoint: Endpoint, rref: RRefId) -> Iterator[Holding]:
    """Messages about it that have not been acknowledged. Under the endpoint's lock."""
    now = time.monotonic()
    for to, message in endpoint.delivery.waiting():
        for fork in _forks_in(message, rref):
            mine = fork is not None and fork.parent == endpoint.me
            yield Holding(
                "flight",
                type(message).__name__,
                worker=spell(to),
                fork="" if fork is None else spell(fork),
                age=endpoint.mints.age_of_fork(fork.number, now)
                if fork is not None and mine
                else None,
            )


def _forks_in(message: Message, rref: RRefId) -> Iterator[ForkId | None]:
    cargo = getattr(message, "cargo", None)
    for descriptor in getattr(cargo, "descriptors", ()):
        if descriptor.rref == rref:
            yield descriptor.fork
    if isinstance(message, _CONTROL) and message.rref == rref:
        yield getattr(message, "fork", None)
