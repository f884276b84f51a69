"""All knowledge of one endpoint, as plain data. `Context` composes its readers and writers.

Tables are filled and emptied in place and never replaced, so a shell may keep a table to read it.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from .alias import Alias
from .creations import Asked, Seen
from .dead import Dead
from .effects import Effect, Send
from .ids import CallId, RRefId, WorkerId
from .messages import Cargo, Descriptor, Fetch, Invoke, Probe
from .owner import Owner
from .search import Search
from .sharing import Discipline
from .user import User

NOTHING = Cargo()


class Waiting(msgspec.Struct, frozen=True):
    """A call that this endpoint made: its receiver, its object, and its loans."""

    to: WorkerId
    rref: RRefId | None
    loans: tuple[Descriptor, ...] = ()
    fetch: Fetch | None = None
    """The fetch to repeat where the value is, if the value turns out to be elsewhere."""
    relay: Relay | None = None
    """The request that this call passes on, if it is not this endpoint's own."""
    by: object = None
    """Who waits for the answer: the shell's record, of which the machines know nothing."""


class Relay(msgspec.Struct, frozen=True):
    """A request on an alias that its owner passed on: its sender, and the alias."""

    sender: WorkerId
    request: Fetch | Invoke
    alias: RRefId


class Name(msgspec.Struct, eq=False):
    """The canonical object behind an alias's handles here, and behind requests made on them."""

    canonical: RRefId
    path: tuple[RRefId, ...]
    """From the alias's target, alias by alias, to the canonical object."""
    handles: int = 0
    """How many of the canonical object's handles here have this name."""
    requests: int = 0
    """How many unanswered requests went to the canonical object under this name."""


class Tables(msgspec.Struct, eq=False):
    """The tables of the endpoint *me*, which shares in calls by *discipline*."""

    me: WorkerId
    discipline: Discipline
    now: float = 0.0
    """The time by the shell's clock, to tell the age of an entry."""
    owners: dict[RRefId, Owner] = {}
    """The objects that live here."""
    users: dict[RRefId, User] = {}
    """The objects that live elsewhere and are used here."""
    waiting: dict[CallId, Waiting] = {}
    """The calls of this endpoint that are not answered yet."""
    dead: Dead = msgspec.field(default_factory=Dead)
    buried: Dead = msgspec.field(default_factory=Dead)
    """The dead that hold nothing any more: the grace after their deaths is over."""
    causes: dict[WorkerId, str] = {}
    """How workers died, for errors: those that died lately, and those that owned an object that is
    used here."""
    asked: dict[WorkerId, Asked] = {}
    seen: dict[WorkerId, Seen] = {}
    rrefs: int = 0
    forks: int = 0
    calls: int = 0
    serving: dict[CallId, tuple[Descriptor, ...]] = {}
    """Requests that run or wait here: the references in each."""
    names: dict[RRefId, Name] = {}
    """For each known alias, the canonical object behind its handles and requests here."""
    named: dict[CallId, RRefId] = {}
    """Unanswered requests that went to a canonical object, each with the name of its handle."""
    asking: dict[CallId, RRefId] = {}
    """Unanswered `AliasRef`s, each with its alias. No request has to wait for them."""
    held: dict[RRefId, OrderedDict[CallId, Send]] = {}
    """Requests on a handle that wait for earlier ones on it, by the name of the handle."""
    held_calls: dict[CallId, RRefId] = {}
    """The calls of all these requests, each with that name."""
    freed: dict[RRefId, None] = {}
    """Handles with held requests of which some may leave now, at the end of the step."""
    fetching: dict[RRefId, CallId] = {}
    """Direct fetches under way; all later requests on the handle wait for them."""
    creating: dict[RRefId, tuple[RRefId, CallId]] = {}
    """Objects being created by a method call: the object it is called on, and its pin there."""
    making: dict[RRefId, CallId] = {}
    """Objects that are being made here, and the request that makes each."""
    aliases: dict[RRefId, Alias] = {}
    """The aliases that live here, and those that are gone but still expect an answer."""
    passed_on: dict[RRefId, tuple[RRefId, tuple[Effect, ...]]] = {}
    """Creations passed on: the alias of each, and the acknowledgements that wait for it."""
    relayed: dict[CallId, CallId] = {}
    """Other requests passed on: the caller's id of each, and our own id."""
    looking: dict[CallId, Probe] = {}
    """Probes that wait, within a step, for the shell to tell what a request waits for."""
    searches: dict[RRefId, Search] = {}
    """The searches for garbage in cycles that this endpoint makes, by the object suspected."""
    looks: int = 0
    """The number of looks that it has asked for."""

    def holder(self, owner: Owner) -> CallId | None:
        """The request that runs on the object of *owner*, or makes it."""
        return owner.running or self.making.get(owner.rref)
