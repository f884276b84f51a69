"""Actors and helpers for the tests of the base.  Also a program: ``python -m tests.base.kit``."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickle
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from thespian.actors import (
    Actor,
    ActorAddress,
    ActorSystem,
    ActorSystemMessage,
    ChildActorExited,
    DeadEnvelope,
    NoCompatibleSystemForActor,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)

from farref.actors.base import rundir, system_base, tls
from farref.actors.base.addresses import Address
from farref.actors.base.framing import DATA, HEADER
from farref.actors.base.handshake import ANY_ADMIN, Dialler, preamble

KEY = hashlib.sha256(b"the key of the tests").digest()
ROOT = Path(__file__).parents[2]
PATIENCE = 30.0  # seconds that a test waits for an event that should come in milliseconds
ME = Address("x-stranger", "", "127.0.0.1", 9)


@contextlib.contextmanager
def running(**options: Any) -> Iterator[ActorSystem]:
    """A system for one test, shut down at the end."""
    system = ActorSystem(systemBase=system_base(**options), transientUnique=True)
    try:
        yield system
    finally:
        if system._systemBase is not None:
            system.shutdown()


def sockets() -> list[str]:
    """The contents of the directory of sockets, without the files that always stay there."""
    stay = {"lock", "key", "thespian.log"}
    names = (p.name for p in rundir.private_directory().iterdir())
    return sorted(n for n in names if n not in stay and not n.endswith(".json"))


def connections(process: psutil.Process, kind: str = "inet") -> set[tuple[Any, Any]]:
    """The addresses of both ends of each socket of *process*; a listener has no other end."""
    return {(each.laddr, each.raddr) for each in process.net_connections(kind)}


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class Sizer(Actor):
    """Tells the number of bytes of an array, and the last byte."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if not isinstance(message, ActorSystemMessage):
            self.send(sender, (message.nbytes, int(message[-1])))


class Echo(Actor):
    """Sends back its messages; ``"pid"`` gets its process id, and ``"stick"`` takes for ever."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case str("pid"):  # not an array, whose `==` is one, too
                self.send(sender, os.getpid())
            case str("stick"):
                threading.Event().wait()
            case _ if not isinstance(message, ActorSystemMessage):
                self.send(sender, message)


class Parent(Actor):
    """Creates children, and tells their ends."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case "create":
                self.send(sender, self.createActor(Echo))
            case "create and send":
                child = self.createActor(Echo)
                for number in range(5):
                    self.send(child, (number, child))
                self.asker = sender
            case "watch":
                self.asker = sender
            case ChildActorExited():
                if hasattr(self, "asker"):
                    self.send(self.asker, ("exited", message.childAddress))
            case (int(), ActorAddress()):
                self.send(self.asker, (message, sender == message[1]))


class Introducer(Actor):
    """Sends addresses that are not known yet (the admin creates those), then more messages."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, ActorAddress):
            for number in range(3):
                named = self.createActor(Echo, globalName=f"named {number}")
                self.send(message, (number, "before", named))
                self.send(named, (number, "to the new one"))
                self.send(message, (number, "after"))
            self.send(sender, "introduced")


class Hoarder(Actor):
    """Keeps its messages until asked for them; counts the handlers that returned."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.delay = 0.0

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case "report":
                self.send(sender, self.got)
            case "pid":
                self.send(sender, os.getpid())
            case ("delay", seconds):
                self.delay = seconds
            case ("die at", _):
                self.got.append(message)
                os.kill(os.getpid(), signal.SIGKILL)
            case DeadEnvelope():
                self.got.append(message.deadMessage)
            case "collect dead letters":
                self.handleDeadLetters(True)
                self.send(sender, "ok")
            case ActorSystemMessage():
                pass
            case _:
                self.got.append(message)
                time.sleep(self.delay)


class Flooder(Actor):
    """Sends numbers to another actor: ``(target, count, size)``, then answers ``"sent"``."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, tuple):
            target, count, payload = message
            for number in range(count):
                self.send(target, (number, payload))
            self.send(sender, "sent")


class Duelist(Actor):
    """Floods an opponent from within one handler, and counts the answers."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.asker: ActorAddress | None = None
        self.expected = 0

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case ("fight", opponent, count, payload):
                self.asker, self.expected = sender, count
                for number in range(count):
                    self.send(opponent, (number, payload))
                self._report()
            case (int() as number, _):
                self.numbers.append(number)
                self._report()

    def _report(self) -> None:
        if self.asker is not None and len(self.numbers) == self.expected:
            self.send(self.asker, self.numbers == sorted(self.numbers))


