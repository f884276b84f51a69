"""Every limit, reached with small numbers: a named error or a wait, and work goes on after it.

See docs/limits.md. Actors of the in-process base live in this process, so a limit that is set here
holds for them at once.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import Actor, ActorAddress, PoisonMessage
from thespian.system.transport.asyncTransportBase import DROP_TRANSMITS_LEVEL

import farref
from farref import OverloadedError, RefActor, RRef, SerializationError, System
from farref.actors.base import Limits, MessageTooLarge, system_base
from farref.actors.hosting import bases
from farref.actors.wire import cargoes
from farref.actors.wire.messages import Envelope, WorkerInfo
from farref.protocol.delivery import Packet
from farref.protocol.ids import ForkId, RRefId, WorkerId
from farref.protocol.messages import Cargo, Descriptor, Tell
from farref.serialization.payload import Payload

from ...base.kit import Echo, running
from ...bases import PROCESSES
from ...packets import written
from ..helpers import PATIENCE, assert_nothing_held, hold, idle, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SetLimits = Callable[[dict[str, object]], None]


@pytest.fixture
def here() -> Iterator[System]:
    """A system in this process, with a worker of one thread."""
    with System("simpleSystemBase", timeout=PATIENCE) as system:
        system.worker("B", threads=1)
        yield system
        assert farref.rpc_sync("B", pow, (2, 3)) == 8
        assert_nothing_held(system)


# ---- queues


class Slow:
    """Its methods run until a gate is open. It notes how many have run at once."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0

    def wait(self, gate: Path, number: int = 0) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        hold(gate)
        self.running -= 1
        return number

    def count(self) -> int:
        return self.most


def test_requests_that_wait_for_one_object(here: System, gate: Path, limits: SetLimits) -> None:
    limits({"protocol.owner.MAX_QUEUED": 3})
    slow = farref.remote("B", Slow)
    assert farref.wait([slow]) == ([slow], [])
    futures = [slow.rpc_async().wait(gate, n) for n in range(8)]
    made = slow.remote().wait(gate, 9)
    with pytest.raises(OverloadedError, match=rf"for their turn on {slow.id}"):
        made.to_here()
    gate.touch()
    ran = [future.result() for future in futures if future.exception() is None]
    assert ran == [0, 1, 2, 3]
    assert slow.rpc_sync().wait(gate, 7) == 7


def test_a_refused_request_frees_no_object_that_it_never_had(tmp_path: Path) -> None:
    """Once a cancelled request was taken for the running one, and the next ran beside that."""
    first, gate = tmp_path / "first", tmp_path / "gate"
    with System("simpleSystemBase", timeout=PATIENCE) as system:
        system.worker("B", threads=4)
        slow = farref.remote("B", Slow)
        assert farref.wait([slow]) == ([slow], [])
        running = slow.rpc_async().wait(first)
        cancelled, after = (slow.rpc_async().wait(gate) for _ in range(2))
        assert cancelled.cancel()
        gate.touch()
        assert not until(system, after.done, 0.3)
        first.touch()
        assert (running.result(), after.result()) == (0, 0)
        assert slow.rpc_sync().count() == 1


class Teller(RefActor):
    """Sends numbers, to the sender or another actor; and how many, if it could not send all."""

    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        for number in range(message):
            self.send(sender, number)

    def receiveMsg_tuple(self, message: tuple[Any, int], sender: ActorAddress) -> None:
        target, count = message
        sent, why = 0, ""
        try:
            for sent in range(count):
                self.send(target, sent)
        except OverloadedError as error:
            why = str(error)
        self.send(sender, (sent, why))


