"""The commands of a trace. ``docs/trace-tests.md`` describes them for readers.

A command is one line of words. `COMMANDS` maps every first word to a function. The function's
docstring begins with the command's form; a test compares the documentation with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from ..protocol.delivery import Packet
from ..protocol.effects import Effect
from ..protocol.messages import BY_NAME, Cargo, Passing, Tell
from ..protocol.sharing import DISCIPLINES
from ..trace.inputs import TraceInputError, message_of, perform
from ..world.net import Transit
from .errors import BadCommandError, Stopped
from .show import table_lines
from .words import Words, parse_value
from .world import World

# ---- setting the scene


def sharing(world: World, words: Words) -> None:
    """sharing DISCIPLINE - endpoints named from here on share references in calls in this way."""
    name = words.next("a discipline")
    if name not in DISCIPLINES:
        raise BadCommandError(f"{name!r} is not one of {', '.join(DISCIPLINES)}")
    world.sharing = name


def endpoints(world: World, words: Words) -> None:
    """endpoints NAME... - these endpoints exist."""
    for name in words.rest():
        if re.fullmatch(r"[A-Za-z]\w*", name) is None:
            raise BadCommandError(f"{name!r} cannot be a name")
        world.add(name)


def recorded(world: World, words: Words) -> None:
    """recorded - no step follows by itself any more: each step of a shell is a `does`."""
    world.recorded = True


def given(world: World, words: Words) -> None:
    """given A TABLES - A has these tables from now on, in a recording's form."""
    name = words.next("an endpoint")
    world.give(name, parse_value("".join(words.rest())))


def channels(world: World, words: Words) -> None:
    """channels - from now on messages travel in packets of `Channel`s."""
    world.connect()


# ---- actions of the user's code


def own(world: World, words: Words) -> None:
    """own A [COUNT] - `RRef(value)` on A: an object of its own, with one handle."""
    endpoint = words.endpoint()
    count = words.next("a count") if words.more() else "1"
    if not count.isdecimal():
        raise BadCommandError(f"{count!r} is not a count")
    for _ in range(int(count)):
        world.say(f"{endpoint.me} owns {endpoint.context.own()}")


def remote(world: World, words: Words) -> None:
    """remote A B [with REF...] [on REF] - `remote(B, f, args)` on A; *on*: a method of REF."""
    endpoint, to = words.endpoint(), words.worker()
    target = next(iter(words.clause_rrefs("on")), None)
    rrefs = words.clause_rrefs("with")
    lend = partial(endpoint.lend, to, rrefs, replies=False)
    endpoint.act(lambda: endpoint.context.create(to, lend(), target)[1])


def tell(world: World, words: Words) -> None:
    """tell A C REF... - A sends C a one-way message with these references."""
    endpoint, to = words.endpoint(), words.worker()
    rrefs = words.rrefs()
    endpoint.act(lambda: endpoint.context.tell(to, endpoint.fork(to, rrefs)))


def send(world: World, words: Words) -> None:
    """send A B WORD... - A sends B one message without references for each word."""
    endpoint, to = words.endpoint(), words.worker()
    for word in words.rest():
        cargo = Cargo(payload=word)
        endpoint.act(partial(endpoint.context.tell, to, cargo))


def call(world: World, words: Words) -> None:
    """call A C [REF...] [within REF...] - `rpc_async(C, f, args)`; *within*: its chain."""
    endpoint, to = words.endpoint(), words.worker()
    rrefs = words.rrefs() if words.more() else []
    chain = words.clause_busy("within")
    endpoint.act(lambda: endpoint.context.call(to, endpoint.lend(to, rrefs), chain)[1])


def invoke(world: World, words: Words) -> None:
    """invoke A REF [with REF...] [within REF...] - `rref.rpc_async().method(args)` on A."""
    endpoint, rref = words.endpoint(), words.rref()
    arguments, chain = words.clause_rrefs("with"), words.clause_busy("within")

    def send_it() -> list[Effect]:
        cargo = endpoint.lend(endpoint.context.owner_of(rref), arguments)
        return endpoint.context.invoke(rref, cargo, chain)[1]

    endpoint.act(send_it)


