"""Every limit, reached with small numbers: a named error or a wait, and work goes on after it.

See docs/limits.md. Actors of the in-process base live in this process, so the tests can set its
limits here. A limit of the base's own is given to the base.
"""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import Actor, ActorAddress, PoisonMessage
from thespian.system.transport.asyncTransportBase import DROP_TRANSMITS_LEVEL

import farref
from farref import OverloadedError, RefActor, RRef, SerializationError, System
from farref.actors.base import Limits, MessageTooLarge, system_base
from farref.actors.calls import calls
from farref.actors.core import delivery as packets
from farref.actors.core import port
from farref.actors.hosting import bases
from farref.actors.serving import server as serving
from farref.actors.wire import cargoes
from farref.actors.wire.messages import Envelope, WorkerInfo
from farref.protocol import credit, delivery, owner
from farref.protocol.delivery import Packet
from farref.protocol.ids import ForkId, RRefId, WorkerId
from farref.protocol.messages import Cargo, Descriptor, Tell
from farref.serialization import pickling
from farref.serialization.payload import Payload

from ...base.kit import Echo, running
from ...bases import PROCESSES
from ...packets import written
from ..helpers import PATIENCE, assert_nothing_held, hold, idle, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def here() -> Iterator[System]:
    """A system in this process, with a worker of one thread."""
    with System("simpleSystemBase", timeout=PATIENCE) as system:
        system.worker("B", threads=1)
        yield system
        assert farref.rpc_sync("B", pow, (2, 3)) == 8
        assert_nothing_held(system)


class Slow:
    """An object with methods that run until a gate is open."""

    def wait(self, gate: Path, number: int = 0) -> int:
        hold(gate)
        return number


# ---- queues


def test_calls_that_wait_for_a_thread(
    here: System, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MAX_WAITING", 3)
    futures = [farref.rpc_async("B", hold, (gate, n)) for n in range(8)]
    last = farref.remote("B", hold, (gate, 9))
    with pytest.raises(OverloadedError, match=r"B did not start .* wait already for a thread"):
        last.to_here()
    gate.touch()
    ran = [future.result() for future in futures if future.exception() is None]
    assert len(ran) in (3, 4)  # one more, if the first has started meanwhile
    assert ran == sorted(ran)
    assert farref.rpc_sync("B", hold, (gate, 7)) == 7


def test_requests_that_wait_for_one_object(
    here: System, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "MAX_QUEUED", 3)
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


class Alone:
    """Notices if two of its methods run at once."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0

    def work(self, gate: Path) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        hold(gate)
        self.running -= 1

    def count(self) -> int:
        return self.most


def test_a_refused_request_frees_no_object_that_it_never_had(tmp_path: Path) -> None:
    """Once a cancelled request was taken for the running one, and the next ran beside that."""
    first, gate = tmp_path / "first", tmp_path / "gate"
    with System("simpleSystemBase", timeout=PATIENCE) as system:
        system.worker("B", threads=4)
        alone = farref.remote("B", Alone)
        assert farref.wait([alone]) == ([alone], [])
        running = alone.rpc_async().work(first)
        cancelled = alone.rpc_async().work(gate)
        after = alone.rpc_async().work(gate)
        assert cancelled.cancel()
        gate.touch()
        assert not until(system, after.done, 0.3)
        first.touch()
        running.result()
        after.result()
        assert alone.rpc_sync().count() == 1


class Chatty(RefActor):
    """Sends more than one peer takes while its handler runs."""

    def receiveMsg_tuple(self, message: tuple[Any, int], sender: ActorAddress) -> None:
        target, count = message
        sent, why = 0, ""
        try:
            for sent in range(count):
                self.send(target, sent)
        except OverloadedError as error:
            why = str(error)
        self.send(sender, (sent, why))


class Sink(RefActor):
    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        self.count = getattr(self, "count", 0) + 1

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, getattr(self, "count", 0))


def test_what_handlers_send(here: System, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MAX_BACKLOG", "MAX_UNSENT"):
        monkeypatch.setattr(calls, limit, 20)
    chatty, sink = here.create(Chatty, "chatty"), here.create(Sink, "sink")
    sent, why = here.ask(chatty, (sink, 10_000))
    assert "has not taken 20 messages and" in why
    assert until(here, lambda: here.ask(sink, "count") == sent)


class Numbers(RefActor):
    """Handles messages once the gate is open, and records their order."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def receiveMsg_tuple(self, message: tuple[Any, ...], sender: ActorAddress) -> None:
        gate, number, *_ = message
        hold(gate)
        self.numbers.append(number)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.numbers)


def small_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "MAX_INBOX", 10)
    monkeypatch.setattr(delivery, "WINDOW", 8)
    monkeypatch.setattr(calls, "MAX_BACKLOG", 20)


def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credit, "CREDIT_BYTES", 50_000)
    monkeypatch.setattr(port, "MAX_INBOX_BYTES", 100_000)
    monkeypatch.setattr(calls, "MAX_BACKLOG_BYTES", 100_000)


