"""Crowds of strangers on the TCP port: they keep no peer out, and no peer waiting."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
from collections.abc import Iterator

import pytest
from thespian.actors import ActorSystem

from farref.actors.base import Limits, NoSuchSystem, tcp
from farref.actors.base.handshake import (
    ANY_ADMIN,
    CROWDED,
    MAGIC,
    preamble,
)

from ..ports import free_port
from ..waiting import eventually
from .kit import (
    KEY,
    PATIENCE,
    OnHostB,
    Stranger,
    dial,
    have_met,
    hung_up,
    running,
    serves,
)

pytestmark = pytest.mark.processes


@pytest.fixture
def impatient() -> Iterator[tuple[ActorSystem, int]]:
    port = free_port("127.0.0.1")
    limits = Limits(handshake_timeout=0.5, max_handshakes=5, max_visitors=5)
    with running(host="127.0.0.1", port=port, key=KEY, limits=limits) as system:
        yield system, port


def test_the_slow_are_hung_up_on_and_do_not_shut_others_out(
    impatient: tuple[ActorSystem, int],
) -> None:
    system, port = impatient
    with crowd(port, 20, MAGIC[:3]) as slow:  # four times the limit
        assert serves(system)
        assert all(map(hung_up, slow))
    with dial(port) as dripping:
        dripping.settimeout(0.1)
        for byte in preamble("x" * 300):  # single bytes do not buy time
            try:
                dripping.sendall(bytes([byte]))
                assert dripping.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                pass
            return
    pytest.fail("it has not been hung up on")


@contextlib.contextmanager
def crowd(port: int, size: int, word: bytes = b"") -> Iterator[list[socket.socket]]:
    """Strangers who connect, say *word*, and stay until all patience is over."""
    with contextlib.ExitStack() as stay:
        strangers = [stay.enter_context(dial(port)) for _ in range(size)]
        for stranger in strangers:
            with contextlib.suppress(OSError):  # it had to go already
                stranger.sendall(word)
        yield strangers


@pytest.fixture
def patient() -> Iterator[tuple[ActorSystem, int]]:
    """A system that lets strangers stay: a peer waiting for one to leave would wait for ever."""
    port = free_port("127.0.0.1")
    leader, limits = f"127.0.0.1:{port}", Limits(handshake_timeout=1000)
    with running(host="127.0.0.1", port=port, key=KEY, convention=leader, limits=limits) as system:
        yield system, port


HALFWAY = preamble(ANY_ADMIN) + b"\x16\x03\x01"  # the beginning of a record of TLS


@pytest.mark.parametrize("word", [b"", HALFWAY], ids=["silent", "halfway"])
@pytest.mark.parametrize("size", [64, 1000])
def test_a_crowd_keeps_nobody_out(patient: tuple[ActorSystem, int], size: int, word: bytes) -> None:
    """A program that knocks still gets in, and so does another host that joins and sends."""
    system, port = patient
    options = {"host": "127.0.0.3", "port": free_port("127.0.0.3"), "key": KEY}
    with enough_descriptors(size), crowd(port, size, word), Stranger.at(port):  # the last of all
        tcp.knock("127.0.0.1", port, KEY, 0)
        with running(**options, convention=f"127.0.0.1:{port}", capabilities={"B": True}):
            eventually(lambda: have_met(system))
            assert system.ask(system.createActor(OnHostB), "over there", PATIENCE) == "over there"


def test_who_is_crowded_out_learns_why(patient: tuple[ActorSystem, int]) -> None:
    """Far more strangers come than there is room for: the first ones are told, and hung up on."""
    _, port = patient
    most = Limits().max_visitors
    with enough_descriptors(most), crowd(port, most + 3) as strangers:
        for stranger in strangers[:3]:
            assert stranger.recv(4096) == CROWDED
            assert hung_up(stranger)
        for stranger in strangers[3:]:
            stranger.setblocking(False)
            with pytest.raises(BlockingIOError):
                stranger.recv(4096)


def test_a_port_that_lets_nobody_in_is_named() -> None:
    """A joiner tries again, and reports in the end that the port is crowded."""
    with socket.create_server(("127.0.0.9", 0)) as server:

        def refuse() -> None:
            with contextlib.suppress(OSError):
                while True:
                    guest, _ = server.accept()
                    with guest:
                        guest.sendall(CROWDED)
                        guest.shutdown(socket.SHUT_WR)
                        hung_up(guest)

        thread = threading.Thread(target=refuse)
        thread.start()
        host, port = server.getsockname()
        with pytest.raises(NoSuchSystem, match="has too many connections, and refused"):
            tcp.knock(host, port, KEY, 0.3)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextlib.contextmanager
def enough_descriptors(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2 * size), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
