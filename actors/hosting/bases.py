"""The Thespian system bases that farref runs on, by name, and how each is started or joined.

==================  ==========================================================================
``farrefBase``      our own (`actors.base`): a process per actor, Unix sockets; the default
multiprocTCPBase    Thespian's: a process per actor, TCP. It listens on every interface, and
                    unpickles the messages of strangers: it must be asked for by name
simpleSystemBase    Thespian's: everything in this process; actors run while the program calls in
==================  ==========================================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Any

import msgspec
from thespian.actors import Actor, ActorAddress, ActorSystem, InvalidActorAddress
from thespian.system.addressManager import CannotPickleAddress
from thespian.system.messages.admin import PendingActor
from thespian.system.transport import TransmitIntent
from thespian.system.transport.asyncTransportBase import DROP_TRANSMITS_LEVEL

from ...features import knows_peers
from ...protocol.errors import OverloadedError, SystemDownError
from ..base import addresses, system_base
from ..base.certificates import TLS
from ..base.discreet import Discreet
from ..base.envelopes import Received, UserIntent
from ..base.settings import Limits
from ..base.system import HOST_CAPABILITY, Mode
from ..base.transport import Transport
from . import logs

OBJECT = "(an object)"


class Base(msgspec.Struct, frozen=True):
    """The abilities of a base."""

    name: str
    own: bool = False
    """It is ours: it knows keys, and any thread may send."""
    processes: bool = True
    """Each actor has a process: it can be killed, and goes on while the program does not call."""
    hosts: bool = False
    """Several hosts can share a system."""


BASES = {
    base.name: base
    for base in (
        Base("farrefBase", own=True, hosts=True),
        Base("multiprocTCPBase", hosts=True),
        Base("simpleSystemBase", processes=False),
    )
}
DEFAULT = "farrefBase"
REFUSED = {
    "multiprocUDPBase": "a datagram may be lost, and holds no message of more than 65,507 bytes",
    "multiprocQueueBase": "a thread of an actor cannot wake its queues",
}
"""Bases of Thespian's on which farref does not run, and the reason for each."""

MOST_BYTES = Limits().max_message_bytes
"""The most bytes of one message, on a base that sets no limit of its own."""

HOST = HOST_CAPABILITY
"""The capability with the address of a host that others can reach."""
CLEAR = "farref in the clear"
"""The capability of a host that does not encrypt its connections to others, as Thespian's bases."""
MEMBER = "farref member"
"""The capability of a Thespian system that has joined the one of another host."""
LIFE = "farref life"
"""The capability with a random number of such a system. A host that joins again has its old address
and a new number: so it is not mistaken for its earlier life."""
CONVENTION = "Convention Address.IPv4"
TRIES = 3
"""The number of free ports tried: another program may take one before the system's admin listens on
it."""


class Reach(Discreet, frozen=True):
    """The address at which other hosts reach this one."""

    host: str
    """The numeric address at which this host listens."""
    port: int
    key: bytes
    advertise: str | None = None
    """The address that others dial, if it is another one; see `system_base`."""
    tls: TLS | None = None

    @property
    def seen(self) -> tuple[str, int]:
        """The address that others dial."""
        if self.advertise is None:
            return self.host, self.port
        return addresses.advertised(self.advertise, self.port)

    @property
    def place(self) -> str:
        """The name of this host in the system."""
        return addresses.place(*self.seen)


def default() -> str:
    """The base of a system that names none.

    Raises:
        SystemDownError: no base runs here.
    """
    if not knows_peers():
        raise SystemDownError(
            f"The base {DEFAULT} does not run here: this operating system does not report the user "
            "at the other end of a Unix socket. Choose another base by its name. "
            "System('simpleSystemBase') runs all actors in this process. "
            "System('multiprocTCPBase') starts a process for each actor, but listens on every "
            "network interface, and lets every machine that reaches it run code here: protect it "
            "by a firewall"
        )
    return DEFAULT


