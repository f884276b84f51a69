"""The messages that Thespian carries for farref: envelopes, and the registrar's messages.

All of them are inert: plain data that may be pickled again, later, or not at all. The framework
turns every message into a string, twice per send, at any log level. A constant ``__str__`` makes
that cost the same for a message of any size.
"""

from __future__ import annotations

from typing import Any

import msgspec
from thespian.actors import ActorAddress

from ...protocol.dead import Span
from ...protocol.errors import ProtocolError
from ...protocol.ids import RRefId, WorkerId
from ...protocol.wellformed import check
from ...serialization.errors import Failure
from ...serialization.payload import Payload
from ..base import addresses
from .faults import Counts, Faults
from .settings import Settings


class WorkerInfo(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """The id and the address of an endpoint. Equal and hashable by the id."""

    id: WorkerId
    """Its name and its incarnation: another worker of the same name has another id."""
    address: ActorAddress
    """Thespian's address, for `RefActor.send` and `System.tell`."""

    @property
    def name(self) -> str:
        """The name that people gave it."""
        return self.id.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkerInfo) and self.id == other.id

    def __ne__(self, other: object) -> bool:  # msgspec's own compares the objects
        return not self == other

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return self.id.name

    def __repr__(self) -> str:
        return f"WorkerInfo({self.id.name!r})"


class HostInfo(msgspec.Struct, frozen=True):
    """One host of a system: its address, and the capabilities of its Thespian system."""

    address: str
    """The address that others dial, with its port if that is not the default one; empty if the
    system has one host only, and no others can join."""
    capabilities: dict[str, Any]
    """The capabilities of its Thespian system, by name; they decide where workers are placed."""

    def fits(self, on: str | dict[str, Any]) -> bool:
        """Whether *on* is this host's address, or capabilities that this host has all of."""
        if isinstance(on, str):  # an address without a port means any port
            return bool(self.address) and on in {self.address, addresses.split(self.address)[0]}
        nothing = object()
        return all(self.capabilities.get(name, nothing) == wanted for name, wanted in on.items())

    def __str__(self) -> str:
        return self.address or "(this host)"


class ReplyAddress(ActorAddress):
    """The address of an endpoint that waits in `ask`: a message to it answers that ask.

    A handler sees it as the ``sender``. A handler may keep it, or pass it on to another actor: it
    still answers the same question. So a late answer can never be taken for that of the next ask.
    """

    def __init__(self, address: ActorAddress, ask: int) -> None:
        super().__init__(address.addressDetails)
        self.ask = ask


class Envelope(msgspec.Struct, frozen=True):
    """Endpoint -> endpoint: one packet of the conversation between two incarnations.

    On our own base only packets with something beside the bytes need one.
    """

    sender: ActorAddress
    """The address of the endpoint that sends it."""
    packet: bytes
    """Its bytes: see `codec`."""
    beside: tuple[object, ...] = ()
    """The payloads and addresses that are not in the bytes."""

    def __str__(self) -> str:
        return "Envelope"


class Nudge(msgspec.Struct, frozen=True):
    """Endpoint -> itself: other threads left work for you."""


class Surroundings(msgspec.Struct, frozen=True):
    """What a new actor has from the process that asked for it; see `shells.surroundings`."""

    host: str
    """That process's host: only there the next three are true."""
    environ: dict[str, str]
    folder: str | None
    path: list[str]
    env: dict[str, str | None]
    """Variables that were chosen for the actor; None removes one."""
    cwd: str | None
    """The folder that was chosen for it."""
    levels: dict[str, int]
    """The levels of loggers, by their names."""


class Welcome(msgspec.Struct, frozen=True):
    """Creator -> its new `RefActor`: your id, and the registrar's address."""

    me: WorkerId
    registrar: ActorAddress
    settings: Settings
    threads: int | None = None
    surroundings: Surroundings | None = None


