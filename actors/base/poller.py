"""One selector per process, kept for its whole life, that any thread can wake.

One thread may change ``epoll`` while another sleeps in it, and the change takes effect at once.  So
any sending thread can ask for "writable" events without waking another thread.  For everything else
there is an ``eventfd``, and writing to it is safe in a signal handler, too.  Where these are
missing, ``poll`` and a pipe do the same: a thread that changes something wakes the sleeping one.
This is slower with many descriptors, but it is the same on every system, so the tests on Linux run
the code for macOS.  ``kqueue`` could not be tested that way.

**Spinning.**  When a core goes idle, waking it for the next message takes tens of
microseconds, more than all our own work.  So before it sleeps the run loop may poll for
``spin`` seconds.  This is longer than the other end's work for a brief message and its wake-up
together: otherwise two ends that both slept once would sleep before each further message, as each
gives up just before the other is ready.  It spins only while that pays:

* in a conversation: the last wait began less than ``CONVERSATION`` ago, so messages come that
  often.  A process at rest, which waits for seconds, does not spin;
* and if spins are not in vain: one without an event is followed by a *pause* without any, first as
  long as a spin, then twice as long each time, up to ``LONGEST_PAUSE``.  One that gets an event
  makes the next pause short again, and so does a rest of ``LONGEST_PAUSE``.  An event that the
  first look finds does neither, because no spin was needed: a busy process always has one.

So in a conversation spins in vain take a millisecond in the first 20, and then less than 1 % of a
core.  A ping-pong keeps one more core busy.

A spin goes on if another process takes the core for a moment.  That is mostly the other end: after
a rest the kernel often keeps both ends on one core although another is idle, and moves one of them
only while both want to run.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import stat
from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import Final, Protocol

from ...features import cores, has
from .bell import Bell

READABLE: Final = 1  # `EPOLLIN`, and `POLLIN` everywhere
WRITABLE: Final = 4  # `EPOLLOUT` and `POLLOUT`
INVALID: Final = 0x20  # `POLLNVAL`
CONVERSATION: Final = 1e-3
"""Seconds between the beginnings of two waits in a conversation."""
LONGEST_PAUSE: Final = 0.02
"""Seconds without a spin, after many in vain."""
LONGEST: Final = 1e6  # seconds; the system calls take a 32-bit number of milliseconds
LONGEST_POLL: Final = 1.0  # seconds, without ``epoll``


class DescriptorOwner(Protocol):
    """Owns a file descriptor. The poller calls it when the descriptor has an event."""

    def on_event(self, events: int) -> None:
        """*events* is a mask of ``EPOLLIN`` and the like.  Must not block."""


class _Poll:
    """The functions of ``epoll`` that we need, by ``poll``.

    A signal handler may wait for another thread while its own thread is in :meth:`poll`, and
    ``select.poll`` lets no second thread in: so each poll has an object of its own.  When the
    handler has ended, Python goes on with the descriptors from before.  So no poll takes longer
    than ``LONGEST_POLL``.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._events: dict[int, int] = {}
        self._inside: list[None] = []
        """An entry for each thread that is in :meth:`poll`."""
        self._wake = wake

    def register(self, descriptor: int, events: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise PermissionError(errno.EPERM, "a regular file, which is always ready")
        self._events[descriptor] = events
        # A thread enters `_inside` first, and reads the registered descriptors afterwards.
        if self._inside:
            self._wake()

    def modify(self, descriptor: int, events: int) -> None:
        if descriptor not in self._events:
            raise FileNotFoundError(errno.ENOENT, "it is not registered")
        self.register(descriptor, events)

    def unregister(self, descriptor: int) -> None:
        self._events.pop(descriptor, None)

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        seconds = LONGEST_POLL if timeout is None else min(timeout, LONGEST_POLL)
        polling = select.poll()
        self._inside.append(None)
        try:
            for descriptor, events in self._events.copy().items():
                polling.register(descriptor, events)
            found = polling.poll(math.ceil(seconds * 1000))
        finally:
            self._inside.pop()
        for descriptor, _ in [each for each in found if each[1] & INVALID]:
            self.unregister(descriptor)  # it was closed; `epoll` forgets those by itself
        return [each for each in found if not each[1] & INVALID]

    def close(self) -> None:
        """Do nothing: there is no descriptor to close."""


class Poller:
    """``epoll``, a table of owners, and an ``eventfd`` to wake it."""

    def __init__(self, spin: float) -> None:
        """Spin for up to *spin* seconds before sleeping; 0 never spins."""
        self.asleep = 0
        """The identity of the thread that sleeps in :meth:`wait`, also while its own signal handler
        interrupts that; 0 if none does."""
        self._wakened = False
        self._bell = Bell()
        self._epoll = select.epoll() if has("epoll") else _Poll(self.wake)
        self._owners: dict[int, DescriptorOwner] = {}
        self._epoll.register(self._bell.descriptor, READABLE)
        self._spin = spin if cores() > 1 else 0.0
        self._began = -CONVERSATION
        """The clock at the beginning of the last wait."""
        self._pause = self._resumes = 0.0
        """The length of the last pause without spins, and the clock at its end."""
        self.watched: list[int] = []

    def add(self, descriptor: int, events: int, owner: DescriptorOwner) -> None:
        """Tell *owner* about *events* on *descriptor*."""
        self._owners[descriptor] = owner
        self._epoll.register(descriptor, events)

    def change(self, descriptor: int, events: int) -> None:
        """Tell the owner only about *events* from now on."""
        self._epoll.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Forget *descriptor*; call it before closing."""
        self._owners.pop(descriptor, None)
        with contextlib.suppress(OSError, ValueError):
            self._epoll.unregister(descriptor)

    def wake(self) -> None:
        """Make :meth:`wait` return at once.  Any thread, any signal handler."""
        if not self._wakened:
            self._wakened = True
            self._bell.ring()

    def watch(self, descriptors: list[int]) -> None:
        """Report *descriptors* (the user's) as ready from :meth:`wait`; forget former ones."""
        if not descriptors and not self.watched:
            return
        for descriptor in self.watched:
            if descriptor not in descriptors:
                with contextlib.suppress(OSError, ValueError):
                    self._epoll.unregister(descriptor)
        for descriptor in descriptors:
            # The user may have closed and reopened one under the same number since.
            try:
                self._epoll.modify(descriptor, READABLE)
            except FileNotFoundError:
                with contextlib.suppress(OSError):
                    self._epoll.register(descriptor, READABLE)
            except OSError:
                continue  # epoll takes no regular files
        self.watched = list(descriptors)

    def wait(self, timeout: float | None) -> list[int]:
        """Sleep for up to *timeout* seconds (None: for ever), and tell owners about events.

        Without ``epoll`` it sleeps for ``LONGEST_POLL`` at most.

        Returns the watched descriptors that are ready.
        """
        if timeout is not None:
            timeout = min(timeout, LONGEST)  # the caller checks the clock
        events: list[tuple[int, int]] = []
        if self._spin and timeout != 0:
            last, self._began = self._began, (now := perf_counter())
            since = now - last
            if since < CONVERSATION:
                if now >= self._resumes:
                    events = self._spinning(now, timeout)
            elif since > LONGEST_PAUSE:
                self._pause = 0.0
        if not events:
            self.asleep = get_ident()
            try:
                events = self._epoll.poll(timeout)
            finally:
                self.asleep = 0
        ready: list[int] = []
        for descriptor, mask in events:
            owner = self._owners.get(descriptor)
            if owner is not None:
                owner.on_event(mask)
            elif descriptor == self._bell.descriptor:
                # In this order, a wake in between is not written, but we look at everything
                # afterwards anyway.  In the other order it would be written and read, and leave
                # the flag set, so that no later wake would ever be written.
                self._bell.silence()
                self._wakened = False
            elif descriptor in self.watched:
                ready.append(descriptor)
        return ready

    def _spinning(self, began: float, timeout: float | None) -> list[tuple[int, int]]:
        poll = self._epoll.poll
        end = began + (self._spin if timeout is None else min(self._spin, timeout))
        events: list[tuple[int, int]] = poll(0)
        if events:
            return events  # they were there before, and say nothing about spinning
        while (now := perf_counter()) < end:
            events = poll(0)
            if events:
                self._pause = 0.0
                return events
        self._pause = min(2 * self._pause or self._spin, LONGEST_PAUSE)
        self._resumes = now + self._pause
        return []

    def close(self) -> None:
        """Close our own descriptors; the owners close theirs."""
        self._wakened = True  # a late `wake` must not write to a reused descriptor
        self._epoll.close()
        self._bell.close()
