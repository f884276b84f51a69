"""Rings: requests that wait for each other along several objects, found and broken.

The chain in a request finds a request that would wait for itself (see `owner`). Two methods that
call each other's objects at the same time are in no common chain. Neither can end before the other
one does: they wait in a *ring*, and would do so until their timeouts.

**Who waits for whom.** The nodes are requests. A request that runs waits for one other request at
most: the one that its code is blocked in, which only the shell knows (`Look`). A request that is
queued waits for the request that *blocks* its object: the one that runs there, or the one that
makes the object. A request on an alias waits for the answer to the `AliasRef` of the alias's owner,
or for the request that this owner passed on. So each request has one way out, and two rings have
nothing in common. Two things are no waits: a call by ``rpc_async`` before somebody asks for its
result, and a wait that ends with any one of several answers.

A request that its caller, or the owner of an alias, *holds back* (see `names`) waits for an
earlier one on the same handle. So does a request on an object, if its caller holds the creation
back. The probe goes on with the earlier one. Nobody refuses that: maybe no code waits for it, and
the one that was held back would only take its place in the ring. So a queue to which a probe comes
in this way is none in which the ring stands.

**Probes.** When requests have been queued on an object for some time, the shell says so
(`Context.suspect`). A `Probe` follows the way out of that queue, one message for each endpoint::

    owner of x                                    owner of y
        | what blocks x waits for a call on y         |
        | -- Probe(start=x, [x's run -> call]) ----> |   the call is queued on y; what blocks y
        | <- Probe(start=x, [..., y's run -> call]) - |   waits for a call on x
        | the call is queued on x, where it started   |

A probe that comes to a request which waits for nothing ends there. It keeps no state anywhere, so a
death costs nothing: a probe that is lost is sent again, as long as anything is queued.

**Never without a ring.** A probe looks at each wait at another moment, and a wait may end by its
timeout in between. So it goes round twice. Each wait has a number, and the second lap has to meet
the same waits as the first one (`Probe.before`). Every one of them lasted from its look in the
first lap to its look in the second, and all the looks of the first lap were over when the second
began. So at that moment the ring was there, whole. The queues, creations and aliases in between
need no number: no request comes back to a place that it has left.

**Exactly one victim.** The request that is refused is the one in the ring that is queued where the
probe began. A ring may stand in the queues of several objects. Only the greatest of these finds it:
a probe that comes to the queue of a greater object than the one where it began, begins anew there.
When the request has been refused, the run that made it goes on, and the ring is no more.

**Eventually.** A ring in which a request is queued that somebody waits for is found. (There may be
others: of only such waits as are for what is held back, or for functions that run.) The shell
suspects each object that has a queue again and again. A ring that nobody leaves stays as it is, so
each probe in it becomes that of the greatest of its objects, and comes round twice, unless the ring
is longer than `MAX_HOPS`.

A probe that meets itself on the way, and not where it started, has come into a ring from outside.
It ends, as those inside send their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .effects import Look, Refusal, Send
from .errors import ProtocolError
from .messages import Hop, Probe
from .names import calls_in

if TYPE_CHECKING:
    from .effects import Effect
    from .entries import Entries
    from .ids import CallId, RRefId, WorkerId
    from .owner import Owner
    from .state import Tables

MAX_HOPS = 100
"""Waits that a probe follows at most; of a longer ring each wait ends by its timeout."""


@dataclass(slots=True)
class Rings:
    """The probes that look for rings."""

    state: Tables
    entries: Entries

    # ---- what the shell says and asks

    def blocker(self, rref: RRefId) -> CallId | None:
        """The request that has to end before one that is queued on *rref* can go on, if any."""
        owner = self._foremost(rref)
        if owner is None:
            return None
        if owner.alias is not None:
            return min(owner.alias.asked, default=None)
        return owner.running or self.state.making.get(owner.rref)

    def suspect(self, rref: RRefId) -> list[Effect]:
        """Requests have been queued on *rref* for some time: send a probe."""
        return self._leave(rref, Probe(start=rref))

    def waits(self, run: CallId, call: CallId | None, number: int, what: str) -> list[Effect]:
        """The answer to a `Look`."""
        probe = self.state.looking.pop(run)
        waiting = self.state.waiting.get(call) if call is not None else None
        if call is None or waiting is None:
            return []
        hop = Hop(run=run, call=call, number=number, what=what)
        return self._follow(_longer(probe, hop), call, waiting.to, waiting.rref)

    # ---- on its way

    def receive_probe(self, sender: WorkerId, probe: Probe) -> list[Effect]:
        """*sender* waits for a request; *probe* goes on to what that waits for."""
        call, rref = probe.call, probe.rref
        if call is None or call.caller != sender:
            raise ProtocolError(f"{sender} waits for {call}, which is not its own")
        owner = self.state.owners.get(rref) if rref is not None else None
        if rref is not None and owner is not None:
            if (sender, call) in owner.asking:
                return self._leave(rref, probe)
            if any(request.call == call for _, request in owner.queue):
                if probe.path and _holds_back(probe.path[-1]):
                    return self._leave(rref, probe)
                if rref == probe.start:
                    return self._came_round(owner, sender, call, probe)
                return self._leave(rref, probe if rref < probe.start else Probe(start=rref))
        ours = self.state.relayed.get(call)
        passed_on = self.state.waiting.get(ours) if ours is not None else None
        if ours is not None and passed_on is not None:
            return self._follow(probe, ours, passed_on.to, passed_on.rref)
        return self._look(call, probe)

    def _follow(
        self, probe: Probe, call: CallId, to: WorkerId, rref: RRefId | None
    ) -> list[Effect]:
        """*probe* goes to where *call*, of this endpoint, waits, or what it is held back behind."""
        first = self._in_front(call, rref)
        waiting = self.state.waiting.get(first)
        if first != call and waiting is not None:
            what = f"{call} on {rref} is held back until {first} is answered"
            probe = _longer(probe, Hop(run=call, call=first, what=what))
            call, to, rref = first, waiting.to, waiting.rref
        return [Send(to, replace(probe, call=call, rref=rref))]

    def _leave(self, rref: RRefId, probe: Probe) -> list[Effect]:
        """*probe* is in the queue on *rref*, and goes on to what blocks that."""
        call = self.blocker(rref)
        asking = self.state.asking
        alias = self.state.aliases.get(asking[call]) if call in asking else None
        if call is None or alias is None:
            return self._look(call, probe)
        about = alias.asked[call]
        hop = Hop(run=call, call=call, what=f"{alias.rref} is an alias of {about}")
        home = self.entries.home(self.entries.entry(about))
        return [] if _has_met(probe, call) else self._follow(_longer(probe, hop), call, home, about)

    def _look(self, run: CallId | None, probe: Probe) -> list[Effect]:
        if run is None or _has_met(probe, run):
            return []
        self.state.looking[run] = probe
        return [Look(run)]

    def _came_round(
        self, owner: Owner, sender: WorkerId, call: CallId, probe: Probe
    ) -> list[Effect]:
        """All the requests on the way wait, the last one in the queue where *probe* began."""
        if not probe.before:
            return self._leave(owner.rref, Probe(start=probe.start, before=probe.path))
        if probe.path != probe.before:
            return []
        return self.entries.after(owner, owner.cancel(sender, call, Refusal.RING, probe.path))

    # ---- what is in the way

    def _in_front(self, call: CallId, rref: RRefId | None) -> CallId:
        """The request that has to be answered before *call*, or its object's creation, leaves.

        It is *call* itself if both have left.
        """
        state = self.state
        _, creation = state.creating.get(rref, (None, None)) if rref is not None else (None, None)
        late = state.held_calls & {call, creation}
        for name, held in state.held.items() if late else ():
            if late & calls_in(held):
                pending = self.entries.entry(name).pending
                sent = pending & state.waiting.keys() - state.held_calls
                return state.fetching.get(name) or min(sent, default=call)
        return call

    def _foremost(self, rref: RRefId) -> Owner | None:
        """The object whose turn a request on *rref* waits for.

        It is another one if *rref* is to be made by a method that is still queued there.
        """
        seen: set[RRefId] = set()
        owner = self.state.owners.get(rref)
        while owner is not None and owner.rref not in seen:
            seen.add(owner.rref)
            making = self.state.making.get(owner.rref)
            target = self.state.owners.get(owner.target) if owner.target is not None else None
            if target is None or all(each.call != making for _, each in target.queue):
                return owner
            owner = target
        return None


def _has_met(probe: Probe, run: CallId) -> bool:
    """Whether *probe* has been there, or has come too far."""
    return len(probe.path) >= MAX_HOPS or any(hop.run == run for hop in probe.path)


def _holds_back(hop: Hop) -> bool:
    """Whether it is no wait of a run or an alias, but of a request that is held back."""
    return not hop.number and hop.run != hop.call


def _longer(probe: Probe, hop: Hop) -> Probe:
    return replace(probe, path=(*probe.path, hop))
