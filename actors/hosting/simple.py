"""The in-process base: Thespian's `simpleSystemBase`, entered from other threads.

It has no thread of its own: it runs actors only while the program calls in. Its queue is a list.
Other threads only append to that list, which is atomic. They must not take the base's lock: the
base holds it while an actor's mailbox runs, and the mailbox wants the endpoint's lock.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import sys
import threading
import time
from typing import Any
from weakref import WeakKeyDictionary

from thespian.actors import ActorAddress

from ..base.interrupts import undisturbed


class Ring:
    """Like an event, but a finalizer may ring it anywhere.

    It is a lock. The waiting thread takes it and the ringing thread gives it back, each in one step
    of the interpreter, so no interrupt can catch either halfway. (A `SimpleQueue` would be
    reentrant too. But its `get` waits for ever if its time runs out just as another thread was
    faster.)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the thread that waits, or the next one that will."""
        with contextlib.suppress(RuntimeError):  # given back already: it rings
            self._lock.release()

    def wait(self, seconds: float) -> None:
        """Wait until it is rung, at most *seconds*."""
        self._lock.acquire(timeout=seconds)


rung = Ring()
"""Rung when a message is put into a queue of an in-process system; threads that pump look then."""

_alarms: WeakKeyDictionary[Any, list[tuple[float, int, ActorAddress, object]]] = WeakKeyDictionary()
"""Messages that each system's actors will get later. The framework keeps its own timers in a list,
and copies the list for every message. So with its timers each endpoint would make all messages
dearer."""
_alarm_numbers = itertools.count()


def send_later(actor: Any, seconds: float, message: object) -> None:
    """Have *message* come to *actor* itself in *seconds*. In the actor's own thread."""
    base = actor._myRef._system._systemBase
    if base is not None:
        alarm = (time.monotonic() + seconds, next(_alarm_numbers), actor.myAddress, message)
        heapq.heappush(_alarms.setdefault(base, []), alarm)


def ring_alarms(base: Any) -> None:
    """Put those messages of `send_later` that are due into the queue of *base*."""
    alarms = _alarms.get(base)
    with undisturbed:  # else an interrupt could lose an alarm
        while alarms and alarms[0][0] <= time.monotonic():
            _, _, address, message = heapq.heappop(alarms)
            put(base, address, address, message)


def hosts(actor: Any) -> bool:
    """Whether *actor* lives on the in-process base."""
    return isinstance(actor._myRef, _kind("ActorRef"))


def runs(asys: Any) -> bool:
    """Whether the system *asys* is on the in-process base."""
    return isinstance(asys._systemBase, _kind("ActorSystemBase"))


def _kind(name: str) -> Any:
    """Thespian's class *name* for this base; no class, if no system here has loaded the base."""
    return getattr(sys.modules.get("thespian.system.simpleSystemBase"), name, ())


def close_actors(base: Any) -> None:
    """End the endpoints of *base*'s actors: the framework drops actors without telling them."""
    _alarms.pop(base, None)
    for entry in list(base.actorRegistry.values()):
        mailbox = getattr(getattr(entry, "instance", None), "_mailbox", None)
        if mailbox is not None:
            mailbox.close()


def send(actor: Any, address: ActorAddress, message: object) -> None:
    """Queue *message* from *actor*, from any thread, without a lock."""
    base = actor._myRef._system._systemBase
    if base is not None:  # None: the system has ended, and no actor receives any more
        put(base, actor.myAddress, address, message)


def put(base: Any, sender: ActorAddress, address: ActorAddress, message: object) -> None:
    """Queue *message* on *base*."""
    from thespian.system.simpleSystemBase import PendingSend  # noqa: PLC0415 - this base loads it

    base._pendingSends.append(PendingSend(sender, message, address))
    rung.set()
