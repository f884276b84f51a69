"""One node, where the state of the run is shared by compare-and-set.

There is no service. Each node looks at the stored state, decides on the next state, and tries to
store that. If another node was faster, it looks again. A decision takes effect only when it is
stored. The store accepts it only if the state has not changed since the node looked.

    look at the stored state -> `Decision.state` -> store it, if nobody stored another since
         ^                                             |              |
         +---------------- another was faster ---------+              +-> `Decision.outcome` holds

Every node is an `Observer` with its own clock. So each node may remove silent nodes, and may end
the last call, in which nodes can still join. The first node to do so does it for all.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ..errors import (
    RendezvousClosedError,
    RendezvousError,
    RendezvousStateError,
    RendezvousTimeoutError,
)
from ..ids import WorkerId
from .limits import RoundLimits, Timeouts
from .observer import Observer
from .state import Beat, Close, Join, Leave, Membership, State


class Decision(msgspec.Struct, frozen=True):
    """The state to store, and the outcome once it is stored (at once, if it is stored already)."""

    state: State
    outcome: Membership | RendezvousError | None = None
    """The membership, if the round has formed; the error, if it failed here; None: look again
    later."""


class Attendant:
    """Acts for one node in one run."""

    __slots__ = (
        "_after",
        "_deadline",
        "_join",
        "_lived",
        "_observer",
        "_said",
        "_timeouts",
        "node",
    )

    def __init__(
        self,
        node: WorkerId,
        limits: RoundLimits,
        timeouts: Timeouts,
        now: float,
        *,
        address: str = "",
        order: int | None = None,
    ) -> None:
        self.node = node
        self._timeouts = timeouts
        self._observer = Observer(timeouts, now)
        self._join = Join(node=node, limits=limits, address=address, order=order)
        self._after = -1
        self._said: tuple[int, float] | None = None
        """The last beat that this node tried to store, and the time of that."""
        self._lived = now
        """The time when it tried to store the last beat that was stored."""
        self._deadline: float | None = None
        """The round must form by this time; None while this node wants no round."""

    @property
    def joining(self) -> bool:
        """Whether this node waits for a round to form."""
        return self._deadline is not None

    def begin(self, now: float, *, address: str | None = None) -> None:
        """Ask for a round; a member of one asks for a later one. It may give another *address*."""
        if address is not None:
            self._join = replace(self._join, address=address)
        self._deadline = now + self._timeouts.join

    def look(self, stored: State | None, now: float) -> Decision:
        """This node's decision on the *stored* state (None: no state is stored yet)."""
        state = stored or State(self._join.limits)
        seat = state.seat(self.node)
        if seat is not None and self._said is not None and self._said[0] == seat.beat:
            self._lived = self._said[1]
        for command in self._observer.look(state, now):
            if isinstance(command, Leave):  # a node that looks is alive
                command = Leave(tuple(n for n in command.nodes if n != self.node))  # noqa: PLW2901 - the same, without this node
            state = state.apply(command)
        if self._deadline is not None:
            decision = self._seek(state, now, self._deadline)
        elif seat is None:
            decision = Decision(state, self._gone(state))
        else:
            decision = Decision(self._beaten(state, now))
        wanted = decision.state.seat(self.node)
        if wanted is not None and (seat is None or wanted.beat != seat.beat):
            self._said = wanted.beat, now
        return decision

    def _seek(self, state: State, now: float, deadline: float) -> Decision:
        try:
            joined = state.apply(replace(self._join, after=self._after))
        except RendezvousError as error:
            there = state.seat(self.node) is not None
            unsure = not (state.empty or there or self._observer.lively) and now < deadline
            if isinstance(error, RendezvousClosedError) and unsure:
                # Perhaps all who closed it are dead; once they are given up, its id is free.
                return Decision(state)
            return Decision(self.leave(state) if there else state, error)
        membership = joined.membership(self.node)
        if membership is None and now >= deadline:
            return Decision(self.leave(state), self._late(joined))
        return Decision(self._beaten(joined, now), membership)

    def resolved(self, outcome: Membership | RendezvousError) -> None:
        """A decision with this outcome is stored."""
        self._deadline = None
        if isinstance(outcome, Membership):
            self._after = outcome.round

    def leave(self, stored: State) -> State:
        """The state to store so that this node is gone."""
        return stored.apply(Leave((self.node,)))

    def close(self, stored: State | None) -> State:
        """The state to store so that the run is closed."""
        return (stored or State(self._join.limits)).apply(Close())

    def pause(self, now: float) -> float:
        """Seconds until this node must look again, if no event makes it look sooner."""
        beat = self._lived + self._timeouts.keep_alive - now
        observed = self._observer.pause()
        return max(0.0, beat if observed is None else min(beat, observed))

    def _beaten(self, state: State, now: float) -> State:
        due = now - self._lived >= self._timeouts.keep_alive
        return state.apply(Beat(self.node)) if due else state

    def _late(self, state: State) -> RendezvousTimeoutError:
        return RendezvousTimeoutError(
            f"{self.node} waited {self._timeouts.join:g} s for round {state.round}: "
            f"{len(state.participants)} of at least {state.limits.min_nodes} nodes "
            + ("are still in it" if state.complete else "came")
        )

    def _gone(self, state: State) -> RendezvousStateError:
        what = "the run is over" if state.round > self._after and state.empty else "others go on"
        return RendezvousStateError(
            f"{self.node} is not in the rendezvous any more ({what}): it left, or was silent for "
            f"{self._timeouts.silence:g} s and was given up for dead; join again"
        )
