"""Chooses the thread that runs the loop: one that waits for a message anyway, if there is one.

If one thread received the message of another, waking that thread would cost tens of microseconds,
several times the cost of the message itself.  So threads take turns in running the loop.  The
thread that runs it *leads*:

- the **resident** is the thread in :meth:`.loop.RunLoop.run`.  It leads while no other wants to;
- a **guest** leads while it waits for something, and no longer;
- a **visitor** is a guest in a process that serves others, see below;
- the **aide** (see :mod:`.aide`) leads while short work keeps coming in, and does that work itself.

One thread leads at a time.  The resident and the aide give way to a thread that claims the lead.  A
guest does not: a second guest waits in its own way, as a *bystander*.  When a guest leaves, nobody
leads, because the next guest is likely to come within microseconds.  The resident checks every
``PATIENCE`` for a new guest, then takes over; messages that arrive meanwhile wait up to twice as
long.  It takes over at once if there are bystanders.  Each check wakes it, and takes the
interpreter from the guest.  So while guests keep coming, one every ``DENSE`` or more, it checks
less and less often, down to once in ``LONGEST_PATIENCE``.  If it finds no leader then, the next
check is soon again: after such a stream, messages wait for one long pause and a short one.  While
one thread leads for longer, the resident sleeps, for a ``NAP`` at a time; then it takes over from
an aide that had no work.  So a process at rest is led by its resident, which wakes for messages and
signals only.

A visitor gives way to every thread that claims the lead, to short work, and to another thread that
begins to wait.  It leaves after ``VISIT`` at the latest.  If it leaves before its wait is over,
others need the loop, and its process has no visitor for ``VISIT_PAUSE``.  When it leaves, the
resident takes over at once, so no message waits.  Only if ``MANY`` visits have followed each other,
each within ``VISIT_GAP``, the resident waits for a next one, for twice ``PATIENCE`` at most.  When
a function ends, its thread calls the resident (:meth:`Lead.offer`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from time import perf_counter
from typing import Final

from .interrupts import Condition

PATIENCE: Final = 0.001  # seconds
DENSE: Final = 0.002  # seconds
LONGEST_PATIENCE: Final = 0.02  # seconds
NAP: Final = 0.5  # seconds; see `Lead.stand_by`
VISIT: Final = 0.01  # seconds
VISIT_PAUSE: Final = 0.02  # seconds
VISIT_GAP: Final = 0.0005  # seconds
MANY: Final = 10


class Lead:
    """Passes the lead from thread to thread.  Any thread may call every method."""

    __slots__ = (
        "_asleep",
        "_bystanders",
        "_changed",
        "_leads",
        "_lock",
        "_row",
        "_urgent",
        "_visit_over",
        "_visits_from",
        "_wake",
        "_yields",
        "claims",
        "leader",
        "visited",
        "waiting",
    )

    def __init__(self, wake: Callable[[], None]) -> None:
        """*wake* makes the leader look around."""
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
        self._bystanders = 0
        self._asleep = False  # the resident, until it is told
        self._urgent = False
        self.visited = False
        """The leader is a visitor, or the last one was."""
        self._row = 0
        """The visits before this one that followed each other within `VISIT_GAP`."""
        self._visit_over = 0.0
        """The clock when the last visitor left."""
        self._visits_from = 0.0
        """The clock at the end of the last pause without visitors."""
        self.waiting: list[None] = []
        """One for each thread that visits, or waits where others visit. The thread adds it itself,
        and takes it away. In a program, threads wait as bystanders instead."""

    def claim(self) -> None:
        """The resident leads, as soon as the current leader has left."""
        with self._lock:
            if self.leader:
                self._displace(None)
            self._begin(yields=True)

    def enter(self, *, yields: bool, visits: bool = False, patience: float | None = None) -> bool:
        """Let a guest lead, or the aide, which *yields*.  Return whether it leads.

        A guest that *visits* is a visitor: it does not lead in a pause without visitors.

        Waits *patience* seconds at most.  The aide leads only if nobody does, and a thread that
        leads already cannot lead again.
        """
        with self._lock:
            if self.claims or self._bystanders:
                return False
            now = perf_counter() if visits else 0.0
            if visits and now < self._visits_from:
                return False
            if self.leader and (
                yields
                or not self._yields
                or self.leader == get_ident()
                or not self._displace(patience)
            ):
                return False
            self._begin(yields=yields or visits)
            if visits:
                self.visited = True
                self._row = self._row + 1 if now - self._visit_over <= VISIT_GAP else 0
            return True

    def leave(self, *, urgent: bool = False, early: bool = False) -> None:
        """Lead no more.  *urgent*: there is work for the next one.

        *early*: a visitor leaves, and still waits.
        """
        with self._lock:
            self.leader = 0
            others = (self.visited or not self._yields) and len(self.waiting) > 1
            self._urgent = urgent or others or self._bystanders > 0
            if self.visited:
                self._visit_over = perf_counter()
                if early:
                    self._visits_from = self._visit_over + VISIT_PAUSE
                self._urgent = self._urgent or early or self._row < MANY
            if self.claims or self._asleep or self._urgent:
                self._changed.notify_all()

    def stand_by(self, over: Callable[[], bool], end: float | None) -> bool:
        """The resident waits until it leads again; false if *over* comes true first.

        It sleeps for a ``NAP`` at most, and takes over from an aide that has had no work all the
        time.  It is the main thread, which alone runs Python's signal handlers, and the kernel may
        have given the signal (the death of a child) to another thread.

        *end*: leads then, at the latest.
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
                    elif seen >= 0 and self.leader and not self.visited:
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
                        if soon and not self.visited:  # the next may be like it
                            patience = min(2 * patience, LONGEST_PATIENCE)
                        if self.leader and self._yields and self._leads == leads:
                            self._displace(None)  # the aide has had no work all the time
                            self._urgent = True
                    else:
                        self._changed.wait(waited)
                    continue
                self._begin(yields=True)
                return True
            return False

    def crowd(self) -> None:
        """For one of several threads that wait: a visitor leaves within ``VISIT``; see `offer`."""
        with self._lock:
            if self.visited and self.leader not in {0, get_ident()}:
                self._displace(VISIT)
            self.offer()

    def offer(self) -> None:
        """If nobody leads, the resident does, at once."""
        if not self.leader:
            with self._lock:
                if not self.leader:
                    self._urgent = True
                    self._changed.notify_all()

    def is_passed_on(self) -> bool:
        """Whether a finalizer calls this, in a thread that changes the lead at this moment."""
        return self._lock._is_owned()  # type: ignore[attr-defined,no-any-return]  # of any `RLock`

    def look(self) -> None:
        """Make the leader look around, unless that is the calling thread."""
        if self.leader != get_ident():
            self._wake()

    def tell(self) -> None:
        """A condition may have become true: have the resident check."""
        with self._lock:
            self._changed.notify_all()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """During the block the resident takes over at once, if nobody leads.

        For a bystander: in the block it waits for a message that the leading thread receives.
        """
        counted = 0
        try:
            with self._lock:
                self._bystanders += 1
                counted = 1
                if not self.leader:
                    self._urgent = True
                    self._changed.notify_all()
            yield
        finally:
            with self._lock:
                self._bystanders -= counted

    @contextmanager
    def lent(self) -> Iterator[None]:
        """For the leader: let the resident lead during the block."""
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
        self.visited = False
        self._leads += 1
        self._urgent = False

    def _displace(self, patience: float | None) -> bool:
        self.claims += 1
        try:
            self._wake()
            return self._changed.wait_for(lambda: not self.leader, patience)
        finally:
            self.claims -= 1
