"""Rules of the plain moves of calls that lend: as the general machine, or nothing."""

from farref.protocol import plain, plain_loan

from .mutant import Mutant


def _loan(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, plain_loan, method, old, new)


PLAIN_LOAN = {
    "a message that cannot be unpickled [lend]": (
        _loan("does not hold its own", "lent", "mine.messages += 1", "pass"),
        _loan(
            "uses what it owns",
            "lent",
            "            or (bool(owners) and rref in owners) != (owner == me)\n",
            "",
        ),
        _loan("does not note that it has come", "lent", "mine.stamp += 1", "pass"),
    ),
    "a method that calls its own object and waits [lend]": (
        _loan(
            "counts only what it knows",
            "loans",
            "entry.made or bool(entry.known)",
            "bool(entry.known)",
        ),
        _loan("does not note that it has left", "loans", "entry.stamp += 1", "pass"),
        _loan("gives a number twice", "lend", "state.calls += 1", "pass"),
        _loan("names two forks alike", "loans", "state.forks = number", "pass"),
        _loan(
            "pins nothing",
            "loans",
            "entry.children, entry.lent = {fork: to}, {fork: False}",
            "pass",
        ),
        _loan("lends for good", "loans", ", {fork: False}", ", entry.lent"),
        _loan("waits for no loans", "lend", "Waiting(to, None, made)", "Waiting(to, None)"),
    ),
    "an alias of the caller's own object [lend]": (
        _loan("lends an alias", "loans", " or (names and rref in names)", ""),
    ),
    "lent again to one who let go [lend]": (
        _loan("leaves with another's fork", "given_back", "user.known != (fork,) or ", ""),
        _loan(
            "tells no owner",
            "given_back",
            "user.known and (user.known != (fork,) or loan.lender != user.owner)",
            "False",
        ),
    ),
    "lent and given back [borrow]": (
        _loan(
            "borrows by every discipline",
            "lent",
            "        or state.discipline.user is not LendingUser\n",
            "",
        ),
    ),
    "lent by a user, and kept [lend]": (
        _loan("keeps what nobody holds", "regained", " or not entry.handles", ""),
        Mutant("does not hear what is kept", plain, "replied", "        or message.loans\n", ""),
        _loan("gives back what it keeps", "given_back", "not _covered(user, fork, loan)", "False"),
    ),
    "lent by a user, and not kept [lend]": (
        _loan("covers itself", "_covered", " if it != fork", ""),
        _loan("forgets its handles", "given_back", "user.handles > less or user", "user"),
        _loan(
            "keeps what nobody covers",
            "_covered",
            "return bool(user.known) or any(",
            "return True or any(",
        ),
        _loan("always says that it is counted", "loans", "entry.made or bool(entry.known)", "True"),
        _loan(
            "does not borrow",
            "lent",
            "loan = {fork: counted if each.counted else uncounted}",
            "loan = {}",
        ),
        _loan("covers nothing", "lent", "counted if each.counted else uncounted", "uncounted"),
        _loan("does not hold it", "lent", "messages=1", "messages=0"),
        _loan("forgets what the call brought", "lent", "state.serving[call] = loans", "pass"),
        _loan("does not end the call", "given_back", "del state.serving[call]", "pass"),
        _loan("keeps the entry", "given_back", "del users[rref]", "pass"),
        _loan("lends for ever", "regained", "entry.children = entry.lent = EMPTY", "pass"),
        _loan("pins for ever", "regained", "entry.children = entry.lent", "entry.lent"),
        Mutant(
            "does not settle loans",
            plain,
            "replied",
            " or (loans and not plain_loan.regained(state, sender, loans))",
            "",
        ),
    ),
    "lent by the owner, and not kept [lend]": (
        _loan(
            "keeps the owner's loan",
            "_covered",
            "    if loan.lender == user.owner:\n        return False\n",
            "",
        ),
    ),
    "lent home and away again": (
        _loan("holds its own for ever", "given_back", "owner.messages -= 1", "pass"),
        _loan("keeps its own handles", "given_back", "owner.handles -= less", "pass"),
    ),
    "mutual lending [lend]": (
        _loan("keeps handles", "given_back", "user.handles -= less", "pass"),
        _loan("holds for ever", "given_back", "user.messages -= 1", "pass"),
        _loan("borrows for ever", "given_back", "del user.loans[fork]", "pass"),
        _loan("leaves before its Ack", "given_back", "user.requested is not None", "False"),
        _loan(
            "frees what is in use",
            "given_back",
            " or user.pending or user.children",
            "",
        ),
    ),
    "note: return value": (
        _loan(
            "lends by every discipline", "loans", " or state.discipline.user is not LendingUser", ""
        ),
    ),
    "the caller dies and the lent reference lives on [lend]": (
        _loan(
            "lends to the dead",
            "loans",
            "    if state.dead.firsts and to in state.dead:\n        return None\n",
            "",
        ),
        _loan(
            "borrows from the dead",
            "lent",
            "        or (state.dead.firsts and _are_dead(state, sender, loans))\n",
            "",
        ),
        _loan(
            "answers the dead",
            "given_back",
            "    if state.dead.firsts and call.caller in state.dead:\n        return False\n",
            "",
        ),
        _loan("borrows from the dead", "_are_dead", "sender in state.dead or ", ""),
    ),
    "two aliases of each other [lend]": (
        _loan("lends what is an alias itself", "loans", " or mine.alias is not None", ""),
    ),
}