class EndpointJoin(msgspec.Struct, frozen=True):
    """Endpoint -> registrar: I am here. If I am a program, watch *pid*.

    An endpoint without a number from its creator has 0, and gets one with the answer. *beats*: I
    shall beat again and again (endpoints of the in-process base run only while their program calls
    in, and do not). *host*: endpoints with the same value can see my process. *place*: the address
    of the host that I am on, and with which I die.
    """

    me: WorkerId
    pid: int
    host: str
    program: bool = False
    beats: bool = True
    place: str = ""


class Heartbeat(msgspec.Struct, frozen=True):
    """Endpoint -> registrar: I am still here. Are you (*answer*)?"""

    me: WorkerId
    answer: bool = False


beat_frame = msgspec.msgpack.Encoder().encode
"""A `Heartbeat` as a frame of our own base, which nobody acknowledges.

An acknowledgement would wake both ends once more for each beat, and a system at rest does nothing
else. A lost beat does no harm: the next one says the same.
"""
_beat = msgspec.msgpack.Decoder(Heartbeat).decode


def beat_in(data: bytes | bytearray) -> Heartbeat:
    """The beat in a frame. Raises `ProtocolError`."""
    try:
        return _beat(data)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"a frame is not a beat: {error}") from None


class Heard(msgspec.Struct, frozen=True):
    """Registrar -> endpoint: I am still here, too."""


class Joined(msgspec.Struct, frozen=True):
    """Registrar -> endpoint: your id, your address, and the system's settings.

    *dead*: the numbers of endpoints that were dead and buried before; *dying*: those that died
    lately. *pids*: the processes of the receiver's own host without which the system ends.
    *answered*: the receiver cannot see those processes, so its beats will be answered.
    """

    me: WorkerId
    address: ActorAddress
    settings: Settings
    dead: tuple[Span, ...]
    dying: tuple[WorkerId, ...]
    session: int
    pids: tuple[int, ...] = ()
    answered: bool = False


class EndpointLeave(msgspec.Struct, frozen=True):
    """Endpoint -> registrar: I end now. If my number is 0, you know me by my address only."""

    me: WorkerId


class Open(msgspec.Struct, frozen=True):
    """Starting program -> registrar: the settings, and the process with which the system ends."""

    settings: Settings
    pid: int


class Spawn(msgspec.Struct, frozen=True):
    """Endpoint -> registrar: create an actor of this pickled class.

    It goes on a host that fits *on*. If *on* is None, it goes on a host that fits the class,
    preferably on the asker's.
    """

    token: int
    actor_class: bytes
    name: str
    requirements: dict[str, Any] | None
    threads: int | None
    on: str | dict[str, Any] | None = None
    surroundings: Surroundings | None = None


class Spawned(msgspec.Struct, frozen=True):
    """Registrar -> endpoint: the actor joined (*info*), or the reason why it did not."""

    token: int
    info: WorkerInfo | None
    reason: str = ""
    taken: bool = False
    """The name belongs to another actor."""


class Lookup(msgspec.Struct, frozen=True):
    """Endpoint -> registrar: find an endpoint by its name or address; None asks for all.

    *hosts*: list the hosts instead. *workers*: of all endpoints, list the workers only.
    """

    token: int
    name: str | None = None
    address: ActorAddress | None = None
    hosts: bool = False
    workers: bool = False


class Found(msgspec.Struct, frozen=True):
    """Registrar -> endpoint: the matching endpoints, and whether the address was a dead one's."""

    token: int
    workers: tuple[WorkerInfo, ...]
    dead: bool = False
    hosts: tuple[HostInfo, ...] = ()
    host: str = ""
    """For a single endpoint its `EndpointJoin.host`: whether it can see the asker's process."""


class Down(msgspec.Struct, frozen=True):
    """Registrar -> all on another host: the system ends, in order or because its program died."""

    reason: str
    orderly: bool


