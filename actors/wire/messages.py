"""What Thespian carries for us: envelopes between endpoints, and the registrar's messages.

Everything here is inert: plain data that may be pickled again, later, or not at all. The
framework turns every message into a string, twice per send, at any log level; a constant
``__str__`` keeps that from costing more the larger the message is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from thespian.actors import ActorAddress

from ...protocol.dead import Span
from ...protocol.ids import RRefId, WorkerId
from ...protocol.wellformed import check
from ...serialization.failures import Failure
from ...serialization.payload import Payload
from .faults import Counts, Faults
from .settings import Settings


class WorkerInfo(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """Who an endpoint is and how to reach it. Equal and hashable by its id."""

    id: WorkerId
    """Its name and an incarnation: another worker of that name has another id."""
    address: ActorAddress
    """Thespian's, for `RefActor.send` and `System.tell`."""

    @property
    def name(self) -> str:
        """The name that people gave it."""
        return self.id.name

    def __reduce__(self) -> tuple[type[WorkerInfo], tuple[WorkerId, ActorAddress]]:
        return WorkerInfo, (self.id, self.address)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkerInfo) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return self.id.name

    def __repr__(self) -> str:
        return f"WorkerInfo({self.id.name!r})"


@dataclass(frozen=True, slots=True)
class HostInfo:
    """One host of a system: how others reach it, and what its Thespian system is capable of."""

    address: str
    """Numeric; empty if the system has one host only, and no others can join."""
    capabilities: dict[str, Any]
    """Those of its Thespian system, by name; by these workers are placed."""

    def fits(self, on: str | dict[str, Any]) -> bool:
        """Whether *on* is this host's address, or capabilities that it all has."""
        if isinstance(on, str):
            return on == self.address
        nothing = object()
        return all(self.capabilities.get(name, nothing) == wanted for name, wanted in on.items())

    def __str__(self) -> str:
        return self.address or "(this host)"


class ReplyAddress(ActorAddress):
    """The address of an endpoint that waits in `ask`: what is sent there answers that ask.

    It is the ``sender`` that a handler sees; kept, or passed on to another actor, it still
    answers the same question, so a late answer can never be taken for that of the next ask.
    """

    def __init__(self, address: ActorAddress, ask: int) -> None:
        super().__init__(address.addressDetails)
        self.ask = ask


@dataclass(frozen=True, slots=True)
class Envelope:
    """Endpoint -> endpoint: one packet of the conversation between two incarnations."""

    sender: WorkerInfo
    to: WorkerId
    packet: bytes
    """As `protocol.packets` encodes it."""
    payloads: tuple[object, ...] = ()
    """What of the user's is in its messages."""
    peers: tuple[WorkerInfo, ...] = ()
    """Borrowers that the packet names, and how they are reached: the receiver may not know them."""

    def __reduce__(self) -> tuple[type[Envelope], tuple[object, ...]]:
        return Envelope, (self.sender, self.to, self.packet, self.payloads, self.peers)

    def __str__(self) -> str:
        return "Envelope"


@dataclass(frozen=True, slots=True)
class Nudge:
    """Endpoint -> itself: look at what other threads left for you."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """Creator -> its new `RefActor`: who you are, and where the registrar is."""

    me: WorkerId
    registrar: ActorAddress
    settings: Settings
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """Endpoint -> registrar: I am here; *pid* is watched if I am a program.

    An endpoint whose creator has told it no number has 0, and gets one with the answer.
    *beats*: I shall be heard of again and again (those of the in-process base only run while
    their program calls in). *host*: those with the same can see my process; *place*: the address
    of the host that I am on, and die with.
    """

    me: WorkerId
    pid: int
    host: str
    program: bool = False
    beats: bool = True
    place: str = ""


@dataclass(frozen=True, slots=True)
class Beat:
    """Endpoint -> registrar: I am here still. Are you (*answer*)?"""

    me: WorkerId
    answer: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """Registrar -> endpoint: I am, too."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Registrar -> endpoint: who you are, how you are reached, what the system agreed on.

    *dead* are the numbers of those who were dead and buried before, *dying* those who died lately.
    *pids*: the processes of the receiver's own host without which there is no system; *answered*:
    it cannot see them, and its beats will be answered.
    """

    me: WorkerId
    address: ActorAddress
    settings: Settings
    dead: tuple[Span, ...]
    dying: tuple[WorkerId, ...]
    session: int
    pids: tuple[int, ...] = ()
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """Endpoint -> registrar: I end now. If my number is 0, you know me by my address."""

    me: WorkerId


@dataclass(frozen=True, slots=True)
class Open:
    """Starting program -> registrar: the settings, and the process that the system lives for."""

    settings: Settings
    pid: int


@dataclass(frozen=True, slots=True)
class Spawn:
    """Program -> registrar: create an actor of this pickled class.

    On a host that fits *on*; if it is None, on one that fits the class: at best at *near*, the
    address of the host of whoever asks.
    """

    token: int
    actor_class: bytes
    name: str
    requirements: dict[str, Any] | None
    threads: int | None
    on: str | dict[str, Any] | None = None
    near: str = ""


@dataclass(frozen=True, slots=True)
class Spawned:
    """Registrar -> program: the actor joined (*info*), or why it did not."""

    token: int
    info: WorkerInfo | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Endpoint -> registrar: who is this? By name, or by address; None asks for all.

    *hosts*: which hosts are there?
    """

    token: int
    name: str | None = None
    address: ActorAddress | None = None
    hosts: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Registrar -> endpoint: those who match, and whether the address was one of the dead."""

    token: int
    workers: tuple[WorkerInfo, ...]
    dead: bool = False
    hosts: tuple[HostInfo, ...] = ()
    host: str = ""
    """Of a single one, as in `Join`: whether it can see the process of whoever asks."""


@dataclass(frozen=True, slots=True)
class Down:
    """Registrar -> everybody on another host: the system ends; in order, or its program died."""

    reason: str
    orderly: bool


@dataclass(frozen=True, slots=True)
class Serve:
    """Joining program -> steward: have this host join. *pid* is watched, if it is the first."""

    pid: int


@dataclass(frozen=True, slots=True)
class Serving:
    """Steward -> joining program: *registrar* knows this host now.

    *owner* is the program that it lives for, *session* that of its processes, without *pids* of
    which it is nothing.
    """

    registrar: ActorAddress
    owner: int
    session: int
    pids: tuple[int, ...]
    refused: str = ""
    """Why this host may not join, if it may not."""


@dataclass(frozen=True, slots=True)
class HostJoin:
    """Steward -> registrar: this host is here, and *me* stands for it."""

    me: WorkerId
    info: HostInfo


@dataclass(frozen=True, slots=True)
class HostJoined:
    """Registrar -> steward: what the system agreed on."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Make:
    """Registrar -> steward: create *me*, an actor of this pickled class, if it fits your host."""

    me: WorkerId
    actor_class: bytes
    requirements: dict[str, Any] | None
    threads: int | None