def check(base: object) -> None:
    """Refuse a *base* on which no system can run, before anything starts.

    Raises:
        ValueError: farref does not run on it, or no base has that name.
        TypeError: it is a running `ActorSystem`.
    """
    fit = ", ".join(BASES)
    if isinstance(base, ActorSystem):
        raise TypeError(
            "System starts an actor system of its own, and cannot take over a running "
            "ActorSystem. Call System('multiprocTCPBase', capabilities=...) in the place of "
            f"ActorSystem(...); base is one of {fit}. Its `create`, `tell`, `ask` and `listen` "
            "take plain Thespian actors too"
        )
    # Thespian loads a base by the name of its module.
    name = base if isinstance(base, str) else type(base).__module__
    name = name.rpartition(".")[2]
    if name in REFUSED:
        raise ValueError(f"farref does not run on {name}: {REFUSED[name]}. Choose one of {fit}")
    if isinstance(base, str) and base not in BASES:
        raise ValueError(f"there is no system base {base!r}. Choose one of {fit}")


def start(
    base: object, name: str, capabilities: dict[str, Any], reach: Reach | None = None
) -> tuple[Any, dict[str, Any]]:
    """Start the system *name*: Thespian's `ActorSystem`, and the data with which `join` finds it.

    Raises:
        SystemDownError: it did not start.
    """
    if not isinstance(base, str):
        return _open(base), {}
    about = BASES[base]
    if not about.processes:
        return _open(base, capabilities, log_definitions=False), {}
    if about.own:
        made, door = _farref(_short(name), capabilities, "start", reach)
        return made, door
    if reach is not None:
        return _reachable(base, capabilities, reach, addresses.at(*reach.seen))
    return _start_stock(base, capabilities, TRIES)


def enter(
    base: str, capabilities: dict[str, Any], reach: Reach, first: str, dialled: tuple[str, int]
) -> Any:
    """Start this host's part of the system, or join it if it runs.

    *first* is the first host's address as it gives it itself; it answers at *dialled*.
    """
    mine = {**capabilities, MEMBER: True, LIFE: SystemRandom().getrandbits(63)}
    if BASES[base].own:
        name = _short(f"{first} {reach.host}:{reach.port} {reach.place}")
        routes = {addresses.split(first): dialled}
        return _farref(name, mine, "either", reach, leader=first, routes=routes)[0]
    return _reachable(base, mine, reach, first)[0]


def started(asys: Any) -> bool:
    """Whether this program is known to have started *asys*, and not to have joined it."""
    return bool(getattr(asys._systemBase, "started", False))


def _farref(
    name: str,
    capabilities: dict[str, Any],
    mode: Mode,
    reach: Reach | None,
    *,
    leader: str = "",
    routes: dict[tuple[str, int], tuple[str, int]] | None = None,
) -> tuple[Any, dict[str, Any]]:
    more: dict[str, Any] = {}
    door: dict[str, Any] = {}
    if reach is not None:
        given = msgspec.structs.asdict(reach)
        more = {option: value for option, value in given.items() if value is not None}
        leader = leader or addresses.at(*reach.seen)
        door = {**more, "key": reach.key.hex()}
        if reach.tls is not None:
            door["tls"] = [os.path.abspath(path) for path in msgspec.structs.astuple(reach.tls)]

    def begin(log_defs: dict[str, Any]) -> Any:  # the admin is forked here
        how: dict[str, Any] = {"mode": mode, "convention": leader or None, "routes": routes, **more}
        made = system_base(name, capabilities=capabilities, log_defs=log_defs, **how)
        return ActorSystem(made, transientUnique=True)

    return _with_logs(begin), door


def _reachable(
    base: str, capabilities: dict[str, Any], reach: Reach, leader: str
) -> tuple[Any, dict[str, Any]]:
    """A stock Thespian system that is a member of a convention."""
    door = {"Admin Port": reach.port, CONVENTION: leader}
    mine = {**capabilities, **door, HOST: reach.place, CLEAR: True}
    return _with_logs(lambda log_defs: _open(base, mine, log_defs)), door


def _start_stock(base: str, capabilities: dict[str, Any], tries: int) -> tuple[Any, dict[str, Any]]:
    mine = {"Admin Port": addresses.free_port("127.0.0.1"), **capabilities}
    try:
        made = _with_logs(lambda log_defs: _open(base, mine, log_defs))
    except InvalidActorAddress:
        if tries == 1 or "Admin Port" in capabilities:
            raise
        return _start_stock(base, capabilities, tries - 1)
    return made, {"Admin Port": mine["Admin Port"]}