class Serve(msgspec.Struct, frozen=True):
    """Joining program -> host agent: have this host join the system.

    The agent of a new host watches the process *pid*, which is that of the first program there.
    """

    pid: int


class Serving(msgspec.Struct, frozen=True):
    """Host agent -> joining program: *registrar* knows this host now.

    *owner* is the program with which the system ends. *session* is the session of the system's
    processes; without its processes *pids* the system ends.
    """

    registrar: ActorAddress
    owner: int
    session: int
    pids: tuple[int, ...]
    refused: str = ""
    """The reason why this host may not join, if it may not."""
    versions: bool = False
    """Whether that reason is a difference of versions."""


class HostJoin(msgspec.Struct, frozen=True):
    """Host agent -> registrar: this host wants to be in the system, and I, *me*, act for it.

    *joined*: an earlier registrar has already let it join.
    """

    me: WorkerId
    info: HostInfo
    joined: bool = False


class HostJoined(msgspec.Struct, frozen=True):
    """Registrar -> host agent: your host has joined, and these are the settings of the system."""

    settings: Settings


class Make(msgspec.Struct, frozen=True):
    """Registrar -> host agent: create *me*, an actor of this pickled class, on your host."""

    me: WorkerId
    actor_class: bytes
    requirements: dict[str, Any] | None
    threads: int | None
    surroundings: Surroundings | None = None


class Unmade(msgspec.Struct, frozen=True):
    """Host agent -> registrar: *me* was not created, or has exited.

    If this host does not meet its requirements (*unfit*), another one may.
    """

    me: WorkerId
    reason: str
    unfit: bool = False


class CheckProcess(msgspec.Struct, frozen=True):
    """Registrar -> host agent: *me* is silent; does its process run?"""

    me: WorkerId
    pid: int


class ProcessChecked(msgspec.Struct, frozen=True):
    """Host agent -> registrar: whether the process runs, and is not stopped."""

    me: WorkerId
    running: bool


class AllocateId(msgspec.Struct, frozen=True):
    """Endpoint -> registrar: I create an actor of this name; give me its number."""

    token: int
    name: str


class AllocatedId(msgspec.Struct, frozen=True):
    """Registrar -> endpoint: the id of the actor that the endpoint creates."""

    token: int
    me: WorkerId


class Exited(msgspec.Struct, frozen=True):
    """Parent -> registrar: my child at this address has exited; *me* is its id, if I gave one."""

    address: ActorAddress
    me: WorkerId | None = None
    cause: str = ""
    """The reason, if the parent knows it; see `children`."""


class Died(msgspec.Struct, frozen=True):
    """Registrar -> every endpoint: these incarnations are dead."""

    workers: tuple[WorkerId, ...]
    cause: str = ""
    """The reason, if known."""


class Settled(msgspec.Struct, frozen=True):
    """Endpoint -> registrar: all owners count me that I had to ask because of these deaths."""

    me: WorkerId
    workers: tuple[WorkerId, ...]


class AllSettled(msgspec.Struct, frozen=True):
    """Registrar -> every endpoint: all have settled these deaths, so their grace may end."""

    workers: tuple[WorkerId, ...]


class Forward(msgspec.Struct, frozen=True):
    """Registrar proxy -> elected registrar: a request of *sender*, an endpoint on my host or I.

    It is for the registrar of *term*. If that one does not carry it out, the proxy repeats it to
    the next registrar. The proxy numbers its requests.
    """

    host: WorkerId
    term: int
    number: int
    sender: ActorAddress
    message: Any


class Deliver(msgspec.Struct, frozen=True):
    """Elected registrar -> registrar proxy: a message for the endpoint at *to*, or for you (None).

    A message to you that tells of deaths is for all endpoints on your host, too.
    """

    term: int
    """The term of this registrar. A proxy believes no registrar of an earlier term than the
    latest that it has heard of."""
    done: tuple[int, ...]
    """The numbers of requests that you need not repeat."""
    to: ActorAddress | None
    message: Any