def fetch(world: World, words: Words) -> None:
    """fetch C REF [direct] [within REF...] - `rref.to_here()` on C; *direct*: without a detour."""
    endpoint, rref, chain = words.endpoint(), words.rref(), words.clause_busy("within")
    direct = words.flag("direct")
    endpoint.act(lambda: endpoint.context.fetch(rref, chain, direct=direct)[1])


def wait(world: World, words: Words) -> None:
    """wait C REF - `wait([rref])` on C: is there a value?"""
    endpoint, rref = words.endpoint(), words.rref()
    endpoint.act(lambda: endpoint.context.fetch(rref, copy=False)[1])


def cancel(world: World, words: Words) -> None:
    """cancel A CALL - A's code cancels its call."""
    endpoint, which = words.endpoint(), words.call()
    if not endpoint.act(lambda: endpoint.context.cancel(which)):
        waits = which in endpoint.context.waiting
        world.say(
            f"({endpoint.me} {'holds both back' if waits else f'does not wait for call {which}'})"
        )


def pickle(world: World, words: Words) -> None:
    """pickle A C REF... [for KIND] - A begins to pickle a message, a call or a creation, for C."""
    endpoint, to = words.endpoint(), words.worker()
    rrefs, kind = words.rrefs(), words.clause("for")
    if kind not in ([], ["call"], ["creation"]):
        raise BadCommandError(f"{' '.join(kind)!r} is neither call nor creation")
    share = partial(endpoint.lend, replies=kind == ["call"]) if kind else endpoint.fork
    endpoint.pickled = endpoint.attempt(lambda: share(to, rrefs)).descriptors
    for each in endpoint.pickled:
        verb = "lends" if each.passing is Passing.LOAN else "forks"
        world.say(f"{endpoint.me} {verb} {each.rref} as {each.fork} for {to}")


def abandon(world: World, words: Words) -> None:
    """abandon A - A's pickling fails: its forks are undone."""
    endpoint = words.endpoint()
    pickled, endpoint.pickled = endpoint.pickled, ()
    if not pickled:
        raise BadCommandError(f"{endpoint.me} has pickled nothing; give `pickle` first")
    endpoint.act_on(pickled[0].rref, lambda: endpoint.context.abandon(pickled))


def hold(world: World, words: Words) -> None:
    """hold C REF... - C's code keeps one more handle of each."""
    endpoint = words.endpoint()
    for rref in words.rrefs():
        endpoint.act(partial(endpoint.take_up, rref))
        context = endpoint.context
        where = context.whereabouts(rref)
        entry = context.owners.get(where) or context.users[where]
        called = "" if where == rref else f", called {rref}"
        world.say(f"{endpoint.me} holds {entry.handles} of {where}{called}")


def drop(world: World, words: Words) -> None:
    """drop C REF... - one handle of each dies on C, all in one step."""
    words.endpoint().drop_each(words.rrefs())


def release(world: World, words: Words) -> None:
    """release C - the handler of C's oldest message with references ends."""
    words.endpoint().release()


def resolve(world: World, words: Words) -> None:
    """resolve B REF... - the function that makes each of these objects returns."""
    endpoint = words.endpoint()
    for rref in words.rrefs():
        endpoint.end(f"creation {rref}")


def alias(world: World, words: Words) -> None:
    """alias B REF is REF - the function that makes the first returns the second, a reference."""
    endpoint, rref, target = words.endpoint(), words.rref(), words.clause_rrefs("is")
    if len(target) != 1:
        raise BadCommandError("say what the alias stands for: `is REF`")
    endpoint.alias(rref, target[0])


def reply(world: World, words: Words) -> None:
    """reply B CALL [with REF...] - the call that runs on B returns and releases its arguments."""
    endpoint, which = words.endpoint(), words.call()
    endpoint.end(f"call {which}", words.clause_rrefs("with"))


def refuse(world: World, words: Words) -> None:
    """refuse B CALL - a plain function of B runs the call, which its caller cancels: it goes on."""
    endpoint, which = words.endpoint(), words.call()
    endpoint.act(lambda: endpoint.context.refuse_cancel(which))


def blocked(world: World, words: Words) -> None:
    """blocked B CALL [for CALL] - the code of B's first call waits for the second, or for none."""
    endpoint, run, calls = words.endpoint(), words.call(), words.clause_calls("for")
    endpoint.waits += 1
    endpoint.blocked.pop(run, None)
    for call in calls:
        endpoint.blocked[run] = call, endpoint.waits


