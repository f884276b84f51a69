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
        _loan(
            "takes its own for another's", "lent", "owner not in (me, sender)", "owner != sender"
        ),
        _loan("holds its own as a user", "lent", "mine is not None", "False"),
        _loan("looks for the user of its own", "given_back", "user is None:", "False:"),
        _loan(
            "ends other loans, too", "regained", "            and len(entry.children) == 1\n", ""
        ),
        _loan("lends what is another's as its own", "loans", "type(entry) is LendingUser", "False"),
        _loan("forgets other loans", "loans", "if entry.children:", "if False:"),
        _loan("sends what it has not made", "lend", "if made is None:", "if False:"),
        _loan("answers without its loans", "returned", "if not given_back", "if given_back"),
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
    "an alias, lent to its owner [lend]": (
        _loan("ends handles of an own alias", "given_back", "owner.handles < less or ", ""),
    ),
    "an alias, lent to one who learns what it stands for [lend]": (
        _loan("ends handles of an alias", "given_back", "user.handles < less", "False"),
    ),
    "an alias of the caller's own object [lend]": (
        _loan("lends an alias", "loans", " or (names and rref in names)", ""),
    ),
    "lent again to one who let go [lend]": (
        _loan(
            "leaves with another's fork",
            "given_back",
            " or (user.known and user.known != (fork,))",
            "",
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
    "a cancelled function [lend]": (
        _loan("asks the owner of its own loan", "lent", "owner not in (me, sender)", "owner != me"),
    ),
    "an argument, kept by the object's owner [lend]": (
        _loan("lends its own as another's", "loans", "type(entry) is LendingUser", "True"),
        _loan("looks for the user of its own", "loans", "user is not None", "True"),
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
            "if loans and not plain_loan.regained(state, sender, loans):",
            "if False:",
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
        _loan("leaves before its Ack", "given_back", "user.requested is not None or ", ""),
        _loan("borrows two loans as one", "lent", "user is None and owner", "owner"),
        _loan(
            "forgets its other loans", "lent", "        if user is None:\n", "        if True:\n"
        ),
    ),
    "mutual lending, of a borrowed reference [lend]": (
        _loan("forgets the loans of other calls", "given_back", "if not user.loans:", "if True:"),
    ),
    "mutual lending, between two who are not counted [lend]": (
        _loan("is covered by one who is not counted", "_covered", "loans[it].counted", "loans[it]"),
    ),
    "returned by a chain of callees [lend]": (
        _loan("frees what another message holds", "given_back", "user.messages > 1 or ", ""),
    ),
    "lent to a callee that lends it on and fetches [lend]": (
        _loan("frees what it has lent on", "given_back", " or user.children", ""),
        _loan("frees what it has asked for", "given_back", "user.pending or ", ""),
    ),
    "lent twice in one call [lend]": (
        _loan(
            "borrows an object once",
            "lent",
            "    if len(new) + len(known) < len(loans):\n        return None",
            "    pass",
        ),
        _loan("covers each by the other", "given_back", "(kept or mine)", "mine"),
    ),
    "stored in a value of the borrower's [lend]": (
        _loan("forgets handles of others", "given_back", "others or ", ""),
    ),
    "a message that cannot be unpickled": (
        _loan(
            "holds what nobody else does",
            "given_back",
            " or not (owner.handles > less or owner.forks)",
            "",
        ),
    ),
    "note: return value": (
        _loan(
            "lends by every discipline", "loans", " or state.discipline.user is not LendingUser", ""
        ),
    ),
    "a value that refers to another object [lend]": (
        _loan("counts only what it made", "loans", " or bool(entry.known)", ""),
    ),
    "a method that awaits returns a reference, which stands for its result [lend]": (
        _loan("ends loans where there are none", "given_back", "if not loans:", "if False:"),
    ),
    "a method that waits for itself by way of another endpoint [lend]": (
        _loan("has lent its own as a user", "regained", "type(entry) is LendingUser", "True"),
    ),
    "a lent reference is kept in a value, and its owner dies before the value is fetched [lend]": (
        _loan("lends what is lost", "loans", "user.lost or ", ""),
    ),
    "the owner dies while its object is lent [lend]": (
        _loan(
            "borrows what is lost",
            "_are_dead",
            " or any(each.owner in state.dead for each in loans)",
            "",
        ),
        _loan("gives back what is lost", "given_back", "if loan is None:", "if False:"),
        _loan("regains what is lost", "regained", "entry is None or ", ""),
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
