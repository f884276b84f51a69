"""The state of one run, a plain value, and all its transitions.

A *node* joins a *round* of a *run*. A round is a barrier: it is complete when `max_nodes` have
come, or when at least `min_nodes` have and the last call for others is over::

              join                     max nodes, or last call over
    forming --------> more nodes there ----------------------------> complete
       ^                                                                 |
       |   every participant left, died, or joined again                 | later nodes wait; if it
       +-----------------------------------------------------------------+ is full, as spares

A node is in one of three lists: *participants* of this round; *waiting* for the next one; or
*spares* (the redundancy list), while there is no room for them. The state contains no times:
`Observer` has the clock. Invariants (explored):

* **exclusivity**: a round begins only when the previous one has no participant left: each of its
  members has left, is dead, or has joined again. So there is one group at a time;
* **consistency**: the members of a completed round, and their ranks, never change, even if one
  dies; no other node ever becomes a member;
* participants and waiting nodes together are at most `max_nodes`; a spare waits only while they are
  exactly that many, and steps in as soon as a place is free;
* the last call is open while at least `min_nodes` and fewer than `max_nodes` are there. Each
  opening has a number, so that an observer cannot mistake a later one for the one that it saw;
* **rank 0 stays while it lives**, and everybody keeps their rank while the group is large enough;
* **closed is final** for all nodes that are there. When the last of them has left, the run is over,
  and its id is free for a new run, with later round numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple, assert_never

import msgspec
from msgspec.structs import replace

from ..errors import RendezvousClosedError, RendezvousGracefulExitError, RendezvousStateError
from ..ids import Number, WorkerId
from .limits import RoundLimits
from .ranks import ranked


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """*node* wants a round with a number above *after*, its last round as a member.

    It may be repeated. A member of the completed round that wants a later one leaves its round by
    this command, and waits for the next.
    """

    node: WorkerId
    limits: RoundLimits
    address: str = ""
    """The node's address for the others, who see it among the round's members."""
    order: int | None = None
    """Newcomers get their ranks in this order; those without one follow, in natural order."""
    after: int = -1


class Leave(msgspec.Struct, frozen=True):
    """These nodes are gone: they left, died, or were given up for dead."""

    nodes: tuple[WorkerId, ...]


class Finish(msgspec.Struct, frozen=True):
    """The last call is over, if there is one."""


class Beat(msgspec.Struct, frozen=True):
    """*node* is alive. Used only where nodes give signs of life through the state."""

    node: WorkerId


class Close(msgspec.Struct, frozen=True):
    """The run ends: there will be no further round."""


Command = Join | Leave | Finish | Beat | Close
"""Equal commands turn equal states into equal states: they depend on no clock, no chance and no
order of sets. So a standby that repeats the commands has the state."""


class Seat(NamedTuple):
    """What the state knows of a present node."""

    address: str = ""
    order: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    beat: Number = 0
    """Grows with each keep-alive: an observer that sees it grow knows that the node lives."""


class Member(NamedTuple):
    """A member of a completed round; its rank is its place in the list."""

    node: WorkerId
    address: str


class Membership(NamedTuple):
    """A completed round, as one of its members sees it."""

    round: int
    rank: int
    members: tuple[Member, ...]


Seats = Mapping[WorkerId, Seat]


class State(msgspec.Struct, frozen=True):
    """One run. Its mappings are never changed."""

    limits: RoundLimits
    round: int = 0
    """The number of the present round, which is forming or, when *complete*, is on."""
    complete: bool = False
    closed: bool = False
    call: int = 0
    """How many last calls have opened so far."""
    members: tuple[Member, ...] = ()
    """By rank: the members of this round if it is complete, else those of the previous one."""
    participants: Seats = {}
    waiting: Seats = {}
    spares: Seats = {}

    # ---- questions

    @property
    def calling(self) -> bool:
        """Whether the last call is open."""
        return (
            not self.complete
            and not self.closed
            and len(self.participants) >= self.limits.min_nodes
        )

    @property
    def empty(self) -> bool:
        return not (self.participants or self.waiting or self.spares)

    def seat(self, node: WorkerId) -> Seat | None:
        """The seat of *node*; None if it is not there (any more)."""
        return self.participants.get(node) or self.waiting.get(node) or self.spares.get(node)

    def seats(self) -> dict[WorkerId, Seat]:
        """Everybody who is there."""
        return {**self.participants, **self.waiting, **self.spares}

    def membership(self, node: WorkerId) -> Membership | None:
        """The membership of *node*, if this round is complete and *node* is still in it."""
        if not self.complete or node not in self.participants:
            return None
        rank = next(rank for rank, member in enumerate(self.members) if member.node == node)
        return Membership(self.round, rank, self.members)

    def lost(self) -> list[WorkerId]:
        """Members of the completed round that left or died: the round will not be whole again."""
        if not self.complete or len(self.participants) == len(self.members):
            return []
        here = (self.participants, self.waiting)
        return [m.node for m in self.members if not any(m.node in seats for seats in here)]

    def news(self, node: WorkerId, number: int) -> str | None:
        """Why *node*, member of round *number*, should meet the others again; None: all is well."""
        if self.closed:
            return "the run was closed"
        if self.round != number or not self.complete:
            return f"round {number} is over"
        if node not in self.participants:
            return f"{node} has left it, or was given up for dead"
        if lost := self.lost():
            return f"lost: {', '.join(map(str, lost))}"
        if self.waiting:
            return f"waiting: {', '.join(map(str, self.waiting))}"
        return None

    def waiting_for(self, node: WorkerId, number: int) -> int:
        """How many nodes wait for the next round; if above 0, *node* should meet the others again.

        *number* is the round of which *node* is a member (-1: of none). If that round has changed,
        the result is at least 1. It is 0 once the run is closed, as no further round will come.
        """
        if self.closed:
            return 0
        again = number >= 0 and self.news(node, number) is not None
        return max(int(again), len(self.waiting))

    # ---- transitions

    def apply(self, command: Command) -> State:
        """The state after *command*; this very object if it changes nothing.

        Raises `RendezvousError`; then the state stays as it is.
        """
        match command:
            case Join():
                return self._join(command)
            case Leave(nodes):
                return self._leave(nodes)
            case Finish():
                return self._completed() if self.calling else self
            case Beat(node):
                return self._beat(node)
            case Close():
                return self if self.closed else replace(self, closed=True)
            case _:
                assert_never(command)

    def _join(self, join: Join) -> State:
        node = join.node
        if self.closed:
            self._refuse(node)
        if self.limits != join.limits and not self.empty:
            raise RendezvousStateError(
                f"{node} asks for {_nodes(join.limits)}, but this run is for "
                f"{_nodes(self.limits)}; give all nodes the same numbers"
            )
        if node in self.waiting or node in self.spares:
            return self
        if node in self.participants:
            return self._join_again(join)
        seat = Seat(join.address, join.order)
        state = self
        if self.limits != join.limits:  # nobody is there, so nobody keeps a rank
            state = replace(self, limits=join.limits, members=())
        if not self.complete:
            state = replace(state, participants={**self.participants, node: seat})
        elif len(self.participants) + len(self.waiting) < self.limits.max_nodes:
            state = replace(state, waiting={**self.waiting, node: seat})
        else:
            state = replace(state, spares={**self.spares, node: seat})
        return state._advanced(self)

    def _join_again(self, join: Join) -> State:
        node = join.node
        if not self.complete or self.round > join.after:
            return self  # the command was repeated
        seat = Seat(join.address, join.order, self.participants[node].beat)
        return replace(
            self,
            participants=_without(self.participants, (node,)),
            waiting={**self.waiting, node: seat},
        )._advanced(self)

    def _refuse(self, node: WorkerId) -> None:
        if node in self.spares:
            raise RendezvousGracefulExitError(
                f"the run was closed while {node} stood by as a spare; it was not needed, and ends"
            )
        raise RendezvousClosedError(
            f"{node} cannot join: the run was closed. Use another run id, or wait until all its "
            "nodes have left or were given up for dead"
        )

    def _leave(self, nodes: tuple[WorkerId, ...]) -> State:
        state = replace(
            self,
            participants=_without(self.participants, nodes),
            waiting=_without(self.waiting, nodes),
            spares=_without(self.spares, nodes),
        )
        if state.closed and state.empty:
            return State(self.limits, self.round + 1, call=self.call)
        return self if state == self else state._advanced(self)

    def _beat(self, node: WorkerId) -> State:
        seat = self.seat(node)
        if seat is None:
            return self
        beaten = {node: seat._replace(beat=seat.beat + 1)}
        if node in self.participants:
            return replace(self, participants={**self.participants, **beaten})
        if node in self.waiting:
            return replace(self, waiting={**self.waiting, **beaten})
        return replace(self, spares={**self.spares, **beaten})

    # ---- changes without a command

    def _advanced(self, before: State) -> State:
        """This state after all changes that follow without a command."""
        if self.closed:
            return self
        state = self
        if state.complete and not state.participants:  # exclusivity: not a moment sooner
            state = replace(
                state, round=state.round + 1, complete=False, participants=state.waiting, waiting={}
            )
        state = state._filled()
        if len(state.participants) >= state.limits.max_nodes and not state.complete:
            return state._completed()
        if state.calling and not before.calling:
            state = replace(state, call=state.call + 1)
        return state

    def _filled(self) -> State:
        """Spares step in where there is room, in the order of their arrival."""
        room = self.limits.max_nodes - len(self.participants) - len(self.waiting)
        if not self.spares:
            return self
        called = dict(list(self.spares.items())[:room])
        spares = _without(self.spares, called)
        if self.complete:
            return replace(self, waiting={**self.waiting, **called}, spares=spares)
        return replace(self, participants={**self.participants, **called}, spares=spares)

    def _completed(self) -> State:
        orders = {node: seat.order for node, seat in self.participants.items()}
        nodes = ranked(orders, [member.node for member in self.members])
        members = tuple(Member(node, self.participants[node].address) for node in nodes)
        return replace(self, complete=True, members=members)


def _without(seats: Seats, nodes: Mapping[WorkerId, object] | tuple[WorkerId, ...]) -> Seats:
    gone = [node for node in nodes if node in seats]
    if not gone:
        return seats
    left = dict(seats)
    for node in gone:
        del left[node]
    return left


def _nodes(limits: RoundLimits) -> str:
    return f"{limits.min_nodes} to {limits.max_nodes} nodes"
