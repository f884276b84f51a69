"""Leader and followers: which thread runs the loop.

If one thread received the message of another, waking that thread would cost tens of microseconds,
several times the cost of the message itself.  So a thread that waits for a message runs the loop
itself, if it can.  This is the pattern *leader/followers*: at any time one thread at most is the
**leader**, and runs the loop.  These threads may lead:

- The **standby** is the thread in :meth:`.loop.RunLoop.run`.  It leads while no other wants to.
- A **waiter** leads while it waits for something, and no longer.  In a process that serves others
  it leads *briefly*, see below.
- The **helper** leads while short work keeps coming in, and does that work itself
  (:class:`Helper`).

The standby and the helper give way to a thread that claims the lead.  A waiter does not: a second
waiter becomes a **follower**, which waits in its own way for what the leader receives.

When a waiter leaves, nobody leads at first, because the next waiter is likely to come within
microseconds.  The standby checks every ``PATIENCE`` whether there is a leader, and leads if there
is none; messages that arrive meanwhile wait up to twice as long.  If there are followers, it leads
at once.  Each check wakes the standby, and takes the interpreter from the waiter.  So while waiters
keep coming, one every ``DENSE`` or more often, it checks less and less often, down to once in
``LONGEST_PATIENCE``.  If it finds no leader then, its next pause is short again: after such a
stream, messages wait for one long pause and a short one.  While one thread leads for longer, the
standby sleeps, for a ``NAP`` at a time, and then takes over from a helper that has had no work.  So
a process at rest is led by its standby, which wakes for messages and signals only.

**Leading briefly.**  In a process that serves others, the thread of a function that waits for a
reply gives way to every thread that claims the lead, to short work, and to another thread that
begins to wait.  It leaves after ``BRIEF_LEAD`` at the latest.  If it leaves before its wait is
over, others need the loop, and for ``BRIEF_PAUSE`` nobody leads briefly.  When it leaves, the
standby takes over at once, so no message waits.  Only if more than ``MANY`` such waits have
followed each other, each within ``BRIEF_GAP``, does the standby expect another one, and checks as
after other waiters.  When a function ends, its thread calls the standby
(:meth:`Leadership.call_standby`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from threading import get_ident
from time import perf_counter
from typing import Final, Protocol

from . import forks
from .interrupts import Condition

PATIENCE: Final = 0.001  # seconds
DENSE: Final = 0.002  # seconds
LONGEST_PATIENCE: Final = 0.02  # seconds
NAP: Final = 0.5  # seconds; see `Leadership.stand_by`
BRIEF_LEAD: Final = 0.01  # seconds
BRIEF_PAUSE: Final = 0.02  # seconds
BRIEF_GAP: Final = 0.0005  # seconds
MANY: Final = 10


class Leadership:
    """Passes the lead from thread to thread.  Any thread may call every method."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """*wake* makes a leader that sleeps look at its conditions again."""
        self._wake = wake
        # Reentrant: a finalizer may run anywhere, and call.
        self._lock = threading.RLock()
        self._changed = Condition(self._lock)
        self.leader = 0
        """The identity of the thread that leads, or 0."""
        self._yields = True
        self.claims = 0
        """Threads that wait for the leader to give way."""
        self._leads = 0  # so far
        self._followers = 0
        self._asleep = False  # the standby, until it is notified
        self._urgent = False  # the standby leads at once if nobody does
        self.brief = False
        """The leader leads briefly, or the last one did."""
        self._in_a_row = 0
        """The brief leaders before this one that followed each other within `BRIEF_GAP`."""
        self._brief_left = 0.0
        """The clock when the last of them left."""
        self._brief_from = 0.0
        """The clock at the end of the last pause in which nobody leads briefly."""
        self.waiting: list[None] = []
        """One for each thread that waits where others lead briefly, or does so itself. The thread
        adds it, and takes it away. In a program, threads wait as followers instead."""

    def claim(self) -> None:
        """For the standby: lead, as soon as the current leader has left."""
        with self._lock:
            if self.leader:
                self._displace(None)
            self._begin(yields=True)

    def enter(self, *, yields: bool, briefly: bool = False, patience: float | None = None) -> bool:
        """Let a waiter lead, maybe *briefly*, or the helper, which *yields*.

        Returns whether it leads.  Waits *patience* seconds at most for another leader to give way.
        The helper leads only if nobody does, and a thread that leads already cannot lead again.
        """
        with self._lock:
            if self.claims or self._followers:
                return False
            now = perf_counter() if briefly else 0.0
            if briefly and now < self._brief_from:
                return False
            if self.leader and (
                yields
                or not self._yields
                or self.leader == get_ident()
                or not self._displace(patience)
            ):
                return False
            self._begin(yields=yields or briefly)
            if briefly:
                self.brief = True
                followed = now - self._brief_left <= BRIEF_GAP
                self._in_a_row = self._in_a_row + 1 if followed else 0
            return True

    def leave(self, *, urgent: bool = False, early: bool = False) -> None:
        """Give up the lead.  *urgent*: there is work for the next leader.

        *early*: the thread led briefly, and leaves before its wait is over.
        """
        with self._lock:
            self.leader = 0
            others = (self.brief or not self._yields) and len(self.waiting) > 1
            self._urgent = urgent or others or self._followers > 0
            if self.brief:
                self._brief_left = perf_counter()
                if early:
                    self._brief_from = self._brief_left + BRIEF_PAUSE
                self._urgent = self._urgent or early or self._in_a_row < MANY
            if self.claims or self._asleep or self._urgent:
                self._changed.notify_all()

    def stand_by(self, over: Callable[[], bool], end: float | None) -> bool:
        """For the standby: wait until it leads again; false if *over* comes true first.

        It leads at *end*, at the latest.  It sleeps for a ``NAP`` at most at a time.  For in an
        actor it is the main thread, which alone runs Python's signal handlers, and the kernel may
        have given the signal (of the death of a child) to another thread.
        """
        with self._lock:
            seen, patience, waited = -1, PATIENCE, PATIENCE
            while not over():
                now = perf_counter()
                if end is not None and now >= end:
                    if self.leader:
                        self._displace(None)
                        continue  # the last leader may have ended the run
                elif self.leader or (seen != self._leads and not self._urgent):
                    if seen >= 0 and (self._leads - seen) * DENSE < waited:
                        patience = PATIENCE
                    elif seen >= 0 and self.leader and not self.brief:
                        patience = min(2 * patience, LONGEST_PATIENCE)
                    waited = patience if self.leader else PATIENCE
                    # The same thread still leads after a while: it may go on for long.
                    self._asleep = self.leader != 0 and seen == self._leads
                    seen = -1 if self._asleep else self._leads
                    if self._asleep:
                        leads = self._leads
                        self._changed.wait(NAP if end is None else min(NAP, end - now))
                        self._asleep = False
                        soon = perf_counter() - now < DENSE
                        if soon and not self.brief:  # the next may be like it
                            patience = min(2 * patience, LONGEST_PATIENCE)
                        if self.leader and self._yields and self._leads == leads:
                            self._displace(None)  # the helper has had no work all the time
                            self._urgent = True
                    else:
                        self._changed.wait(waited)
                    continue
                self._begin(yields=True)
                return True
            return False

    def crowd(self) -> None:
        """For one of several threads that wait: nobody leads briefly now, but the standby does."""
        with self._lock:
            if self.brief and self.leader not in {0, get_ident()}:
                self._displace(BRIEF_LEAD)
            self.call_standby()

    def call_standby(self) -> None:
        """Have the standby lead at once, if nobody does."""
        if not self.leader:
            with self._lock:
                if not self.leader:
                    self._urgent = True
                    self._changed.notify_all()

    def is_passed_on(self) -> bool:
        """Whether the caller is a finalizer that runs within a change of the lead by its thread."""
        return self._lock._is_owned()  # type: ignore[attr-defined,no-any-return]  # of any `RLock`

    def look(self) -> None:
        """Have the leader check its conditions, unless the calling thread is the leader."""
        if self.leader != get_ident():
            self._wake()

    def recheck(self) -> None:
        """Wake a standby that stands by: what it waits for may have come true."""
        with self._lock:
            self._changed.notify_all()

    @contextmanager
    def following(self) -> Iterator[None]:
        """For a follower, which in the block waits for what the leader receives.

        While there is a follower, the standby takes over at once if nobody leads.
        """
        counted = 0
        try:
            with self._lock:
                self._followers += 1
                counted = 1
                self.call_standby()
            yield
        finally:
            with self._lock:
                self._followers -= counted

    @contextmanager
    def lent(self) -> Iterator[None]:
        """For the leader: let the standby lead during the block."""
        yields = self._yields
        self.leave(urgent=True)
        try:
            yield
        finally:
            with self._lock:
                if self.leader:
                    self._displace(None)
                self._begin(yields=yields)
            self._wake()  # messages may have come that it has not seen

    # -- with the lock held

    def _begin(self, *, yields: bool) -> None:
        self.leader = get_ident()
        self._yields = yields
        self.brief = False
        self._leads += 1
        self._urgent = False

    def _displace(self, patience: float | None) -> bool:
        self.claims += 1
        try:
            self._wake()
            return self._changed.wait_for(lambda: not self.leader, patience)
        finally:
            self.claims -= 1


class Work(Protocol):
    """The work that messages have left."""

    @property
    def offered(self) -> Sized:
        """The pieces of work; always the same object."""

    def do(self) -> None:
        """Do some of it.  Raises nothing."""

    def disperse(self) -> None:
        """Have other threads do all of it: this one has no time."""


class Helper:
    """A thread that receives messages and does their short work itself.

    Handing a message's work to another thread costs more than most work.  So the helper runs the
    loop and does the :class:`Work` between two looks at the sockets.  If the work takes too long,
    the standby notices, runs the loop in the meantime, and has other threads do the rest.  So work
    delays incoming messages by a millisecond or two at most, and the thread that Thespian gave us
    never does any of it.
    """

    def __init__(self, work: Work, lead: Callable[[Callable[[], object]], bool]) -> None:
        """*lead* runs the loop until a condition holds, and returns whether it holds."""
        self.work = work
        self._lead = lead
        self._called = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self.identity = 0
        self._pid = forks.pid
        self._ended = False
        self._free = True

    def relieve(self) -> bool:
        """For the standby, which leads: whether to give us the lead, because there is work."""
        if not self.work.offered:
            return False
        if not self._free or self._ended:
            self.work.disperse()
            return False
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="farref helper", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread can be started
                self.work.disperse()
                return False
            self._thread = thread
        self._free = False
        self._called.release()
        return True

    def end(self) -> None:
        """Begin no more work, and end."""
        self._ended = True
        self._called.release()

    def _serve(self) -> None:
        self.identity = threading.get_ident()
        do, lead, is_work = self.work.do, self._lead, self.work.offered.__len__
        while True:
            self._called.acquire()
            while not self._ended:
                do()
                if forks.pid != self._pid:  # a job has forked: only the parent leads
                    return
                if not lead(is_work):
                    break
            if self._ended:
                return
            self._free = True