class Numbers(RefActor):
    """Notes the numbers of its messages, of some of them once a gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        gate, number, *_ = message
        hold(gate)
        self.numbers.append(number)

    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        self.numbers.append(message)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.numbers)


def test_what_handlers_send(here: System, limits: SetLimits) -> None:
    limits({f"actors.calls.calls.{name}": 20 for name in ("MAX_BACKLOG", "MAX_UNSENT")})
    teller, numbers = here.create(Teller), here.create(Numbers)
    sent, why = here.ask(teller, (numbers, 10_000))
    assert "has not taken 20 messages and" in why
    assert until(here, lambda: here.ask(numbers, "numbers") == list(range(sent)))


SMALL_QUEUES: dict[str, object] = {
    "actors.core.port.MAX_INBOX": 10,
    "protocol.delivery.WINDOW": 8,
    "actors.calls.calls.MAX_BACKLOG": 20,
}
FEW_BYTES: dict[str, object] = {
    "protocol.credit.CREDIT_BYTES": 50_000,
    "actors.core.port.MAX_INBOX_BYTES": 100_000,
    "actors.calls.calls.MAX_BACKLOG_BYTES": 100_000,
}


WAITING = {
    "messages": (SMALL_QUEUES, 0, 20, 10 + 8 + 20 + 2),
    "bytes": (FEW_BYTES, 10_000, 10, (100_000 + 2 * 50_000 + 100_000) // 10_000 + 2),
}
"""The limits, the bytes of a message, and how many messages wait, and have been sent, then."""


@pytest.mark.parametrize("counted", WAITING)
def test_messages_that_wait_for_a_handler(
    here: System, gate: Path, limits: SetLimits, counted: str
) -> None:
    """Senders of more wait; control messages do not. Then all arrive, in order."""
    values, size, waiting, most = WAITING[counted]
    limits(values)
    here.create(Numbers, "numbers")
    sent: list[int] = []

    def tell() -> None:
        for number in range(100):
            here.tell("numbers", (gate, number, bytes(size)))
            sent.append(number)

    thread = threading.Thread(target=tell)
    thread.start()
    assert until(here, lambda: farref.counters().backlog >= waiting)
    idle(here, 0.2)
    assert len(sent) <= most
    if size:  # calls overtake them
        assert farref.rpc_sync("numbers", len, (bytes(size),)) == size
    gate.touch()
    assert until(here, lambda: not thread.is_alive())
    assert here.ask("numbers", "numbers") == list(range(100))


def check_what_waits_for_the_program(system: System) -> None:
    system.tell(system.create(Teller), 100)
    idle(system, 0.3)
    # In an inbox for 10: one window of 8 fills it, and one was acknowledged before.
    assert farref.counters().inbox <= 10 + 2 * 8
    assert [system.listen() for _ in range(100)] == list(range(100))


@pytest.mark.parametrize("base", PROCESSES)
def test_messages_that_wait_in_real_processes(base: str, gate: Path, limits: SetLimits) -> None:
    limits(SMALL_QUEUES)  # before the actors are forked
    with System(base, timeout=PATIENCE) as system:
        system.create(Numbers, "numbers")
        for number in range(18):
            system.tell("numbers", (gate, number))
        system.worker("B")
        assert farref.rpc_sync("B", pow, (2, 3)) == 8
        gate.touch()
        for number in range(18, 200):
            system.tell("numbers", (gate, number))
        assert until(system, lambda: system.ask("numbers", "numbers") == list(range(200)))
        check_what_waits_for_the_program(system)


# ---- sizes


def test_references_in_one_message(here: System, limits: SetLimits) -> None:
    limits({"serialization.pickling.MAX_REFERENCES": 10})
    refs = [RRef(n) for n in range(11)]
    assert farref.rpc_sync("B", len, (refs[:10],)) == 10
    with pytest.raises(SerializationError, match="11 references, but the limit is 10"):
        farref.rpc_sync("B", len, (refs,))


def test_many_messages_are_several_packets(here: System, limits: SetLimits) -> None:
    limits({"actors.core.delivery.PACKET_BYTES": 10_000})
    futures = [farref.rpc_async("B", len, (b"x" * 4000,)) for _ in range(50)]
    assert [future.result() for future in futures] == [4000] * 50


@pytest.mark.processes
def test_bytes_of_one_message_on_our_base() -> None:
    """At the caller, and at the callee, which returns the result."""
    base = system_base(limits=Limits(max_message_bytes=100_000))
    with System(base, timeout=PATIENCE) as system:
        system.worker("B")
        ref = RRef([1])
        for call in (farref.remote, farref.rpc_async):
            with pytest.raises(SerializationError, match=r"program .* 10\d+ bytes: .* 100000"):
                call("B", len, ([b"x" * 100_000, ref],))
        with pytest.raises(SerializationError, match=r"B cannot .* is 100000"):
            farref.rpc_sync("B", str.zfill, ("", 100_000))
        big = farref.remote("B", str.zfill, ("", 100_000))
        with pytest.raises(SerializationError, match=r"B cannot .* is 100000"):
            big.to_here()
        assert big.rpc_sync().count("0") == 100_000
        futures = [farref.rpc_async("B", len, (b"x" * 60_000,)) for _ in range(5)]
        assert [future.result() for future in futures] == [60_000] * 5


class Oversized(Actor):
    """Sends too much to another actor, and reports the outcome."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case ActorAddress():
                self.asker = sender
                self.send(message, b"x" * 100_000)
            case PoisonMessage():
                self.send(self.asker, message.details)