@dataclass(frozen=True, slots=True)
class Unmade:
    """Steward -> registrar: *me* was not created, or has exited. Another host may fit (*unfit*)."""

    me: WorkerId
    reason: str
    unfit: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Registrar -> steward: nothing is heard of *me*; does its process run?"""

    me: WorkerId
    pid: int


@dataclass(frozen=True, slots=True)
class Looked:
    """Steward -> registrar: whether it does, and is not stopped."""

    me: WorkerId
    running: bool


@dataclass(frozen=True, slots=True)
class Mint:
    """Endpoint -> registrar: I create an actor of this name; which number shall it have?"""

    token: int
    name: str


@dataclass(frozen=True, slots=True)
class Minted:
    """Registrar -> endpoint: the id of the actor that it creates."""

    token: int
    me: WorkerId


@dataclass(frozen=True, slots=True)
class Exited:
    """Parent -> registrar: my child at this address has exited; *me*, if I told it who it is."""

    address: ActorAddress
    me: WorkerId | None = None
    cause: str = ""
    """How it ended, if the parent knows; see `children`."""


@dataclass(frozen=True, slots=True)
class Died:
    """Registrar -> every endpoint: these incarnations are dead."""

    workers: tuple[WorkerId, ...]
    cause: str = ""
    """How they ended, if anybody knows."""


@dataclass(frozen=True, slots=True)
class Meddle:
    """Test -> endpoint: have these faults from now on, and tell what became of your packets.

    No packet itself, so it arrives whatever is lost on the links.
    """

    token: int
    asker: ActorAddress
    faults: Faults | None = None
    """Instead of those it has."""
    cut: tuple[str, ...] = ()
    heal: tuple[str, ...] = ()
    """Names of endpoints, the link to which is cut or healed."""


@dataclass(frozen=True, slots=True)
class Meddled:
    """Endpoint -> test: done; and these are the counts so far."""

    token: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Inspect:
    """Program -> endpoint: what do you know of references? Answered beside the user's code.

    With *about*: why do you hold that one? Without *rows*: what have you counted?
    """

    token: int
    asker: ActorAddress
    about: RRefId | None = None
    rows: bool = True


@dataclass(frozen=True, slots=True)
class Inspected:
    """Endpoint -> program: its `ReferenceInfo`s and `Counters`, or of one reference `Holding`s."""

    token: int
    rows: tuple[Any, ...] = ()
    counters: Any = None
    holdings: tuple[Any, ...] = ()
    error: str = ""
    """Why there are none."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Viewer -> endpoint: tell me your steps from now on; or (not *on*) no more.

    Said again after each `Traced`, with its number: only then comes the next.
    """

    viewer: WorkerInfo
    on: bool = True
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Traced:
    """Endpoint -> viewer: my steps since the last one, as lines (see `tracing`)."""

    worker: WorkerId
    number: int
    lines: str


TO_ENDPOINTS = (
    *(Envelope, Found, Spawned, Minted, Died, Heard, Down, Meddle, Meddled),
    *(Inspect, Inspected, Watch, Traced),
)
"""What an endpoint takes once it has joined: see `Core.takers`."""
TO_SHELLS = (Nudge, Welcome, Joined, Serving)
"""What its mailbox, or the program's port, takes for itself; the rest is the user's."""
TO_REGISTRAR = (
    *(Join, Beat, Leave, Open, Spawn, Lookup, Mint, Exited),
    *(HostJoin, Unmade, Looked),
)
TO_STEWARD = (Serve, HostJoined, Make, Look, Heard, Died, Down)

ALL = frozenset(TO_ENDPOINTS + TO_SHELLS + TO_REGISTRAR + TO_STEWARD)


def check_wire(message: object) -> None:
    """Raise `ProtocolError` unless *message*, one of these, is right in every field.

    A packet is looked at when it is decoded, a payload when its message takes effect.
    """
    check(message, ALL, "message of farref's")


def check_payload(payload: object) -> None:
    """Raise `ProtocolError` if *payload*, of an envelope, is one of ours and not what one is."""
    if isinstance(payload, Payload | Failure):
        check(payload, (Payload, Failure), "payload")
    if isinstance(payload, Payload):
        for peer in payload.peers:
            check(peer, (WorkerInfo,), "introduction")