def pause(world: World, words: Words) -> None:
    """pause B CALL - the code of the method call awaits, and gives its turn on its object away."""
    endpoint, which = words.endpoint(), words.call()
    rref = endpoint.object_of(which)
    endpoint.act_on(rref, lambda: endpoint.context.pause(rref, which))


def resume(world: World, words: Words) -> None:
    """resume B CALL - the code of the method call can go on: it lines up for a turn."""
    endpoint, which = words.endpoint(), words.call()
    rref = endpoint.object_of(which)
    endpoint.act_on(rref, lambda: endpoint.context.resume(rref, which))


def suspect(world: World, words: Words) -> None:
    """suspect B REF - requests have long been queued on REF: look for a ring."""
    endpoint, rref = words.endpoint(), words.rref()
    endpoint.act_on(rref, lambda: endpoint.context.suspect(rref))


def put(world: World, words: Words) -> None:
    """put B REF into REF - the first, a handle on B, moves into the value of the second."""
    endpoint, rref = words.endpoint(), words.rref()
    for into in words.clause_rrefs("into"):
        inside = endpoint.inside.get(into, ())
        endpoint.inside[into] = (*inside, rref)


def search(world: World, words: Words) -> None:
    """search B REF - B's object REF may be garbage in a cycle: look for its holders."""
    endpoint, rref = words.endpoint(), words.rref()
    endpoint.act(lambda: endpoint.context.suspect_cycle([rref]))


def does(world: World, words: Words) -> None:
    """does A INPUT FIELD=VALUE... - one input of A's machines, as a recording has it."""
    endpoint = words.endpoint()
    fields = {"do": words.next("an input"), **words.fields()}
    if not world.recorded:
        raise BadCommandError("`does` needs `recorded` before it")
    try:
        endpoint.act(lambda: perform(endpoint.context, fields, world.worker))
    except TraceInputError as error:
        raise BadCommandError(str(error)) from error


# ---- the network


def deliver(world: World, words: Words) -> None:
    """deliver [all] [A->B] [WORD...] - the oldest such message, or all of them, arrive."""
    for transit in _selected(world, words.rest()):
        world.deliver(transit)


def settle(world: World, words: Words) -> None:
    """settle - deliver, oldest first, until nothing is in flight."""
    world.settle()


def lose(world: World, words: Words) -> None:
    """lose [all] [A->B] [WORD...] - it never arrives."""
    for transit in _selected(world, words.rest()):
        world.flight.remove(transit)
        world.say(f"(lost: {transit.text})")


def duplicate(world: World, words: Words) -> None:
    """duplicate [all] [A->B] [WORD...] - it will arrive twice."""
    for transit in _selected(world, words.rest()):
        copy = Transit(transit.sender, transit.to, transit.what, transit.text)
        world.flight.append(copy)
        world.say(f"(twice: {transit.text})")


def _selected(world: World, words: list[str]) -> list[Transit]:
    """The messages in flight that contain every one of *words*, oldest first."""
    everything = words[:1] == ["all"]
    if everything:
        words = words[1:]
    found = [t for t in world.flight if all(_in(word, t) for word in words)]
    if not found:
        listing = "\n    ".join(t.text for t in world.flight) or "nothing"
        raise BadCommandError(f"no such message is in flight; there are:\n    {listing}")
    return found if everything else found[:1]


def _in(word: str, transit: Transit) -> bool:
    if "->" in word:
        return word == f"{transit.sender}->{transit.to}"
    return re.search(rf"(?<![\w/]){re.escape(word)}(?![\w/])", transit.text) is not None


def packet(world: World, words: Words) -> None:
    """packet A->B... - the messages that wait in these channels leave, in one packet each."""
    while words.more():
        world.links.packet(*words.route())


def tick(world: World, words: Words) -> None:
    """tick SECONDS - time passes; due packets leave."""
    seconds = words.next("a number of seconds")
    if re.fullmatch(r"\d+(\.\d+)?", seconds) is None:
        raise BadCommandError(f"{seconds!r} is not a number of seconds")
    world.links.tick(float(seconds))


