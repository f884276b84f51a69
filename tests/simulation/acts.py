"""The acts of an endpoint's program, with the references that it has."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from farref.protocol.ids import CallId, RRefId, WorkerId

from .jobs import Ask, Job, Value
from .node import Node
from .plan import GRACE, NODES, RINGS, Act


def improvise(node: Node, act: Act) -> bool:
    """Have *node* do *act*. Returns whether it had the references for it."""
    dice = random.Random(act.pick)
    world = node.world
    usable = [each for each in node.handles if not node.is_lost(each)]
    some = dice.sample(usable, min(len(usable), dice.randint(1, 2)))
    seconds = dice.choices((0.0, 0.01, 0.2, 1.0, 1.5 * GRACE), (5, 5, 5, 4, 1))[0]
    job = Job(
        act.what,
        seconds,
        keep=dice.random() < 0.3,
        back=dice.random() < 0.4,
        ask=_ask(dice) if dice.random() < 0.3 else None,
    )
    to = world.at(act.other)
    match act.what:
        case "own":
            _own(node)
        case "drop" if node.handles:
            node.do(node.context.drop(node.handles.pop(act.pick % len(node.handles))))
        case "cancel" if node.asked:
            _cancel(node, list(node.asked)[act.pick % len(node.asked)])
        case "circle":
            places = [act.other, *dice.choices(range(NODES), k=dice.randrange(3))]
            pauses = [dice.choice((0.2, 0.5, 1.0)), *(0.0 for _ in places[1:])]
            _circle(node, places, pauses, direct=dice.random() < 0.5)
        case "ring" if usable and to is not None:
            some = dice.sample(usable, min(len(usable), dice.randint(1, 4)))
            ask = replace(_ask(dice), place=0)
            wait = Job("ring", dice.choice((0.05, 0.2, 1.0)), ask=ask)
            _ring(node, to, some, wait, alias=dice.random() < 0.4, made=dice.random() < 0.3)
        case "make" if to is not None:
            node.make(to, [], job)
        case _ if act.what in RINGS:
            return _entangle(node, act.what, usable, seconds, dice)
        case _ if not some:
            return False
        case "nest" if to is not None:
            node.make(to, some, Job("nest", seconds, back=True, ask=job.ask))
        case "alias" if to is not None:
            node.make(to, some[:1], Job("alias", seconds, bare=True))
        case "lend":
            node.call(act.other, some, job)
        case "pass on":
            onward = dice.randrange(NODES)
            node.call(act.other, some, replace(job, ask=None, onward=onward))
        case "call":
            for _ in range(dice.randint(1, 6)):  # maybe before its canonical object is known
                world.later(dice.uniform(0.0, 0.2), node, lambda: _method(node, some[0], some, job))
        case "pipeline":
            made = Job("made", seconds, bare=dice.random() < 0.3)
            node.make(node.context.owner_of(some[0]), some[1:], made, some[0])
        case "fetch":
            node.fetch(some[0], copy=True, direct=dice.random() < 0.5)
        case "wait":
            node.fetch(some[0], copy=False, direct=False)
        case "tell":
            node.tell(act.other, some, job)
        case _:
            return False
    return True


def _own(node: Node) -> None:
    """Make an object, as ``RRef(value)`` does."""
    rref = node.context.own()
    node.world.oracle.made(rref, node.me)
    node.world.oracle.accepted(rref)
    node.store(rref, Value(rref))
    node.handles.append(rref)


def _cancel(node: Node, call: CallId) -> None:
    node.asked[call].cancelled = True
    node.do(node.context.cancel(call))


def _method(node: Node, on: RRefId, names: Sequence[RRefId], job: Job) -> None:
    """Call a method of the object *on*, if the program still has a handle of it."""
    if on in node.handles and not node.is_lost(on):
        node.invoke(on, [each for each in names if each in node.handles], job)
        node.do([])


def _entangle(
    node: Node, what: str, usable: Sequence[RRefId], seconds: float, dice: random.Random
) -> bool:
    """Let objects hold each other, or no longer, or search for those that only do that."""
    if what == "search":
        return node.searches.begin(dice)
    if not usable:
        return False
    some = dice.sample(usable, min(len(usable), dice.randint(1, 4)))
    match what:
        case "tie":
            _tie(node, some, seconds, drops=dice.random() < 0.7)
        case "link":
            _method(node, some[0], some[-2:], Job("link", seconds, put=True))
        case _:
            _method(node, some[0], [], Job("untie", seconds, take=True, back=dice.random() < 0.7))
    return True


def _tie(node: Node, names: Sequence[RRefId], seconds: float, *, drops: bool) -> None:
    """Let each of *names* hold the next one, and the last one the first; maybe drop them all."""
    for on, other in zip(names, [*names[1:], names[0]], strict=True):
        _method(node, on, [other], Job("tie", seconds, put=True))
    if drops:
        for each in names:
            node.handles.remove(each)
        node.do(node.context.drop(*names))


def _circle(node: Node, places: Sequence[int], seconds: Sequence[float], *, direct: bool) -> None:
    """Make an alias at each of *places*. Each stands for the one before, the first for the last.

    The function that makes the first alias gets the last one while it runs. If that comes too late,
    there is no circle.
    """
    first = last = None
    for place, each in zip(places, seconds, strict=True):
        to = node.world.at(place)
        if to is not None:
            made = node.make(to, [last] if last else [], Job("circle", each, bare=True))
            first, last = first or made, made or last
    if first is not None and last is not None:
        node.tell(places[0], [last], Job("close", 0.0, into=first))
        node.fetch(last, copy=True, direct=direct)


def _ring(
    node: Node, to: WorkerId, names: Sequence[RRefId], job: Job, *, alias: bool, made: bool
) -> None:
    """Call methods of all *names*. Each asks the next object, and the last one asks the first.

    With *alias* the first object is asked by an alias of it. With *made* the ring ends with the
    function that makes a further object.
    """
    objects, asked = list(names), list(names)
    if alias:
        bare = Job("alias", job.seconds, bare=True)
        asked[0] = node.make(to, names[:1], bare) or names[0]
    last = node.make(to, asked[:1], job) if made else None
    following = [*asked[1:], last or asked[0]]
    for on, each in zip(objects, following, strict=True):
        _method(node, on, [each], job)


def _ask(dice: random.Random, deep: int = 2) -> Ask:
    """A request that a function makes before it returns, and the further requests of that."""
    how = dice.choice(("method", "method", "fetch", "wait", "creation", "function"))
    further = _ask(dice, deep - 1) if deep and dice.random() < 0.6 else None
    job = Job("asked", dice.choice((0.0, 0.01, 0.2)), ask=further)
    return Ask(how, dice.randrange(4), dice.randrange(NODES), job)
