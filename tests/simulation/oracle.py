"""The oracle of a simulation: it sees all endpoints at once, and checks every result.

A loss is excused only by the death that explains it. Bad weather excuses nothing. A reference leads
along its **way**: from alias to alias to the canonical object. An object also **rests on** the
object with the method that made it, and on the way of that object.

=====================  ==========================================================================
result                 condition
=====================  ==========================================================================
a value                It is the canonical object's. A way that ends in a circle has no value.
no reply (`Fail`)      The endpoint that was asked is dead. It was called by its own name, or it
                       owns an object on the way. The way begins at the object that the caller
                       knew when it asked: a hop that was dropped before explains nothing.
an error for a value   It is the error of an object on the way, or of one that this rests on.
=====================  ==========================================================================

An object has an error for a value for one of these reasons:

* `CREATOR`: its creator died, and its owner had not accepted the creation.
* `OWNER`: the owner of an object that it rests on died, or of one on its way. If the owner of the
  alias knew the canonical object already, only the death of that object's owner explains it.
* `CYCLE`: it is on a circle of aliases that no error has broken yet. The others on the circle, and
  aliases that lead into it, have the error of this one.
* It is the result of a creation that was refused.

A request is refused for one of these reasons:

* `LOST`: the owner of an object on its way died, or of a reference in the request or its answer.
* `SELF_WAIT`: the object waits for the very task that asks, and the task of its chain still runs.
* `RING`: see `rings`.
* `CANCELLED`: its caller has cancelled it.

No living endpoint holds an object when it is freed (G4), unless its creation never came, because
its creator died: it never had a value. A search calls no object garbage that a program can reach
(G4; see `reach`). After a search of each endpoint at rest every object can be reached (G5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from farref.protocol.effects import Loss, Refusal
from farref.protocol.ids import CallId, RRefId, WorkerId
from farref.protocol.messages import Busy, Request, names, target_of

from ..model.reach import reached
from .jobs import Error, PendingRequest, Turn

if TYPE_CHECKING:
    from .node import Node


class WrongError(Exception):
    """A violation of *guarantee*, such as "G4"."""

    def __init__(self, guarantee: str, how: str) -> None:
        super().__init__(f"{guarantee}: {how}")
        self.guarantee = guarantee


class Oracle:
    """The true state of the whole simulation, known or unknown to the endpoints."""

    def __init__(self) -> None:
        self.dead: set[WorkerId] = set()
        self._owners: dict[RRefId, WorkerId] = {}
        self._accepted: set[RRefId] = set()
        """Objects with an accepted creation, freed or not."""
        self._valued: set[RRefId] = set()
        """Objects that have, or had, a value or an error."""
        self._stands_for: dict[RRefId, RRefId] = {}
        self._methods_of: dict[RRefId, RRefId] = {}
        """Objects made by a method, and the object of that method."""
        self._broken: set[RRefId] = set()
        """Aliases on a circle that got an error for that: the circle ends there now."""
        self._turns: dict[tuple[WorkerId, RRefId], int] = {}
        self._nested: dict[CallId, tuple[tuple[Busy, ...], RRefId]] = {}
        """Requests that tasks wait for: the objects that wait with the task, and the one asked."""

    # ---- objects

    def made(self, rref: RRefId, owner: WorkerId, on: RRefId | None = None) -> None:
        """Note that *owner* (soon) owns *rref*, and that a method of *on*, if given, makes it."""
        self._owners[rref] = owner
        if on is not None:
            self._methods_of[rref] = on

    def accepted(self, rref: RRefId) -> None:
        self._accepted.add(rref)

    def aliased(self, rref: RRefId, target: RRefId) -> None:
        self._stands_for[rref] = target

    def valued(self, rref: RRefId) -> None:
        self._valued.add(rref)

    def lost(self, rref: RRefId, why: Loss, node: Node) -> None:
        """*node* gives *rref* up. Raises `WrongError` unless that is explained."""
        match why:
            case Loss.CREATOR:
                explained = rref.creator in node.context.dead and rref not in self._accepted
            case Loss.OWNER:
                explained = self._died(self._rests_on(rref) - {rref}, node)
            case _:  # it is on a circle
                explained = rref in self._way(rref)[1:]
                self._broken.add(rref)
        if not explained:
            raise WrongError(
                "G4", f"{node.me} gives up {rref} ({why.name}), and nothing explains it"
            )

    def spared(self, rref: RRefId, canonical: RRefId, node: Node) -> None:
        """Check that *node*, which knew *canonical*, may lose *rref*: its owner must be dead."""
        if not self._died({canonical}, node):
            raise WrongError("G4", f"{node.me} knew that {rref} is {canonical}, and gives it up")

    def freed(self, rref: RRefId, nodes: Iterable[Node]) -> None:
        """Note that *rref* was freed. Raises `WrongError` if a living endpoint holds it (G4)."""
        if rref not in self._accepted:
            return
        for node in nodes:
            for name in node.held():
                if node.context.whereabouts(name) == rref:
                    raise WrongError("G4", f"{rref} is freed, and {node.me} holds it as {name}")

    def found(self, rrefs: Iterable[RRefId], reached: Collection[RRefId], node: Node) -> None:
        """A search of *node* calls *rrefs* garbage. Raises `WrongError` if one is *reached*."""
        wrong = sorted(set(rrefs).intersection(reached))
        if wrong:
            raise WrongError("G4", f"{node.me} takes {wrong} for garbage, and a program reaches it")

    def searched(self, nodes: Iterable[Node], reached: Collection[RRefId]) -> None:
        """All *nodes* have searched at rest. Raises `WrongError` if more than *reached* is left."""
        for node in nodes:
            left = sorted(node.context.owners.keys() - reached)
            if left:
                raise WrongError("G5", f"{node.me} keeps {left}, and no program reaches it")

    # ---- requests

    def waits(self, call: CallId, chain: tuple[Busy, ...], on: RRefId) -> None:
        """Note that a task, for which the objects in *chain* wait, waits for *call* on *on*."""
        self._nested[call] = chain, on

    def settled(self, call: CallId) -> None:
        self._nested.pop(call, None)

    def refused(
        self, request: Request, why: Refusal, about: Collection[RRefId], node: Node
    ) -> None:
        """Check that *node* may refuse *request*, which is *about* these. Raises `WrongError`."""
        match why:
            case Refusal.LOST:
                ways = {each for rref in about for each in self._rests_on(rref)}
                explained = self._died(ways, node)
            case Refusal.SELF_WAIT:
                target = target_of(request)
                waits = self._waits_for(target) if target is not None else set()
                runs = {getattr(task.request, "call", None) for task in node.tasks}
                explained = any(
                    each.rref in waits and each.call in runs
                    for each in getattr(request, "chain", ())
                )
            case _:
                explained = why is Refusal.CANCELLED  # `got` checks that
        if not explained:
            raise WrongError("G6", f"{node.me} refuses {request}: {why.value}; but that is wrong")

    def ran(self, turn: Turn) -> None:
        """Check that a method overtook none of the same caller. Raises `WrongError` if it did."""
        whose = turn.caller, turn.name
        if turn.number <= self._turns.get(whose, 0):
            raise WrongError(
                "G3", f"{turn.caller}'s call {turn.number} on {turn.name} was overtaken"
            )
        self._turns[whose] = turn.number

    def occupied(self, request: Request, others: Iterable[Request]) -> None:
        """Check that *request* may begin beside *others*. Raises `WrongError` if not."""
        target = target_of(request)
        if target is not None and any(target_of(each) == target for each in others):
            raise WrongError("G3", f"{target} runs {request} and another request at once")

    # ---- answers

    def answered(self, asked: PendingRequest, content: RRefId | None) -> None:
        """Check that *content* is the value asked for. Raises `WrongError` if not."""
        if asked.on is None:
            return
        way = self._way(asked.on)
        if content != way[-1] or way[-1] in (*way[:-1], *self._broken):
            raise WrongError("value", f"{asked.on} has the value of {way[-1]}, not of {content}")

    def failed(self, asked: PendingRequest, worker: WorkerId) -> None:
        """Check that *worker*, which will not reply, is dead and was asked. Raises `WrongError`."""
        ones = {asked.to} if asked.on is None else {self._owners[r] for r in self._way(asked.on)}
        if worker not in ones & self.dead:
            raise WrongError("G6", f"{asked} failed, and the death of {worker} does not explain it")

    def got(self, asked: PendingRequest, error: Error) -> None:
        """Check that *error* may be the answer. Raises `WrongError` if not."""
        if error.why == Refusal.CANCELLED.name and not asked.cancelled:
            raise WrongError("G6", f"{asked} was cancelled, and nobody asked for that")
        if error.of is None:
            return
        if asked.on is None or error.of not in self._rests_on(asked.on):
            raise WrongError("G6", f"{asked} got the error of {error.of} ({error.why})")
        if error.why == Loss.CREATOR.name and error.of in self._accepted:
            raise WrongError("G4", f"{asked} came too late: {error.of} was freed")

    # ---- the true state

    def turns_at(self, rref: RRefId) -> list[RRefId]:
        """If a request on *rref* has to wait, one of these objects is busy, or being made."""
        found: list[RRefId] = []
        each: RRefId | None = rref
        while each is not None and (each := self._way(each)[-1]) not in found:
            found.append(each)
            each = self._methods_of.get(each) if each not in self._valued else None
        return found

    def _way(self, rref: RRefId) -> list[RRefId]:
        """From *rref* to the canonical object; on a circle, to the first repeated object."""
        way = [rref]
        while way[-1] in self._stands_for and way[-1] not in self._broken:
            way.append(self._stands_for[way[-1]])
            if way[-1] in way[:-1]:
                break
        return way

    def _rests_on(self, rref: RRefId) -> set[RRefId]:
        """*rref*, its way, and the objects with methods that made any of these, and their ways."""
        edges = self._stands_for, self._methods_of
        return reached([rref], lambda each: [e[each] for e in edges if each in e])

    def _waits_for(self, rref: RRefId) -> set[RRefId]:
        """*rref*, and the objects that a request on it waits for."""

        def waits_for(each: RRefId) -> list[RRefId]:
            unmade = each in self._methods_of and each not in self._valued
            makers = [self._methods_of[each]] if unmade else []
            nested = [on for chain, on in self._nested.values() if names(chain, each)]
            return [*self._way(each), *makers, *nested]

        return reached([rref], waits_for)

    def _died(self, rrefs: Iterable[RRefId], node: Node) -> bool:
        """Whether *node* knows that an owner of one of *rrefs* is dead."""
        owners = filter(None, map(self._owners.get, rrefs))
        return any(owner in node.context.dead for owner in owners)