def join(base: str, name: str, found: dict[str, Any]) -> Any:
    """Join the running system *name*.

    Raises:
        SystemDownError: no other program can join it.
    """
    if base == OBJECT:
        raise SystemDownError(
            f"system {name!r} runs on a base object of its program; only that program can use it"
        )
    about = BASES[base]
    if not about.processes:
        raise SystemDownError(f"system {name!r} runs inside one program; no other can join it")
    if about.own:
        more = {**found, "key": bytes.fromhex(found["key"])} if found else {}
        if "tls" in more:
            more["tls"] = TLS(*more["tls"])
        made = system_base(_short(name), mode="join", **more)
        return _open(made)
    return _open(base, found)


def capabilities_of(actor: Any) -> dict[str, Any]:
    """The capabilities of *actor*'s Thespian system; empty on the in-process base."""
    capabilities: dict[str, Any] = getattr(actor._myRef, "capabilities", None) or {}
    return capabilities


def of_the_system(actor: Any, actor_class: type, name: str) -> ActorAddress:
    """The actor with the global *name* on the first host: one for the system, not for each host.

    Thespian would ask there too. But its admin keeps each request that it passes on, and has later
    requests for the same name wait for the answer, which went past it.
    """
    capabilities = capabilities_of(actor)
    if not capabilities.get(MEMBER):
        address: ActorAddress = Actor.createActor(actor, actor_class, globalName=name)
        return address
    manager = actor._myRef
    address = manager._addrManager.createLocalAddress()
    where = manager.transport.getAddressFromString(capabilities[CONVENTION])
    instance = address.addressDetails.addressInstanceNum
    class_name = f"{actor_class.__module__}.{actor_class.__name__}"
    wanted = PendingActor(class_name, manager.myAddress, instance, None, globalName=name)
    manager._send_intent(TransmitIntent(where, wanted))
    return address


def largest(transport: object) -> int:
    """The most bytes of a message on *transport*; a stock transport drops a larger one."""
    if isinstance(transport, Transport):
        return transport.settings.limits.max_message_bytes
    return MOST_BYTES


def check_plain(transport: object, address: ActorAddress) -> None:
    """Raise an error if a stock *transport* would silently drop a plain message.

    Messages between endpoints are not plain: they are numbered, and sent again.
    """
    queue = getattr(transport, "_aTB_queuedPendingTransmits", ())
    if len(queue) >= DROP_TRANSMITS_LEVEL:
        raise OverloadedError(
            f"this message to {address} was not sent: {len(queue)} messages wait already, and "
            f"Thespian drops all others after {DROP_TRANSMITS_LEVEL}; let the handler end before "
            "it sends more, or raise THESPIAN_DROP_TRANSMITS_LEVEL"
        )


def own(transport: object) -> Transport | None:
    """*transport*, if it is of our own base, where any thread may send through it and run it."""
    return transport if isinstance(transport, Transport) else None


def nudge(transport: Transport, message: object) -> None:
    """Give *message* to the thread that runs *transport*. Takes no lock."""
    transport.loop.deliver_local(Received(transport.myAddress, message))


def post_as(actor: Any, address: ActorAddress, message: object) -> None:
    """Send *message* as *actor*, from any thread; on our own base without ever waiting."""
    manager = actor._myRef
    try:
        manager.transport.enqueue(
            manager._addrManager, UserIntent(address, message, manager.actor_send_fail)
        )
    except CannotPickleAddress:
        Actor.send(actor, address, message)  # it keeps the message until the address is known


def logs_end(asys: Any) -> None:
    """The processes of *asys* have ended: show the rest of their log records."""
    records: logs.Records | None = getattr(asys, "farref_records", None)
    if records is not None:
        records.end()


def _with_logs(begin: Callable[[dict[str, Any]], Any]) -> Any:
    """The Thespian system that *begin* starts with definitions of its logs.

    Its ``farref_records`` show the records in this program.
    """
    logs.hush_thespian()
    records = logs.Records()
    try:
        made = begin(records.definitions())
    except BaseException:
        records.end()
        raise
    made.farref_records = records
    records.begin()
    return made


def _short(name: str) -> str:
    """The base's own name for the system *name*; short, as it is part of a socket's path."""
    # `random` makes these numbers of a text by SHA-512; they are the same everywhere.  `hashlib`
    # would load OpenSSL.
    return f"farref.{Random(name).getrandbits(64):016x}"  # noqa: S311 - no secret


def _open(
    base: Any, capabilities: dict[str, Any] | None = None, log_definitions: Any = None
) -> Any:
    logs.hush_thespian()
    return ActorSystem(base, capabilities or None, log_definitions, transientUnique=True)
