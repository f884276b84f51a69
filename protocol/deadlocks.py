"""Deadlocks: requests that wait for each other along several objects, in a ring, found and broken.

A request that would wait for itself is found by its chain (see `owner`). But two methods that call
each other's objects at the same time have no common chain. Neither can end before the other: they
wait in a *ring*, until their timeouts end it.

**Waits.** The nodes are requests. A running request waits for at most one other request: the one
that its code is blocked in, which only the shell knows (`Look`). A queued request waits for the
request that *blocks* its object: the one that runs there, or the one that makes the object. A
request on an alias waits for the answer to the `AliasRef` of the alias's owner, or for the request
that this owner passed on. So each request has one way out, and two rings have nothing in common.
A call by ``rpc_async`` is no wait before somebody asks for its result, nor is a wait that any one
of several answers ends.

In three cases a probe comes to a queue that is not part of the ring, so nothing there is refused:

* A request that awaits has no turn, so nobody waits for it. When it can go on, it waits in the
  queue for a new turn. It has begun, and is never refused.
* A caller, or the owner of an alias, may *hold back* a request behind an earlier one on the same
  handle (see `names`). The probe goes on with the earlier request. To refuse that one would not
  help: maybe no code waits for it, and the one behind it would take its place in the ring.
* A creation may be held back, too. Requests on the object overtake it, and wait at its owner, which
  knows nothing else of the object. So the probe goes on to the endpoint that named the object, and
  from there with the earlier request. If that is a creation itself, the owner of an alias may hold
  it back while its caller waits for the acknowledgement. So the probe goes to this owner.

**Probes.** When requests have been queued on an object for some time, the shell reports it
(`Context.suspect`). A `Probe` follows the way out of that queue, one message for each endpoint::

    owner of x                                    owner of y
        | the blocker of x waits for a call on y      |
        | -- Probe(start=x, [x's run -> call]) ----> |   the call is queued on y; the blocker
        | <- Probe(start=x, [..., y's run -> call]) - |   of y waits for a call on x
        | the call is queued on x, where it started   |

A probe that comes to a request without a wait ends there. It keeps no state anywhere, so a death
costs nothing: a lost probe is sent again, as long as a request is queued.

**Never without a ring.** A probe looks at each wait at another moment, and a wait may end by its
timeout in between. So the probe goes round twice. Each wait has a number, and the second lap has to
meet the same waits as the first one (`Probe.before`). Each of these waits lasted from its look in
the first lap to its look in the second, and all looks of the first lap were over when the second
lap began. So at that moment the whole ring existed. The queues, creations and aliases in between
need no number: no request comes back to a place that it has left.

**Exactly one victim.** The refused request is the one of the ring in the queue where the probe
began. A ring may stand in the queues of several objects. Only the greatest of these objects finds
it: when a probe comes to the queue of a greater object than its start, it begins anew there. When
the request has been refused, the run that made it goes on, and the ring is gone.

**Eventually.** A ring is found if code in it waits for a queued request, and if it is not longer
than `MAX_HOPS`. (Other rings consist only of waits for requests that are held back, for functions
that run, or for methods that want a new turn.) The shell suspects each object with a queue again
and again, and a ring stays until something breaks it. A probe in it begins anew at each greater
object, so at last it begins at the greatest one, and from there it comes round twice. A probe that
meets itself on the way, and not at its start, has come into a ring from outside. It ends, as the
requests inside cause probes of their own.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from .effects import Effect, Look, Refusal, Send
from .entries import Entries
from .errors import ProtocolError
from .ids import CallId, RRefId, WorkerId
from .messages import Hop, Probe
from .owner import Owner
from .state import Tables

MAX_HOPS = 100
"""The most waits that a probe follows; in a longer ring each wait ends by its timeout."""


class DeadlockDetector(msgspec.Struct):
    """The probes of this endpoint, which look for rings of requests."""

    state: Tables
    entries: Entries

    # ---- calls of the shell

    def blocker(self, rref: RRefId) -> CallId | None:
        """The request that has to end before one in the queue of *rref* can go on, if known."""
        owner = self._foremost(rref)
        if owner is None:
            return None
        if owner.alias is not None:
            return min(owner.alias.asked, default=None)
        return self.state.holder(owner)

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
        """*sender* waits for a request; *probe* goes on to that request's own wait."""
        call, rref = probe.call, probe.rref
        if call is None and rref is not None and rref.creator == self.state.me:
            return self._creation(rref, probe)
        if call is None and rref is not None and rref.creator == sender:
            return self._passed_on(rref, probe)
        if call is None or call.caller != sender:
            raise ProtocolError(f"{sender} waits for {call}, which is not its own")
        owner = self.state.owners.get(rref) if rref is not None else None
        if rref is not None and owner is not None:
            if call in owner.asking:
                return self._leave(rref, probe)
            if call in owner.queue:
                held_back = probe.path and _holds_back(probe.path[-1])
                if held_back or call in owner.aside:
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
        """Send *probe* to the place where *call* waits, or to the request that holds it back."""
        held_back = self._behind(probe, call, rref)
        return held_back or [Send(to, replace(probe, call=call, rref=rref))]

    def _behind(self, probe: Probe, call: CallId, rref: RRefId | None) -> list[Effect]:
        """If *call* is held back, send *probe* to the place of the request in front of it."""
        first = self._in_front(call)
        if first == call:
            return []
        what = f"{call} on {rref} is held back until {first} is answered"
        longer = _longer(probe, Hop(run=call, call=first, what=what))
        waiting = self.state.waiting.get(first)
        if waiting is not None:
            return [Send(waiting.to, replace(longer, call=first, rref=waiting.rref))]
        # A walk, as no other step needs a table of creations by their pins. It is as rare as a wait
        # of seconds behind a creation.
        for made, (on, creation) in self.state.creating.items():
            if creation == first:
                home = self.entries.home(self.entries.entry(on))
                return [Send(home, replace(longer, call=None, rref=made))]
        return []

    def _leave(self, rref: RRefId, probe: Probe) -> list[Effect]:
        """*probe* leaves the queue on *rref* and goes on to the request that blocks it."""
        call = self.blocker(rref)
        if call is None:
            return self._ask_creator(rref, probe)
        asking = self.state.asking
        alias = self.state.aliases.get(asking[call]) if call in asking else None
        if alias is None:
            return self._look(call, probe)
        about = alias.asked[call]
        hop = Hop(run=call, call=call, what=f"{alias.rref} is an alias of {about}")
        home = self.entries.home(self.entries.entry(about))
        return [] if _has_met(probe, call) else self._follow(_longer(probe, hop), call, home, about)

    def _ask_creator(self, rref: RRefId, probe: Probe) -> list[Effect]:
        """*probe* is in the queue on *rref*, whose creation has not come: maybe it is held back."""
        owner = self._foremost(rref)
        if owner is None or owner.located or owner.rref.creator in self.state.dead:
            return []
        return [Send(owner.rref.creator, replace(probe, call=None, rref=owner.rref))]

    def _creation(self, rref: RRefId, probe: Probe) -> list[Effect]:
        """*probe* waits for the arrival of the creation of *rref*, which this endpoint sends."""
        _, creation = self.state.creating.get(rref, (None, None))
        if creation is None or _has_met(probe, creation):
            return []
        return self._behind(probe, creation, rref)

    def _passed_on(self, rref: RRefId, probe: Probe) -> list[Effect]:
        """*probe* waits for the acknowledgement of the creation of *rref*, on an alias here."""
        owner = self.state.owners.get(rref)
        made = owner.alias.target if owner is not None and owner.alias is not None else None
        return self._creation(made, probe) if made in self.state.passed_on else []

    def _look(self, run: CallId, probe: Probe) -> list[Effect]:
        if _has_met(probe, run):
            return []
        self.state.looking[run] = probe
        return [Look(run)]

    def _came_round(
        self, owner: Owner, sender: WorkerId, call: CallId, probe: Probe
    ) -> list[Effect]:
        """The way is complete: its last request is in the queue where *probe* began."""
        if not probe.before:
            return self._leave(owner.rref, Probe(start=probe.start, before=probe.path))
        if probe.path != probe.before:
            return []
        return self.entries.after(owner, owner.cancel(sender, call, Refusal.RING, probe.path))

    # ---- obstacles

    def _in_front(self, call: CallId) -> CallId:
        """The request to be answered before *call* can leave; *call* itself if it has left."""
        state = self.state
        name = state.held_calls.get(call)
        if name is None:
            return call
        entry = self.entries.find(name)  # none: *name* has turned out to be an alias
        pending = entry.pending if entry is not None else ()
        sent = [each for each in pending if not (each in state.held_calls or each in state.asking)]
        return state.fetching.get(name) or min(sent, default=call)

    def _foremost(self, rref: RRefId) -> Owner | None:
        """The object in whose queue a request on *rref* waits.

        It is not *rref* itself if *rref* is to be made by a method that is still queued elsewhere.
        """
        seen: set[RRefId] = set()
        owner = self.state.owners.get(rref)
        while owner is not None and owner.rref not in seen:
            seen.add(owner.rref)
            making = self.state.making.get(owner.rref)
            target = self.state.owners.get(owner.target) if owner.target is not None else None
            if target is None or making not in target.queue:
                return owner
            owner = target
        return None


def _has_met(probe: Probe, run: CallId) -> bool:
    """Whether *probe* has met *run* before, or has come too far."""
    return len(probe.path) >= MAX_HOPS or any(hop.run == run for hop in probe.path)


def _holds_back(hop: Hop) -> bool:
    """Whether *hop* is a wait of a held-back request, not of a run or an alias."""
    return not hop.number and hop.run != hop.call


def _longer(probe: Probe, hop: Hop) -> Probe:
    return replace(probe, path=(*probe.path, hop))
