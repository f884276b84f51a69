"""A program that starts a system, as users have it: ``python -P bench/program.py farref 4``.

It prints the seconds until its workers have answered a call each, and then rests until its input
ends. It imports no more than a user's program does.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from thespian.actors import Actor, ActorAddress, ActorSystem

import farref
from farref.actors.base import system_base


class Plain(Actor):
    """The least worker: it answers each message with the same one."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:  # noqa: N802 - Thespian's
        self.send(sender, message)


def ours(workers: int) -> farref.System:
    system = farref.System()
    for number in range(workers):
        farref.rpc_sync(system.worker(f"W{number}"), abs, (-1,))
    return system


def base(workers: int) -> ActorSystem:
    """The same of plain actors, on our base."""
    system = ActorSystem(systemBase=system_base(), transientUnique=True)
    for number in range(workers):
        system.ask(system.createActor(Plain), number)
    return system


def main() -> None:
    start = ours if sys.argv[1] == "farref" else base
    began = time.perf_counter()
    system = start(int(sys.argv[2]))
    print(time.perf_counter() - began, flush=True)  # noqa: T201 (to bench/programs.py)
    sys.stdin.read()
    system.shutdown()


if __name__ == "__main__":
    main()