class Establish(msgspec.Struct, frozen=True):
    """Starting or joining program -> registrar proxy: make this host part of the system.

    *settings* are those of a system that begins with this host; None if it exists already.
    """

    system: str
    registry: str
    pid: int
    settings: Settings | None = None


class Candidacy(msgspec.Struct, frozen=True):
    """Registrar proxy -> candidate: find the registrar.

    If there is none, a candidate that has been told the *settings* may become the registrar.
    """

    system: str
    registry: str
    seconds: float
    """The time without a sign of life after which the registrar counts as lost."""
    settings: Settings | None = None


class Meet(msgspec.Struct, frozen=True):
    """Candidate -> registrar proxy: the registrar of this term is at this address.

    *refused*: the reason why this host cannot be in one system with it, if there is one.
    """

    term: int
    registrar: ActorAddress
    refused: str = ""


class NoStore(msgspec.Struct, frozen=True):
    """Candidate -> registrar proxy: the store fails; without a reason, it works again."""

    why: str


class Doubt(msgspec.Struct, frozen=True):
    """Registrar proxy -> candidate: whether the registrar of this term is still *heard*."""

    term: int
    heard: bool


class Resign(msgspec.Struct, frozen=True):
    """Registrar proxy -> candidate: this host leaves, so give up the role of the registrar.

    The candidate sends it back when the host has no role any more.
    """


class LeaveSystem(msgspec.Struct, frozen=True):
    """Ending program -> registrar proxy: have this host leave. The proxy returns it afterwards."""


class EndSystem(msgspec.Struct, frozen=True):
    """Ending program -> registrar proxy -> registrar: end the system, on all hosts."""


class Meddle(msgspec.Struct, frozen=True):
    """Test -> endpoint: use these faults from now on, and return the counts of your packets.

    It is not a packet itself, so it arrives whatever the links lose.
    """

    token: int
    asker: ActorAddress
    faults: Faults | None = None
    """The new faults, in place of the endpoint's."""
    cut: tuple[str, ...] = ()
    heal: tuple[str, ...] = ()
    """Names of endpoints whose link to this one is cut (`cut`) or healed (`heal`)."""


class Meddled(msgspec.Struct, frozen=True):
    """Endpoint -> test: done; these are the counts so far."""

    token: int
    counts: Counts


class Inspect(msgspec.Struct, frozen=True):
    """Program -> endpoint: list your references. The endpoint answers while user code runs.

    With *about*: list your reasons to hold that reference, or the ids that begin with this text.
    Without *rows*: give your counters only.
    With *overview*: give an overview, and count the latencies of calls for so many seconds.
    """

    token: int
    asker: ActorAddress
    about: RRefId | str | None = None
    rows: bool = True
    collect: tuple[float, bool] | None = None
    """Search for garbage in cycles instead, for so many seconds; true: and collect it."""
    overview: float | None = None


class Inspected(msgspec.Struct, frozen=True):
    """Endpoint -> program: its `ReferenceInfo`s and `Counters`, or `Holding`s of one reference."""

    token: int
    rows: tuple[Any, ...] = ()
    counters: Any = None
    holdings: tuple[Any, ...] = ()
    matches: Any = None
    """Its `Matches` of an id's beginning."""
    error: str = ""
    """The reason why it cannot answer."""
    garbage: tuple[Any, ...] = ()
    """The `Garbage` that searches have found."""
    overview: Any = None
    """Its `EndpointOverview`."""
    stops: tuple[str, ...] = ()
    """The places of its threads at breakpoints."""


class Unfetched(msgspec.Struct, frozen=True):
    """Owner -> creator: nobody has fetched the error of your creation, and nobody can any more."""

    rref: RRefId
    owner: str
    where: str
    """The function that raised it."""
    text: str
    """The traceback."""