WAITING = {
    "messages": (small_queues, 0, (20, 0), 10 + 8 + 20 + 2),
    "bytes": (few_bytes, 10_000, (0, 100_000), (100_000 + 2 * 50_000 + 100_000) // 10_000 + 2),
}
"""The limits, the bytes of a message, the load of the sender that waits, and what it has sent."""


@pytest.mark.parametrize("counted", WAITING)
def test_messages_that_wait_for_a_handler(
    here: System, gate: Path, monkeypatch: pytest.MonkeyPatch, counted: str
) -> None:
    """Senders of more wait; control messages do not. Then all arrive, in order."""
    limit, size, load, most = WAITING[counted]
    limit(monkeypatch)
    info = here.endpoint.registrar_client.find(here.create(Numbers))
    sent: list[int] = []

    def tell() -> None:
        for number in range(100):
            here.tell(info, (gate, number, bytes(size)))
            sent.append(number)

    def waits() -> bool:
        pairs = zip(here.endpoint.delivery.load(info.id, "mail"), load, strict=True)
        return all(now >= least for now, least in pairs)

    thread = threading.Thread(target=tell)
    thread.start()
    assert until(here, waits)
    idle(here, 0.2)
    assert len(sent) <= most
    if counted == "bytes":  # calls overtake them
        assert farref.rpc_sync(info, len, (bytes(size),)) == size
    gate.touch()
    assert until(here, lambda: not thread.is_alive())
    assert here.ask(info, "numbers") == list(range(100))


MOST = 10 + 2 * 8
"""In an inbox for 10: one window of 8 fills it, and one was acknowledged before."""


class Teller(RefActor):
    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        for number in range(message):
            self.send(sender, number)


def test_messages_that_wait_for_the_program(here: System, monkeypatch: pytest.MonkeyPatch) -> None:
    small_queues(monkeypatch)
    here.tell(here.create(Teller), 100)
    idle(here, 0.3)
    assert here._port.inbox.qsize() <= MOST
    assert [here.listen() for _ in range(100)] == list(range(100))


@pytest.mark.parametrize("base", PROCESSES)
def test_messages_that_wait_in_real_processes(
    base: str, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_queues(monkeypatch)  # before the actors are forked
    with System(base, timeout=PATIENCE) as system:
        actor = system.create(Numbers)
        for number in range(18):
            system.tell(actor, (gate, number))
        info = system.endpoint.registrar_client.find(actor)
        system.worker("B")
        assert farref.rpc_sync("B", pow, (2, 3)) == 8
        gate.touch()
        for number in range(18, 200):
            system.tell(info, (gate, number))
        assert until(system, lambda: system.ask(info, "numbers") == list(range(200)))
        system.tell(system.create(Teller), 100)
        idle(system, 0.3)
        assert system._port.inbox.qsize() <= MOST
        assert [system.listen() for _ in range(100)] == list(range(100))


# ---- sizes


def test_references_in_one_message(here: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickling, "MAX_REFERENCES", 10)
    refs = [RRef(n) for n in range(11)]
    assert farref.rpc_sync("B", len, (refs[:10],)) == 10
    with pytest.raises(SerializationError, match="11 references, but the limit is 10"):
        farref.rpc_sync("B", len, (refs,))


def test_bytes_of_one_message(here: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the caller, and at the callee, which returns the result."""
    monkeypatch.setattr(bases, "largest", lambda _: 10_000)
    ref = RRef([1])
    assert farref.rpc_sync("B", len, (b"x" * 5000,)) == 5000
    for call in (farref.remote, farref.rpc_async):
        with pytest.raises(SerializationError, match=r"program cannot .* 12\d+ bytes: .* 10000"):
            call("B", len, ([b"x" * 10_000, ref],))
    with pytest.raises(SerializationError, match=r"B cannot .* is 10000"):
        farref.rpc_sync("B", bytes, (10_000,))
    big = farref.remote("B", bytes, (10_000,))
    with pytest.raises(SerializationError, match=r"B cannot .* is 10000"):
        big.to_here()
    assert big.rpc_sync().count(0) == 10_000


def test_many_messages_are_several_packets(here: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "PACKET_BYTES", 10_000)
    futures = [farref.rpc_async("B", len, (b"x" * 4000,)) for _ in range(50)]
    assert [future.result() for future in futures] == [4000] * 50


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


@pytest.mark.processes
def test_bytes_of_one_message_on_our_base() -> None:
    base = system_base(limits=Limits(max_message_bytes=100_000))
    with System(base, timeout=PATIENCE) as system:
        system.worker("B")
        with pytest.raises(SerializationError, match="limit is 100000"):
            farref.rpc_sync("B", len, (b"x" * 100_000,))
        futures = [farref.rpc_async("B", len, (b"x" * 60_000,)) for _ in range(5)]
        assert [future.result() for future in futures] == [60_000] * 5


@pytest.mark.processes
def test_a_plain_message_that_is_too_large_on_our_base() -> None:
    with running(limits=Limits(max_message_bytes=100_000)) as system:
        echo = system.createActor(Echo)
        with pytest.raises(MessageTooLarge, match=r"100\d+ bytes .* sends at most 100000"):
            system.tell(echo, b"x" * 100_000)
        assert system.ask(echo, "hello", PATIENCE) == "hello"


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
def test_an_actor_is_told_as_thespian_tells_it() -> None:
    with running(limits=Limits(max_message_bytes=100_000)) as system:
        told = system.ask(system.createActor(Oversized), system.createActor(Echo), PATIENCE)
        assert "MessageTooLarge" in told


class Full:
    """A stock transport that has too much to send."""

    _aTB_queuedPendingTransmits = range(DROP_TRANSMITS_LEVEL)  # noqa: N815 - Thespian's name


def test_what_thespian_would_drop_is_an_error() -> None:
    nobody = ActorAddress(None)
    bases.check_plain(None, nobody)
    with pytest.raises(OverloadedError, match="Thespian drops all others after 1050"):
        bases.check_plain(Full(), nobody)
