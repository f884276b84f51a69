"""The protocol's counts for objects of the program, which last until these are collected.

A handle is counted, and so are the references in a message that nobody has opened yet. Python code
that reports a collection (`__del__`) may take no lock, as it runs anywhere, even in a thread that
holds the endpoint's lock, and a signal handler that raises may end it half way.

So each such object has a `Hold`, a weak reference to it. Its callback is one step of the
interpreter: it appends the hold to a queue, which the next step of the endpoint releases. `__del__`
appends it first, and wakes the endpoint so that this step comes soon.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any

from ...protocol.context import Context
from ...protocol.effects import Effect
from ...protocol.ids import RRefId
from ...protocol.messages import Descriptor
from ..base import forks
from .brief import Later

CarryOut = Callable[[list[Effect], Later], None]

MOST = 2_000
"""The most counts that one step releases, as messages wait meanwhile. The step with the reply to a
call releases all of them: what the call brought and has let go of goes back with the reply."""


class Hold(weakref.ref[Any]):
    """The count of one object: as a handle of *rref*, or for a message's *descriptors*."""

    __slots__ = ("descriptors", "rref")

    rref: RRefId | None
    descriptors: tuple[Descriptor, ...]
    """Not set if it is a handle's."""

    # Two handles of one object are equal; their holds are not.
    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Discards:
    """The counts of one endpoint, and those that have ended and are not released yet."""

    def __init__(
        self, wake: Callable[[], None], step: Callable[[Callable[[], list[Effect]]], None]
    ) -> None:
        """*wake* asks for a step soon; *step* makes one."""
        self._wake = wake
        self._step = step
        self.pid = forks.pid
        self.closed = False
        self.holds: dict[Hold, None] = {}  # a set takes up to three times as much
        self.ended: deque[Hold | tuple[Descriptor, ...]] = deque()
        """The holds that have ended, some maybe twice, and the descriptors of messages that nobody
        kept. All of them are to be released."""
        self.releaser = 0
        """The thread that soon releases what ends in it, so nobody has to be woken for that."""
        self.end = self.ended.append
        """The callback of all holds: each bound method takes 72 bytes."""

    # ---- counting; `undisturbed`, within the step that counts

    def hold(
        self, of: object, rref: RRefId | None, descriptors: tuple[Descriptor, ...] = ()
    ) -> Hold:
        """Count *of*, as a handle of *rref*.

        Without *rref*, it has a message with *descriptors*, and holds these references until the
        message is opened.
        """
        hold = Hold(of, self.end)
        hold.rref, hold.descriptors = rref, descriptors
        self.holds[hold] = None
        return hold

    # ---- letting go; in any thread, lock-free

    def gone(self, hold: Hold) -> None:
        """Note that the object of *hold* is collected. May be called again. Takes no lock."""
        if not self.closed and self.pid == forks.pid:
            self.ended.append(hold)
            if self.releaser != get_ident():
                self._wake()

    def release_elsewhere(self) -> None:
        """Let the mailbox thread release all counts again, whichever thread they end in."""
        self.releaser = 0
        if self.ended:
            self._wake()

    def release(self, hold: Hold | None) -> None:
        """Release the count of a message that was opened. Makes a step."""
        if hold is not None:
            self.ended.append(hold)
            self._step(list)

    def message(self, descriptors: tuple[Descriptor, ...]) -> None:
        """Release the references of a message that was given up, and that nobody kept."""
        if not self.closed:
            self.ended.append(descriptors)
            self._wake()

    # ---- releasing; under the endpoint's lock

    def sweep(self, context: Context, carry_out: CarryOut, later: Later) -> None:
        """Release at most `MOST` of the counts that have ended, and the others soon."""
        effects = self.released(context, MOST)
        if effects:
            carry_out(effects, later)
        if self.ended:
            self._wake()

    def released(self, context: Context, most: int) -> list[Effect]:
        """Release at most *most* counts together, which takes fewer messages. Returns the effects.

        A hold may be queued twice. The second time is no input to the machines.
        """
        handles: list[RRefId] = []
        messages: list[tuple[Descriptor, ...]] = []
        holds, take = self.holds, self.ended.popleft
        for _ in range(min(len(self.ended), most)):
            ended = take()
            if isinstance(ended, tuple):
                messages.append(ended)
            elif ended in holds:
                del holds[ended]
                if ended.rref is not None:
                    handles.append(ended.rref)
                else:
                    messages.append(ended.descriptors)
        effects = context.drop(*handles) if handles else []
        for descriptors in messages:
            effects += context.release(descriptors)
        return effects

    def close(self) -> None:
        """Count nothing any more, as the endpoint has ended."""
        self.closed = True
        self.holds.clear()
        self.ended.clear()