@pytest.mark.processes
def test_a_plain_message_that_is_too_large_on_our_base() -> None:
    """An actor is told as Thespian tells it."""
    with running(limits=Limits(max_message_bytes=100_000)) as system:
        echo = system.createActor(Echo)
        with pytest.raises(MessageTooLarge, match=r"100\d+ bytes .* sends at most 100000"):
            system.tell(echo, b"x" * 100_000)
        assert system.ask(echo, "hello", PATIENCE) == "hello"
        told = system.ask(system.createActor(Oversized), echo, PATIENCE)
        assert "MessageTooLarge" in told


class Full:
    """A stock transport that has too much to send."""

    _aTB_queuedPendingTransmits = range(DROP_TRANSMITS_LEVEL)  # noqa: N815 - Thespian's name


def test_what_thespian_would_drop_is_an_error() -> None:
    nobody = ActorAddress(None)
    bases.check_plain(None, nobody)
    with pytest.raises(OverloadedError, match="Thespian drops all others after 1050"):
        bases.check_plain(Full(), nobody)


# ---- the pieces of a packet


def test_pieces_are_the_packet() -> None:
    messages = tuple(Tell(cargo=Cargo(payload=Payload(bytes(n * 100)))) for n in range(40))
    packet = Packet(7, messages, 3)
    pieces = list(cargoes.pieces(packet, 5000))
    assert len(pieces) > 10
    assert tuple(each for piece in pieces for each in piece.messages) == messages
    first = 7
    for piece in pieces:
        assert (piece.first, piece.expects) == (first, 3)
        first += len(piece.messages)
        carried: list[Any] = list(piece.messages)
        size = sum(cargoes.bytes_of(each.cargo) for each in carried)
        assert size <= 5000 or len(piece.messages) == 1
    assert list(cargoes.pieces(Packet(7, (), 3), 5000)) == [Packet(7, (), 3)]


def test_no_message_takes_more_than_was_said() -> None:
    """For all names in it: even long ones of our own that are not ASCII."""
    owners = [WorkerId("Ж" * 100 + str(number), 1 << 63) for number in range(200)]
    address = ActorAddress("10.0.0.1:12345")
    peers = tuple(WorkerInfo(owner, address) for owner in owners)
    descriptors = tuple(
        Descriptor(
            rref=RRefId(owner, 1 << 40), fork=ForkId(owner, 1 << 40), owner=owner, parent=owner
        )
        for owner in owners
    )
    cargo = Cargo(payload=Payload(b"x", peers=peers), descriptors=descriptors)
    packet = Packet(1 << 40, (Tell(cargo=cargo),), 1 << 40)
    data, beside = written(packet, owners[0], owners[1])
    envelope = Envelope(address, data, tuple(beside))
    assert len(pickle.dumps(envelope, 5)) <= cargoes.bytes_of(cargo)
