"""The least possible call in Python: nothing is counted and nothing can fail.

A function and its arguments are pickled, travel as one raw message on our base, and are unpickled
and called. The result is pickled, travels back, and completes a future that is found by a number.
There are no references, no waiting threads, no timeouts, no errors, and no check for duplicate
messages. So this is the floor of `rpc_sync` in this language on this base.
"""

# ruff: noqa: N802 (Thespian's method names; the classes say what they do)

from __future__ import annotations

import pickle
from concurrent.futures import Future
from time import perf_counter
from typing import Any

from thespian.actors import Actor, ActorAddress, ActorSystem

from farref.actors.base import system_base

from ..peer import PATIENCE, Peer
from ..things import echo


class Callee(Actor):
    """Runs the functions sent to it."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case (int(number), bytes(data)):
                function, args = pickle.loads(data)  # noqa: S301 (from our own caller)
                self.send(sender, (number, pickle.dumps(function(*args), 5)))


class Caller(Actor):
    """Measures calls: gets ``(amount, callee)``, and answers with the seconds."""

    asker: ActorAddress
    callee: ActorAddress
    waiting: dict[int, Future[Any]]
    left: int
    started: float

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        match message:
            case (int(number), bytes(data)):
                future = self.waiting.pop(number)
                future.set_result(pickle.loads(data))  # noqa: S301 (from our own callee)
                if future.result(0) != number:
                    raise AssertionError("another call's result")
                self.left -= 1
                if self.left:
                    self.again()
                else:
                    self.send(self.asker, perf_counter() - self.started)
            case (int(amount), ActorAddress() as callee):
                self.asker, self.callee, self.left = sender, callee, amount
                self.waiting = {}
                self.started = perf_counter()
                self.again()

    def again(self) -> None:
        """Make one more call."""
        self.waiting[self.left] = Future()
        self.send(self.callee, (self.left, pickle.dumps((echo, (self.left,)), 5)))


class Least(Peer):
    """The least possible call."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.system = ActorSystem(systemBase=system_base(), transientUnique=True)
        self.caller, self.callee = map(self.system.createActor, (Caller, Callee))

    def close(self) -> None:
        self.system.shutdown()

    def call(self, amount: int, _: int) -> float:
        """Round trips."""
        seconds = self.system.ask(self.caller, (amount, self.callee), PATIENCE)
        if not isinstance(seconds, float):
            raise TypeError(f"the calls answered {seconds!r}")
        return seconds
