"""The in-process base: Thespian's `simpleSystemBase`, entered from other threads.

It has no thread of its own: it runs actors only while the program calls in. Its queue is a
list, and appending to a list is atomic, which is all that other threads do here; they must
not take the base's lock, which is held while an actor's mailbox runs and wants ours.
"""

from __future__ import annotations

import contextlib
import queue
from typing import TYPE_CHECKING, Any

from thespian.system.simpleSystemBase import ActorRef, PendingSend

if TYPE_CHECKING:
    from thespian.actors import ActorAddress


class _Ring:
    """Like an event, but a finalizer may ring it anywhere: a `SimpleQueue` is reentrant."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Wake who waits, or the next who will."""
        if self._queue.empty():
            self._queue.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until it is rung, *seconds* at most."""
        with contextlib.suppress(queue.Empty):
            self._queue.get(timeout=seconds)


rung = _Ring()
"""Something was put into some in-process system's queue; whoever pumps looks."""


def hosts(actor: Any) -> bool:
    """Whether *actor* lives on the in-process base."""
    return isinstance(actor._myRef, ActorRef)


def close_actors(base: Any) -> None:
    """End the endpoints of *base*'s actors: the framework forgets actors without a word."""
    for entry in list(base.actorRegistry.values()):
        mailbox = getattr(getattr(entry, "instance", None), "_mailbox", None)
        if mailbox is not None:
            mailbox.close()


def send(actor: Any, address: ActorAddress, message: object) -> None:
    """Queue *message* from *actor*, from any thread, without a lock."""
    base = actor._myRef._system._systemBase
    put(base, actor.myAddress, address, message)


def put(base: Any, sender: ActorAddress, address: ActorAddress, message: object) -> None:
    """Queue *message* on *base*."""
    base._pendingSends.append(PendingSend(sender, message, address))
    rung.set()