class Unfinished(msgspec.Struct, frozen=True):
    """Ending program -> endpoint: which objects do you still make for me?

    *last*: the system ends with me, so tell me also the errors that nobody has fetched.
    """

    token: int
    asker: ActorAddress
    me: WorkerId
    last: bool


class StillMaking(msgspec.Struct, frozen=True):
    """Endpoint -> ending program: the objects that I make for you, and errors of such objects."""

    token: int
    rrefs: tuple[RRefId, ...] = ()
    errors: tuple[Unfetched, ...] = ()


class Watch(msgspec.Struct, frozen=True):
    """Viewer -> endpoint: send me your steps from now on; or, if not *on*, no more.

    The viewer repeats this after each `Traced`, with its number; only then the next one comes. With
    *tables* your knowledge comes first, and after each gap.
    """

    viewer: WorkerInfo
    on: bool = True
    taken: int = 0
    tables: bool = True


class Traced(msgspec.Struct, frozen=True):
    """Endpoint -> viewer: my steps since the last one, as lines (see `tracing`)."""

    worker: WorkerId
    number: int
    lines: str


class Prompt(msgspec.Struct, frozen=True):
    """Endpoint -> program: a thread of mine at a breakpoint shows *text*, and wants a line.

    Without *text* it asks all endpoints first who has a terminal for it; see `Typed.rank`. No
    answer is expected if the session is *over*, or has *moved* to another program.
    """

    token: int
    asker: ActorAddress
    of: WorkerId
    session: int
    place: str
    """The function and the line of its breakpoint."""
    text: str | None = None
    over: bool = False
    moved: bool = False


class Typed(msgspec.Struct, frozen=True):
    """Program -> endpoint: the line that was typed, with its end; empty at the end of the input."""

    token: int
    line: str = ""
    interrupted: bool = False
    """Ctrl-C was typed instead."""
    rank: int = 0
    """The answer to a `Prompt` without text, see `debugging`."""


TO_ENDPOINTS = (
    *(Envelope, Found, Spawned, AllocatedId, Died, AllSettled, Heard, Down, Meddle, Meddled),
    *(Inspect, Inspected, Watch, Traced, Unfetched, Unfinished, StillMaking, Prompt, Typed),
)
"""The messages that an endpoint takes once it has joined: see `Core.takers`."""
TO_SHELLS = (Nudge, Welcome, Joined, Serving, LeaveSystem)
"""The messages that an endpoint's mailbox, or the program's port, takes for itself. All other
messages are the user's."""
TO_REGISTRAR = (
    *(EndpointJoin, Heartbeat, EndpointLeave, Open, Spawn, Lookup, AllocateId, Exited),
    *(HostJoin, Unmade, ProcessChecked, Settled),
)
TO_HOST_AGENT = (Serve, HostJoined, Make, CheckProcess, Heard, Died, Down)
TO_CANDIDATE = (Forward, HostJoin, Heartbeat, Candidacy, Doubt, Resign)
TO_REGISTRAR_PROXY = (
    *TO_REGISTRAR,
    *(Deliver, Establish, Meet, NoStore, Resign, LeaveSystem, EndSystem),
)

ALL = frozenset(
    TO_ENDPOINTS + TO_SHELLS + TO_REGISTRAR + TO_HOST_AGENT + TO_CANDIDATE + TO_REGISTRAR_PROXY
)


def check_wire(message: object) -> None:
    """Raise `ProtocolError` unless every field of *message*, one of these, is right.

    A packet is checked when it is decoded, a payload when its message takes effect.
    """
    check(message, ALL, "message of farref's")


def check_payload(payload: object) -> None:
    """Raise `ProtocolError` if *payload* has one of our classes and a malformed field."""
    if isinstance(payload, Payload | Failure):
        check(payload, (Payload, Failure), "payload")
        for peer in payload.peers:
            check(peer, (WorkerInfo,), "introduction")
