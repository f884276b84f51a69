"""Rules of the plain moves of calls that lend: as the general machine, or nothing."""

from farref.protocol import plain, plain_loan

from .mutant import Mutant


def _loan(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, plain_loan, method, old, new)


PLAIN_LOAN = {
    "a cancelled function [borrow]": (
        _loan(
            "borrows by every discipline",
            "lent",
            "        or state.discipline.user is not LendingUser\n",
            "",
        ),
    ),
    "a message that cannot be unpickled [lend]": (
        _loan("does not hold its own", "lent", "mine.messages += 1", "pass"),
        _loan(
            "uses what it owns", "lent", "            or (mine is not None) != (owner == me)\n", ""
        ),
        _loan("does not note that it has come", "lent", "mine.stamp += 1", "pass"),
    ),
    "a method that calls its own object and waits [lend]": (
        _loan(
            "counts only what it knows",
            "lend",
            "entry.made or bool(entry.known)",
            "bool(entry.known)",
        ),
        _loan("does not note that it has left", "lend", "entry.stamp += 1", "pass"),
        _loan("gives a number twice", "lend", "state.calls += 1", "pass"),
        _loan("names two forks alike", "lend", "state.forks = number", "pass"),
        _loan("pins nothing", "lend", "entry.lend(fork, to, replies=True)", "pass"),
        _loan("waits for no loans", "lend", "Waiting(to, None, loans)", "Waiting(to, None)"),
    ),
    "an alias of the caller's own object [lend]": (
        _loan("lends an alias", "lend", " or rref in state.names", ""),
    ),
    "lent again to one who let go [lend]": (
        _loan("leaves with another's fork", "_returns", "user.known == (fork,)", "True"),
        _loan(
            "tells no owner",
            "_returns",
            " or (user.known == (fork,) and mine.lender == user.owner)",
            " or True",
        ),
    ),
    "lent by a user, and kept [lend]": (
        Mutant("keeps what nobody holds", plain, "regained", " or not entry.handles", ""),
        Mutant("does not hear what is kept", plain, "replied", "        or message.loans\n", ""),
        _loan("gives back what it keeps", "returned", "not _returns(user, each, less)", "False"),
    ),
    "lent by a user, and not kept [lend]": (
        _loan("covers itself", "_returns", " if other != fork", ""),
        _loan("forgets its handles", "_returns", "user.handles > less or ", ""),
        _loan(
            "keeps what nobody covers",
            "_returns",
            "return bool(user.known) or any(",
            "return True or any(",
        ),
        _loan("always says that it is counted", "lend", "entry.made or bool(entry.known)", "True"),
        _loan("does not borrow", "lent", "user.borrow(each)", "pass"),
        _loan("does not hold it", "lent", "user.messages += 1", "pass"),
        _loan("forgets what the call brought", "lent", "state.serving[call] = loans", "pass"),
        _loan("borrows for ever", "returned", "del user.loans[fork]", "pass"),
        _loan("does not end the call", "returned", "del state.serving[call]", "pass"),
        _loan("holds for ever", "returned", "user.messages -= 1", "pass"),
        _loan("keeps handles", "returned", "user.handles -= less", "pass"),
        _loan("keeps the entry", "returned", "del users[user.rref]", "pass"),
        Mutant(
            "lends for ever", plain, "regained", "entry.loan_ended(sender, each.fork, None)", "pass"
        ),
        Mutant(
            "does not settle loans",
            plain,
            "replied",
            " or (waiting.loans and not regained(state, sender, waiting.loans))",
            "",
        ),
    ),
    "lent by the owner, and not kept [lend]": (
        _loan(
            "keeps the owner's loan",
            "_returns",
            "        if mine.lender == user.owner:\n            return False\n",
            "",
        ),
    ),
    "lent home and away again": (
        _loan("holds its own for ever", "returned", "mine.messages -= 1", "pass"),
        _loan("keeps its own handles", "returned", "mine.handles -= gone.count(each.rref)", "pass"),
    ),
    "mutual lending [lend]": (
        _loan("leaves before its Ack", "_returns", "user.requested is not None", "False"),
        _loan(
            "frees what is in use",
            "returned",
            "not (user.handles or user.messages or user.pending or user.children)",
            "True",
        ),
    ),
    "note: return value": (
        _loan(
            "lends by every discipline", "lend", " or state.discipline.user is not LendingUser", ""
        ),
    ),
    "the caller dies and the lent reference lives on [lend]": (
        _loan(
            "lends to the dead",
            "lend",
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
            "returned",
            "    if state.dead.firsts and call.caller in state.dead:\n        return None\n",
            "",
        ),
        _loan("borrows from the dead", "_are_dead", "sender in state.dead or ", ""),
    ),
    "two aliases of each other [lend]": (
        _loan("lends what is an alias itself", "lend", " or mine.alias is not None", ""),
    ),
}