class Threaded(Actor):
    """Sends from threads of its own while its main thread runs (or is stuck) elsewhere."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case (how, threads, count):
                started = [
                    threading.Thread(target=self._send, args=(sender, thread, count))
                    for thread in range(threads)
                ]
                for each in started:
                    each.start()
                if how == "threads while busy":
                    for each in started:
                        each.join()
                    self.send(sender, "joined")
            case "wake me from a thread":
                self.asker = sender
                threading.Thread(target=self.wakeupAfter, args=(0.01, "payload")).start()
            case WakeupMessage():
                here = threading.current_thread() is threading.main_thread()
                self.send(self.asker, (message.payload, here))

    def _send(self, target: ActorAddress, thread: int, count: int) -> None:
        for number in range(count):
            self.send(target, (thread, number))


class Waker(Actor):
    """Asks for wake-ups: a list of ``(delay, payload)``; answers payloads in order."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, list):
            self.asker, self.left, self.got = sender, len(message), []
            for delay, payload in message:
                self.wakeupAfter(delay, payload)
        elif isinstance(message, WakeupMessage):
            self.got.append(message.payload)
            if len(self.got) == self.left:
                self.send(self.asker, self.got)


class Watcher(Actor):
    """Watches a pipe, and writes to it when told."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> Any:
        if message == "go":
            self.asker = sender
            self.end, self.start = os.pipe()
            os.write(self.start, b"x")
            return ThespianWatch([self.end])
        if isinstance(message, WatchMessage):
            self.send(self.asker, (message.ready == [self.end], os.read(self.end, 9)))
        return None


class Fragile:
    """Cannot be unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _break, ("on purpose",)


def _break(reason: str) -> None:
    raise pickle.UnpicklingError(reason)


class OnHostB(Echo):
    """An actor that needs the capability ``B``."""

    @staticmethod
    def actorSystemCapabilityCheck(capabilities: dict[str, Any], _: object) -> bool:
        return bool(capabilities.get("B"))


def program() -> None:
    """Start a system with an actor and a child, print their ids, and wait to be killed."""
    options: dict[str, Any] = {"start_method": sys.argv[2]}
    if "--orphan" in sys.argv:
        options["die_with_parent"] = False
    system = ActorSystem(
        systemBase=system_base(sys.argv[1], **options),
        transientUnique=True,
    )
    parent = system.createActor(Parent)
    child = system.ask(parent, "create", PATIENCE)
    pids = [system.ask(child, "pid", PATIENCE)]
    system.tell(child, "stick")
    other = system.createActor(Echo)
    pids.append(system.ask(other, "pid", PATIENCE))
    pids.append(psutil.Process(pids[-1]).ppid())  # the admin
    sys.stdout.write(" ".join(map(str, pids)) + "\n")
    sys.stdout.flush()
    if "--exit" in sys.argv:
        os._exit(0)
    threading.Event().wait()


@contextlib.contextmanager
def started(name: str, *options: str, **env: str) -> Iterator[tuple[Any, list[int]]]:
    """Another program, with a system; yields it, and [stuck child, actor, admin]."""
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.base.kit", name, *options],
        cwd=ROOT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        yield program, [int(pid) for pid in program.stdout.readline().split()]
    finally:
        program.kill()
        program.communicate(timeout=PATIENCE)


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


class Stranger:
    """Somebody who speaks TLS with a system, and may go through the handshake inside."""

    def __init__(self, raw: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.sock = context.wrap_socket(raw)
        shown = self.sock.getpeercert(binary_form=True)
        assert shown is not None
        self.certificate = tls.hash_of(shown)

    @classmethod
    def at(cls, port: int, want: str = ANY_ADMIN) -> Stranger:
        """One who dials *port*, and wants the actor with the key *want*."""
        raw = dial(port)
        raw.sendall(preamble(want))
        return cls(raw)

    def prove(self, dialler: Dialler, more: bytes = b"") -> list[bytes]:
        """Be *dialler*, and send *more* after the handshake; returns the bytes said inside TLS."""
        said = [dialler.bind(self.certificate)]
        self.sock.sendall(said[0])
        said.append(dialler.feed(self.sock.recv(4096)))
        self.sock.sendall(said[1] + more)
        return said

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()


def hung_up(sock: socket.socket) -> bool:
    """Read until the other end closes."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def have_met(system: ActorSystem) -> bool:
    """Whether a host with the capability ``B`` is in the convention of *system*."""
    with contextlib.suppress(NoCompatibleSystemForActor):
        return bool(system.createActor(OnHostB))
    return False


def serves(system: ActorSystem) -> bool:
    echo = system.createActor(Echo)
    return bool(system.ask(echo, "hello", PATIENCE) == "hello")


if __name__ == "__main__":
    # Actors must find their classes under an importable name, not under __main__.
    importlib.import_module("tests.base.kit").program()


def bomb(trap: Path) -> bytes:
    """A frame that makes the folder *trap* when it is unpickled."""

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(trap),)

    body = pickle.dumps(Bomb(), 5)
    return HEADER.pack(len(body), 0, DATA) + body
