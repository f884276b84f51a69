"""Which candidate is the registrar: the holder of a lease in the store.

A candidate asks the store one question at a time, at most one in each tick of its own clock. It
asks nothing while the registrar is heard of. Once its host suspects that the registrar is gone, it
looks who holds the lease. If nobody does, it gets a lease of its own and stands for the role: the
store makes the key only if there is none, in one step.

An answer may be lost. Then the candidate looks again, and may find itself: the key names its
candidate. So a candidate leads exactly if it has seen its own name in the store; and it may learn
late, or never, that this is over. That is no danger: see `Ledger`.
"""

from __future__ import annotations

import msgspec


class Grant(msgspec.Struct, frozen=True):
    """Candidate -> store: give me a lease."""


class Stand(msgspec.Struct, frozen=True):
    """Candidate -> store: if there is no registrar, I am the one, as long as *lease* lasts."""

    lease: int


class Renew(msgspec.Struct, frozen=True):
    """Candidate -> store: let *lease* last for another while."""

    lease: int


class WhoLeads(msgspec.Struct, frozen=True):
    """Candidate -> store: who is the registrar?"""


Question = Grant | Stand | Renew | WhoLeads


class Granted(msgspec.Struct, frozen=True):
    """Store -> candidate: your lease."""

    lease: int


class Renewed(msgspec.Struct, frozen=True):
    """Store -> candidate: your lease lasts."""


class Expired(msgspec.Struct, frozen=True):
    """Store -> candidate: the lease has expired, or never existed."""


class Vacant(msgspec.Struct, frozen=True):
    """Store -> candidate: there is no registrar."""


class Holder(msgspec.Struct, frozen=True):
    """Store -> candidate: the registrar."""

    term: int
    """The revision of the store at which this candidate became the registrar."""
    who: str
    lease: int
    home: bytes = b""
    """The way to it, as the candidate wrote it."""


Answer = Granted | Renewed | Expired | Vacant | Holder


class TakeOver(msgspec.Struct, frozen=True):
    """You are the registrar, of this term. Read the facts, and forget all that you knew."""

    term: int


class Deposed(msgspec.Struct, frozen=True):
    """You are not the registrar any more: send nothing further."""


class Follow(msgspec.Struct, frozen=True):
    """Another candidate is the registrar."""

    holder: Holder


class Campaign(msgspec.Struct, eq=False):
    """One candidate."""

    me: str
    """A name that no other candidate has, and no earlier life of this one."""
    term: int = 0
    """The term of the latest registrar that this candidate has heard of."""
    leads: bool = False
    lease: int = 0
    _suspects: bool = True
    _vacant: bool = False
    _asked: Question | None = None

    def suspect(self) -> None:
        """This host no longer hears of the registrar."""
        self._suspects = True

    def heard(self, term: int) -> None:
        """This host has heard of the registrar of *term*."""
        if term >= self.term:
            self.term = term
            self._suspects = False

    def tick(self) -> Question | None:
        """A tick has passed. Returns the question for the store, if there is one now."""
        if self._asked is not None:
            return None
        if self.leads:
            self._asked = Renew(self.lease)
        elif self._suspects:
            self._asked = self._next()
        return self._asked

    def _next(self) -> Question:
        if not self._vacant:
            return WhoLeads()
        return Stand(self.lease) if self.lease else Grant()

    def answered(self, answer: Answer | None) -> list[TakeOver | Deposed | Follow]:
        """Take the answer to the last question; None if none came. Returns the consequences."""
        asked, self._asked = self._asked, None
        match answer:
            case Granted(lease=lease):
                self.lease = lease
            case Expired():
                self.lease = 0
                return self._deposed()
            case Vacant():
                self._vacant = True
                return self._deposed()
            case Holder(who=who) if who == self.me:
                return self._elected(answer)
            case Holder():
                self._vacant = False
                return self._deposed() + self._follow(answer)
            case _ if not isinstance(asked, Renew):
                self._vacant = False  # the store may have done it: look
        return []

    def deposed(self) -> list[TakeOver | Deposed | Follow]:
        """The store has refused a change: there is a later registrar, or none."""
        self._vacant = False
        return self._deposed()

    def _elected(self, holder: Holder) -> list[TakeOver | Deposed | Follow]:
        self._vacant = self._suspects = False
        if self.leads and self.term == holder.term:
            return []
        self.leads, self.term, self.lease = True, holder.term, holder.lease
        return [TakeOver(holder.term)]

    def _deposed(self) -> list[TakeOver | Deposed | Follow]:
        if not self.leads:
            return []
        self.leads, self._suspects = False, True
        return [Deposed()]

    def _follow(self, holder: Holder) -> list[TakeOver | Deposed | Follow]:
        if holder.term <= self.term:
            return []
        self.term = holder.term
        return [Follow(holder)]
