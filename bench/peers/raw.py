"""Equivalent raw messages between Thespian actors: the cost of the transport alone.

The driver is an actor, too, so the messages pass no outside program. A call is a message and its
answer. An object is an entry of a dictionary, a reference is the owner's address and a key; nobody
counts or frees.

The least call (`Least`) is the floor of `rpc_sync` in this language on this base. A function and
its arguments are pickled, travel as one raw message, and are unpickled and called. The result is
pickled, travels back, and completes a future that is found by a number. There are no references, no
waiting threads, no timeouts, no errors, and no check for duplicate messages. As a fetch it is the
call of a function that makes an array.
"""

# ruff: noqa: N802 (Thespian's method names; the classes say what they do)

from __future__ import annotations

import os
import pickle
from concurrent.futures import Future
from time import perf_counter
from typing import Any

from thespian.actors import Actor, ActorAddress, ActorExitRequest, ActorSystem

from farref.actors.base import system_base

from ..peer import PATIENCE, Peer
from ..things import added_up, array, checked, echo, some_bytes
from . import NotOffered

OBJECTS = {"value": array, "value_read": array, "fetch_bytes": some_bytes, "share_fetch": echo}
"""How B makes the object of a work that needs one, before the clock runs."""
STOCK_BYTES = 10_000_000
"""The stock base takes quadratic time: 6 s for 100 MB."""


class Partner(Actor):
    """Answers calls; counts one-way messages; keeps values."""

    def __init__(self) -> None:
        self.left = 0
        self.values: dict[Any, Any] = {}
        self.asker: ActorAddress | None = None

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case (int(number), bytes(data)):
                function, args = pickle.loads(data)  # noqa: S301 (from our own driver)
                self.send(sender, (number, pickle.dumps(function(*args), 5)))
            case ("echo", number):
                self.send(sender, ("echoed", number))
            case ("make", key, kind, size):
                self.values[key] = kind(size)
            case ("get", key):
                self.send(sender, ("value", self.values[key]))
            case ("drop", key):
                del self.values[key]
            case ("fetch", owner, key):
                self.asker = sender
                self.send(owner, ("get", key))
            case ("value", value):
                self.send(self.asker, ("echoed", value))
            case ("expect", number):
                self.left = number
                self.send(sender, ("echoed", number))
            case ("one way", _):
                self.left -= 1
                if not self.left:
                    self.send(sender, ("echoed", 0))


class Driver(Actor):
    """Measures: ``(work, amount, point, b, c)``, answers seconds."""

    left: int
    point: int
    waiting: dict[int, Future[Any]]
    """The least calls without an answer."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case (int(number), bytes(data)):
                future = self.waiting.pop(number)
                future.set_result(pickle.loads(data))  # noqa: S301 (from our own partner)
                if self.point:
                    checked(future.result(0), self.point)
                elif future.result(0) != number:
                    raise AssertionError("another call's result")
                self.left -= 1
                if self.left:
                    self.again()
                else:
                    self.finish()
            case (str(work), int(amount), int(point), b, c):
                self.asker, self.work, self.left, self.point = sender, work, amount, point
                self.amount, self.b, self.c = amount, b, c
                self.waiting = {}
                self.prepare()
            case ("echoed", "prepared"):
                self.begin()
            case ("echoed" | "value", value):
                if self.point:
                    self.look(value)
                if self.work == "one_way" and self.left:
                    self.left = 0  # C expects them now
                    for number in range(self.amount):
                        self.send(self.c, ("one way", number))
                    return
                self.left -= 1
                if self.left > 0:
                    self.again()
                elif self.left == 0 or self.work == "one_way":
                    self.finish()

    def prepare(self) -> None:
        if self.work in OBJECTS:
            self.send(self.b, ("make", 0, OBJECTS[self.work], self.point))
        self.send(self.b, ("echo", "prepared"))

    def begin(self) -> None:
        if self.work == "start_worker":
            self.children: list[ActorAddress] = []
        self.started = perf_counter()
        if self.work == "in_flight":
            for number in range(self.amount):
                self.send(self.b, ("echo", number))
        else:
            self.again()

    def again(self) -> None:
        match self.work:
            case "call":
                self.send(self.b, ("echo", self.left))
            case "least":
                self.waiting[self.left] = Future()
                asked = (array, (self.point,)) if self.point else (echo, (self.left,))
                self.send(self.b, (self.left, pickle.dumps(asked, 5)))
            case "remote_fetch":
                self.send(self.b, ("make", self.left, echo, 1))
                self.send(self.b, ("get", self.left))
                self.send(self.b, ("drop", self.left))
            case "share":
                self.send(self.c, ("echo", (self.b, self.left)))
            case "share_fetch":
                self.send(self.c, ("fetch", self.b, 0))
            case "value" | "value_read" | "fetch_bytes":
                self.send(self.b, ("get", 0))
            case "one_way":
                self.send(self.c, ("expect", self.amount))
            case "start_worker":
                self.children.append(self.createActor(Partner))
                self.send(self.children[-1], ("echo", 0))

    def look(self, value: Any) -> None:
        (added_up if self.work == "value_read" else checked)(value, self.point)

    def finish(self) -> None:
        self.send(self.asker, perf_counter() - self.started)
        if self.work in OBJECTS:
            self.send(self.b, ("drop", 0))
        if self.work == "start_worker":
            for child in self.children:
                self.send(child, ActorExitRequest())


class RawPeer(Peer):
    WORKS: tuple[str, ...] = (
        "call",
        "in_flight",
        "one_way",
        "remote_fetch",
        "share",
        *OBJECTS,
        "start_worker",
    )

    def __init__(self, workers: int, *, base: str) -> None:
        super().__init__(workers)
        self.stock = base == "stock"
        if self.stock:
            port = 20_000 + os.getpid() % 10_000
            self.system = ActorSystem(
                "multiprocTCPBase", {"Admin Port": port}, transientUnique=True
            )
        else:
            ours = system_base() if base == "ours" else system_base(spin=0.0)
            self.system = ActorSystem(systemBase=ours, transientUnique=True)
        self.driver, self.b, self.c = (
            self.system.createActor(kind) for kind in (Driver, Partner, Partner)
        )

    def close(self) -> None:
        self.system.shutdown()

    def do(self, work: str, amount: int, point: int) -> float:
        if work not in self.WORKS:
            raise NotOffered("raw messages have no references, no rounds, and nothing frozen")
        if self.stock and point > STOCK_BYTES:
            raise NotOffered("its time grows with the square of the size")
        seconds = self.system.ask(self.driver, (work, amount, point, self.b, self.c), PATIENCE)
        if not isinstance(seconds, float):
            raise TypeError(f"{work} answered {seconds!r}")
        return seconds


class Least(RawPeer):
    """The least possible call, of a function that has no point or makes an array."""

    WORKS = ("least",)

    def do(self, _: str, amount: int, point: int) -> float:
        return super().do("least", amount, point)
