"""Rules of the plain moves: each does as the general machine does, or nothing."""

from farref.protocol import plain

from .mutant import Mutant


def _plain(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, plain, method, old, new)


PLAIN = {
    "note: return value": (
        _plain("asks a third endpoint", "fetch", " or user.owner != to", ""),
        _plain(
            "gives a number twice",
            "call",
            "state.calls = number = state.calls + 1",
            "number = state.calls + 1",
        ),
        _plain("does not wait for the reply", "call", "state.waiting[made] = Waiting(to, None)"),
        _plain("does not note that it has left", "fetch", "user.stamp += 1"),
        _plain("does not pin the object", "fetch", "user.pending = {made}"),
        _plain(
            "forgets earlier requests", "fetch", "user.pending.add(made)", "user.pending = {made}"
        ),
        _plain(
            "does not ask again elsewhere",
            "fetch",
            "Waiting(to, rref, fetch=message)",
            "Waiting(to, rref)",
        ),
        _plain("lets later requests pass", "fetch", "state.fetching[rref] = made"),
        _plain("always asks directly", "fetch", "not user.canonical", "True"),
        _plain("runs the call of another", "called", "call.caller == sender and ", ""),
        _plain("runs before there is a value", "fetched", "        or not owner.resolved\n", ""),
        _plain("does not note that it has come", "fetched", "owner.stamp += 1"),
        _plain("takes no turn", "fetched", "owner.running = message.call"),
        _plain("keeps the turn", "answer", "owner.running = None"),
        _plain("believes a stranger", "replied", "        or waiting.to != sender\n", ""),
        _plain("keeps what nobody needs", "replied", "            or not user.handles\n", ""),
        _plain("does not learn that it is no alias", "replied", "user.canonical = True"),
        _plain("pins for ever", "replied", "user.pending.discard(call)"),
        _plain("waits for ever", "replied", "del state.waiting[call]"),
        _plain("names two objects alike", "create", "state.rrefs = number"),
        _plain("names two forks alike", "create", "state.forks += 1"),
        _plain("asks for no Ack", "create", "user.create(fork)"),
        _plain("holds nothing", "create", "user.handles = 1"),
        _plain(
            "does not note that it asked",
            "create",
            "settled = asked.add(number)",
            "settled = number",
        ),
        _plain(
            "forgets what overtook the creation", "created", "rref in state.owners\n        or ", ""
        ),
        _plain("counts nobody", "created", "owner.forks = {fork: sender}"),
        _plain("has not seen it", "created", "seen.add(rref.number, message.settled)"),
        _plain("makes nothing", "created", "state.making[rref] = call"),
        _plain("keeps what nobody holds", "acked", "        or not user.handles\n", ""),
        _plain("stays unconfirmed", "acked", "user.requested, user.known = None, (message.fork,)"),
        _plain("waits for ever", "acked", "        del state.asked[sender]\n", "        pass\n"),
        _plain(
            "gives no turn",
            "resolved",
            "owner.running, owner.queue = request.call, EMPTY",
            "owner.queue = EMPTY",
        ),
        _plain("makes for ever", "resolved", "state.making.pop(rref, None)"),
        _plain("stays without a value", "resolved", "owner.created = owner.resolved = True"),
        _plain("deletes what is in use", "dropped", "        or not user.at_rest\n", ""),
        _plain("keeps the entry", "dropped", "    del state.users[rref]\n", "    pass\n"),
        _plain(
            "believes any Delete", "deleted", "        or owner.forks.get(forks[0]) != sender\n", ""
        ),
        _plain("keeps the entry", "deleted", "    del state.owners[rref]\n", "    pass\n"),
    ),
    "the owner dies while a method awaits": (
        _plain("calls the dead", "call", " or (state.dead.firsts and to in state.dead)", ""),
        _plain("asks the dead", "fetch", " or user.lost", ""),
        _plain("creates at the dead", "create", " or (state.dead.firsts and to in state.dead)", ""),
        _plain("tells the dead", "dropped", "        or user.lost\n", ""),
    ),
    "a method that waits for itself, behind a direct fetch [lend]": (
        _plain(
            "asks beside a fetch that may be repeated", "fetch", "rref in state.fetching or ", ""
        ),
        _plain("holds back for ever", "replied", "del state.fetching[rref]"),
    ),
    "an alias, waited for and then fetched": (
        _plain("asks an alias", "fetch", " or (state.names and rref in state.names)", ""),
        _plain("learns no place", "replied", "        or message.moved is not None\n", ""),
        _plain(
            "keeps a name for ever",
            "replied",
            "            or (state.named and call in state.named)  # the name may end\n",
            "",
        ),
    ),
    "a user dies": (
        _plain(
            "runs for the dead",
            "called",
            " and not (state.dead.firsts and sender in state.dead)",
            "",
        ),
        _plain(
            "answers the dead",
            "reply",
            "    if state.dead.firsts and caller in state.dead:\n        return None\n",
            "",
        ),
        _plain(
            "believes the dead",
            "deleted",
            "        or (state.dead.firsts and sender in state.dead)\n",
            "",
        ),
    ),
    "three requests on one object": (
        _plain(
            "passes a request that runs", "fetched", "        or owner.running is not None\n", ""
        ),
        _plain("lets nobody follow", "answer", " or owner.queue", ""),
        _plain("starts one of several requests", "resolved", "len(owner.queue) > 1 or ", ""),
    ),
    "an object that is not serial [lend]": (
        _plain("gives a turn where there are none", "fetched", "        or not owner.serial\n", ""),
    ),
    "a message that cannot be unpickled": (
        _plain("keeps the references of the request", "reply", "call in state.serving or ", ""),
    ),
    "too late: a created object [lend]": (
        _plain("does not free the object", "answer", "not (owner.handles or owner.forks)", "False"),
    ),
    "a method that calls its own object and waits [lend]": (
        _plain("forgets its loans", "replied", "            or waiting.loans\n", ""),
    ),
    "an alias of the caller's own object": (
        _plain("answers nobody further", "replied", "        or waiting.relay is not None\n", ""),
    ),
    "a cancelled call with references": (
        _plain("takes a refusal for an answer", "replied", "        or message.refused\n", ""),
    ),
    "two aliases of each other [lend]": (
        _plain("ends the fetch of another", "replied", "state.fetching.get(rref) == call", "True"),
    ),
    "a user shares with itself": (_plain("creates at itself", "create", "to == state.me or ", ""),),
    "a method makes an object": (
        _plain(
            "passes the line of the target",
            "created",
            "message.target is not None\n        or ",
            "",
        ),
        _plain("holds the target for ever", "acked", "        or rref in state.creating\n", ""),
        _plain("keeps its target", "resolved", "owner.target = None"),
    ),
    "lent home and away again": (
        _plain("forgets a fork that is known", "acked", "        or user.known\n", ""),
    ),
    "a ring: C sends on to A, who sent it": (
        _plain("leaves a parent waiting", "acked", "        or user.owed\n", ""),
    ),
    "an alias that nobody uses": (
        _plain("tells no asker", "resolved", " or owner.asking", ""),
        _plain("frees an alias alone", "deleted", "        or owner.alias is not None\n", ""),
    ),
    "a value that refers to another object": (
        _plain(
            "keeps the loans of the creation",
            "resolved",
            " or state.making.get(rref) in state.serving",
            "",
        ),
    ),
    "one message forks twice to one endpoint": (
        _plain("frees nothing", "resolved", "not (owner.handles or owner.forks)", "False"),
        _plain("frees what is in use", "deleted", "        or not owner.at_rest\n", ""),
    ),
    "lent again to one who let go [lend]": (
        _plain("lets go of other handles", "dropped", "        or user.handles != 1\n", ""),
    ),
    "lent to a callee that lends it on and fetches [borrow]": (
        _plain(
            "loses its borrowers",
            "dropped",
            "        or type(user) is BorrowingUser  # it hands its table over\n",
            "",
        ),
    ),
    "note: owner to user": (
        _plain("frees what it holds", "deleted", "        or owner.handles\n", ""),
    ),
    "two parents, one of them the owner": (
        _plain("frees what others hold", "deleted", "        or len(owner.forks) != 1\n", ""),
    ),
}
