"""A user's view of one reference: whether it is confirmed, its children, and its `Delete`.

An endpoint keeps **one** user entry of an object, however many forks reach it. The entry is
*confirmed* as soon as the owner counts one fork of it (`User.known` is not empty). While it is not,
at most one request is outstanding (`User.requested`: the `Create` that made it, or a
`ForkRequest`). `states.UserState` has the states. The effects of a fork's arrival:

===================  =========================  =========================================
the entry is         the parent is the owner    the parent is another user
===================  =========================  =========================================
absent               known, no message          `ForkRequest`; `ChildAck` owed to parent
pending              known, confirmed by it     `ChildAck` owed until the owner confirms
confirmed            known, no message          `ChildAck` at once: this entry is counted
===================  =========================  =========================================

Invariants:

* **G2** a fork that was passed on is pinned in ``children`` until its `ChildAck`, and a child sends
  its `ChildAck` only once the owner counts its endpoint;
* **G1** the entry ends with one `Delete` that names every known fork, and only when no request is
  outstanding: so the `Delete` overtakes no message that it depends on, and the owner needs no
  tombstones;
* an unanswered fetch or call on the object (``pending``) keeps the entry: its message may
  still be on its way to the owner, and a `Delete` must not overtake it.

A user entry of this class shares in calls by forking; `lending` and `borrowing` have their own
entries (see `sharing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from .effects import Confirmed, Effect, Send
from .empty import EMPTY, EMPTY_SET, Few, added
from .errors import ProtocolError
from .ids import CallId, ForkId, RRefId, WorkerId
from .messages import Ack, ChildAck, Delete, Descriptor, ForkRequest, Grip, Passing, Report


class Loan(msgspec.Struct, frozen=True, gc=False):
    """A loan to this endpoint, for a call that runs here."""

    lender: WorkerId | None
    """None once the lender has died."""
    counted: bool
    """The owner counts the lender until the loan ends."""


class User(msgspec.Struct, gc=False, eq=False):
    """The one entry of this endpoint for an object of another endpoint: all handles and forks.

    It holds only ids, numbers and tables of them, so it is in no cycle, and Python's garbage
    collector need not track it.
    """

    rref: RRefId
    owner: WorkerId
    born: float = 0.0
    """When the entry was made, by the shell's clock (`Tables.now`)."""
    lost: bool = False
    """The owner died."""
    handles: int = 0
    """Live handles in this process."""
    messages: int = 0
    """Messages that hold the reference until they have been handled."""
    known: Few = ()
    """This endpoint's forks that the owner counts."""
    requested: ForkId | None = None
    """The fork whose `Ack` is outstanding."""
    owed: dict[ForkId, WorkerId] = EMPTY
    """Forks with parents that wait for a `ChildAck` until the owner confirms."""
    children: dict[ForkId, WorkerId] = EMPTY
    """Forks passed on and not confirmed yet, with the receiver of each (G2)."""
    pending: set[CallId] = EMPTY_SET
    """Requests on the object that the owner has not answered yet."""
    loans: dict[ForkId, Loan] = EMPTY
    """Loans that brought the reference here, for calls that still run; see `lending`."""
    lent: dict[ForkId, bool] = EMPTY
    """Children that are loans for unanswered calls; true once the `ChildAck` has come."""
    canonical: bool = False
    """The owner has answered a request on the object itself, so the object is not an alias."""
    stamp: int = 0
    """The references and requests that have left from here (see `cycles`)."""

    @property
    def confirmed(self) -> bool:
        """The owner counts this endpoint."""
        return bool(self.known)

    # ---- holding the reference

    def create(self, fork: ForkId) -> None:
        """This endpoint requested the object: its own fork goes with the `Create`."""
        self.requested = fork

    def fork(self, fork: ForkId, to: WorkerId) -> None:
        """Share with *to*: pin this entry until the child is confirmed (G2)."""
        self.children = self.children or {}
        self.children[fork] = to

    # ---- loans, of which this discipline has none: it forks instead

    @property
    def counted(self) -> bool:
        """Whether the owner counts this endpoint, or will do so when the creation arrives."""
        return self.confirmed

    def lend(self, fork: ForkId, to: WorkerId, *, replies: bool) -> Passing:
        """Share with *to* for a call; with *replies* false the call has no reply."""
        self.fork(fork, to)
        return Passing.FORK

    def loan_ended(self, sender: WorkerId, fork: ForkId, report: Report | None) -> list[Effect]:
        """The call for which *fork* was lent to *sender* has run."""
        raise ProtocolError(f"{sender} returned {fork} of {self.rref}, which was not lent")

    def borrow(self, descriptor: Descriptor) -> list[Effect]:
        """The reference came as a loan; its message holds the entry."""
        raise AssertionError(f"{descriptor.fork} of {self.rref} came as a loan; this system forks")

    def end_loan(self, fork: ForkId, *, replies: bool) -> tuple[Report | None, list[Effect]]:
        """The call for which *fork* was lent to this endpoint has run here: returns the report."""
        raise AssertionError(f"{fork} of {self.rref} is not a loan (with a reply: {replies})")

    @staticmethod
    def bereaved(worker: WorkerId, users: Iterable[User]) -> list[User]:
        """Those of *users* that *worker* owned, or that `died` may change."""
        return [user for user in users if user.owner == worker or user.loans]

    def died(self, worker: WorkerId, allocate: Callable[[], ForkId]) -> list[Effect]:
        """*worker* is dead: tell the owner of this entry if needed. *allocate* makes a fork."""
        return []

    # ---- references on the way

    def abandon(self, fork: ForkId) -> list[Effect]:
        """Undo a fork whose message never left."""
        del self.children[fork]
        self.children = self.children or EMPTY
        return self.end_if_unused()

    def arrive(self, descriptor: Descriptor) -> list[Effect]:
        """The reference arrived, for good; the message that brought it holds the entry."""
        if descriptor.parent == self.owner:
            return self._know(descriptor.fork)
        if self.confirmed:
            return [Send(descriptor.parent, ChildAck(rref=self.rref, fork=descriptor.fork))]
        self.owed = self.owed or {}
        self.owed[descriptor.fork] = descriptor.parent
        if self.requested is not None:
            return []
        self.requested = descriptor.fork
        return [Send(self.owner, ForkRequest(rref=self.rref, fork=descriptor.fork))]

    # ---- control messages

    def ack(self, sender: WorkerId, message: Ack) -> list[Effect]:
        """unconfirmed -> confirmed: the waiting parents may unpin."""
        if sender != self.owner or message.fork != self.requested:
            raise ProtocolError(f"{sender} acknowledged fork {message.fork} of {self.rref} unasked")
        self.requested = None
        effects = self._know(message.fork)
        return effects if self.handles else effects + self.end_if_unused()

    def _know(self, fork: ForkId) -> list[Effect]:
        effects: list[Effect] = []
        if self.known:
            self.known = added(self.known, fork)
        else:
            self.known = (fork,)
            effects.append(Confirmed(self.rref))
        if self.owed:
            owed, self.owed = self.owed, EMPTY
            for child, parent in owed.items():
                effects.append(Send(parent, ChildAck(rref=self.rref, fork=child)))
        return effects

    def child_ack(self, sender: WorkerId, message: ChildAck) -> list[Effect]:
        """The owner counts the child: its pin ends (G2)."""
        if self.children.get(message.fork) != sender:
            raise ProtocolError(
                f"{sender} acknowledged child {message.fork} of {self.rref}, which it did not get"
            )
        del self.children[message.fork]
        self.children = self.children or EMPTY
        return [] if self.handles else self.end_if_unused()

    # ---- the end

    def lose(self) -> None:
        """The owner died: it counts no fork any more, and no parent is owed a `ChildAck`."""
        self.lost = True
        self.requested = None
        self.owed = EMPTY
        self.children = EMPTY
        self.pending = EMPTY_SET

    @staticmethod
    def holding(users: Iterable[User]) -> list[User]:
        """Those of *users* that `forget` may change."""
        return [user for user in users if user.children or user.owed]

    def forget(self, worker: WorkerId) -> list[Effect]:
        """Release all that is pinned for, or owed to, the dead *worker*."""
        self.children = {fork: to for fork, to in self.children.items() if to != worker} or EMPTY
        owed = {fork: parent for fork, parent in self.owed.items() if parent != worker}
        self.owed = owed or EMPTY
        return self.end_if_unused()

    @property
    def in_use(self) -> bool:
        """A part of this process, or a child, needs the reference."""
        return bool(self.handles or self.messages or self.pending or self.children)

    @property
    def at_rest(self) -> bool:
        """Nothing but handles needs the reference, and no request to its owner is outstanding."""
        busy = self.messages or self.pending or self.children or self.loans
        return not busy and self.requested is None

    @property
    def unused(self) -> bool:
        """Nothing needs the reference, and no request to its owner is outstanding."""
        # As `at_rest`, without a call: there may be very many.
        busy = self.handles or self.messages or self.pending or self.children or self.loans
        return not busy and self.requested is None

    def grip(self, by: Iterable[RRefId]) -> Grip:
        """How this endpoint holds the object, through the objects *by*."""
        forks = tuple(sorted(self.known))
        return Grip(rref=self.rref, stamp=self.stamp, by=tuple(by), forks=forks)

    def end_if_unused(self) -> list[Effect]:
        """Send the `Delete` as soon as nothing needs the reference (G1), and never before (G2)."""
        return self.leave() if self.unused else []

    def leave(self) -> list[Effect]:
        """End an unused entry: if the owner lives and counts forks of it, send their `Delete`."""
        if self.lost or not self.known:
            return []
        known = self.known if len(self.known) == 1 else sorted(self.known)
        return [Send(self.owner, Delete(rref=self.rref, forks=tuple(known)))]