def forge(world: World, words: Words) -> None:
    """forge A->B MESSAGE FIELD=VALUE... - B receives a message that A never sent."""
    sender, to = words.route()
    kind, fields = words.next("a message"), words.fields()
    endpoint = world.living(to.name)
    if kind == "Packet":
        world.links.receive(endpoint, sender, _packet(fields))
        return
    if kind not in BY_NAME:
        raise BadCommandError(f"{kind!r} is not one of {', '.join([*BY_NAME, 'Packet'])}")
    if unknown := fields.keys() - {"carries", *BY_NAME[kind].__struct_fields__}:
        raise BadCommandError(f"unknown fields: {', '.join(sorted(unknown))}")
    try:
        message = message_of({"message": kind, **fields}, world.worker)
    except TraceInputError as error:
        raise BadCommandError(str(error)) from error
    endpoint.receive(sender, message)


def _packet(fields: dict[str, Any]) -> Packet:
    """A packet of so many one-way messages; it may have any numbers."""
    names = ("messages", "first", "expects")
    numbers = [str(fields.get(name, "")) for name in names]
    if fields.keys() != set(names) or not all(re.fullmatch(r"-?\d+", it) for it in numbers):
        raise BadCommandError(f"give a packet the numbers {', '.join(names)}, and nothing else")
    count, first, expects = map(int, numbers)
    tells = tuple(Tell(cargo=Cargo(payload=f"m{i + 1}")) for i in range(count))
    return Packet(first, tells, expects)


# ---- death


def kill(world: World, words: Words) -> None:
    """kill X - the process of X is gone; no endpoint knows yet."""
    endpoint = words.endpoint()
    endpoint.alive = False
    world.say(f"({endpoint.me} is dead, and nobody knows)")


def died(world: World, words: Words) -> None:
    """died X [at B...] [unacknowledged WORD...] - B, or every endpoint, learns that X died."""
    worker = words.worker()
    told, which = words.at(worker), words.clause("unacknowledged")
    arrived = [
        transit
        for transit in world.delivered
        if which and transit.to == worker and all(_in(word, transit) for word in which)
    ]
    if which and not arrived:
        raise BadCommandError(f"{worker} received no such message")
    for endpoint in told:
        mine = [each.what for each in arrived if each.sender == endpoint.me]
        endpoint.told_of_death(worker, [each for each in mine if not isinstance(each, Packet)])


def bury(world: World, words: Words) -> None:
    """bury X [at B...] - the orphan grace ends: B, or every endpoint, releases X's references."""
    worker = words.worker()
    for endpoint in words.at(worker):
        endpoint.bury(worker)


# ---- inspection


def tables(world: World, words: Words) -> None:
    """tables [A...] - the tables of each endpoint."""
    names = words.rest() or list(world.endpoints)
    for name in names:
        world.worker(name)
        endpoint = world.endpoints[name]
        for line in table_lines(endpoint.context) if endpoint.alive else [f"{name} (dead)"]:
            world.say(line)


def inflight(world: World, words: Words) -> None:
    """inflight - the messages that were sent and are neither delivered nor lost."""
    for transit in world.flight:
        world.say(transit.text)
    if not world.flight:
        world.say("(nothing in flight)")


def status(world: World, words: Words) -> None:
    """status - both halves of every channel that has been used."""
    world.links.status()


def expect(world: World, words: Words) -> None:
    """expect nothing left - an error unless every table is empty and nothing in flight."""
    if words.rest() != ["nothing", "left"]:
        raise BadCommandError("`expect` needs `nothing left`")
    if left := world.leftovers():
        raise BadCommandError("\n    ".join(["something is left:", *left]))
    world.say("(nothing is left)")


COMMANDS: dict[str, Callable[[World, Words], None]] = {
    command.__name__: command
    for command in (
        *(sharing, endpoints, given, recorded, channels),
        *(own, remote, tell, send, call, invoke, fetch, wait, cancel, pickle, abandon),
        *(hold, drop, release, resolve, alias, reply, refuse, pause, resume, blocked),
        *(suspect, put, search, does),
        *(deliver, settle, lose, duplicate, packet, tick, forge),
        *(kill, died, bury),
        *(tables, inflight, status, expect),
    )
}


def run(world: World, line: str) -> None:
    """Run one command; its output is in `World.lines`. Raises `BadCommandError`."""
    first, *rest = line.split()
    command = COMMANDS.get(first)
    if command is None:
        raise BadCommandError(f"{first!r} is not a command; there are {', '.join(COMMANDS)}")
    words = Words(world, rest)
    try:
        command(world, words)
    except Stopped:
        return
    words.finish()
