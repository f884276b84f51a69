"""Rules of the context: what is held when, and what a death changes."""

from farref.protocol.context import Context

from .mutant import Mutant


def _context(name: str, method: str, old: str, new: str) -> Mutant:
    machine = next(each for each in Context.__mro__ if method in vars(each))
    return Mutant(name, machine, method, old, new)


CONTEXT = (
    _context("believes the dead", "receive", "if sender in self.dead", "if False"),
    _context(
        "refuses what overtakes a creation",
        "_own_or_await",
        "owner = self.owners[rref] = self.discipline.own(rref)",
        'raise ProtocolError("unknown")',
    ),
    _context("starts an own object without a handle", "own", "owner.hold()", "pass"),
    _context("creates without a handle", "create", "self.hold(rref)", "pass"),
    _context(
        "does not hold what is being created",
        "create",
        "self._use(rref, to).create(fork)",
        "pass",
    ),
    _context(
        "lets go of an object while its method is asked to create",
        "create",
        "if target is not None:",
        "if False:",
    ),
    _context(
        "lets go of an object that it asked something",
        "_mint_pin",
        "if rref is not None:",
        "if False:",
    ),
    _context(
        "holds the target of a creation for ever", "_created", "*creating", "creating[0], None"
    ),
    _context(
        "holds the target of its own creation for ever",
        "_receive_create",
        "if sender == self.me:",
        "if False:",
    ),
    _context(
        "holds what it asked for ever",
        "_receive_reply",
        "if waiting.rref is not None:",
        "if False:",
    ),
    _context("waits after the reply", "_receive_reply", "del self.waiting[message.call]", "pass"),
    _context(
        "does not accept what a reply brings",
        "_receive_reply",
        "effects = self._accept(sender, message.cargo, lent=lent)",
        "effects = []",
    ),
    _context(
        "does not accept what a creation brings",
        "_receive_create",
        "effects += self._accept_request(sender, message.call, message.cargo)",
        "pass",
    ),
    _context(
        "runs a method as a function",
        "_receive_create",
        "if message.target is None:",
        "if True:",
    ),
    _context(
        "does not notice an answer",
        "_answered",
        "entry.pending.discard(request)",
        "pass",
    ),
    _context(
        "does not delete after the last answer",
        "_answered",
        "return self._after(entry, entry.settle())",
        "return []",
    ),
    _context("does not release", "_release", "self._after(entry, entry.release())", "[]"),
    _context("keeps entries that have ended", "_after", "if entry.unused:", "if False:"),
    _context("sends to the dead", "_filter", "if not self.dead:", "if True:"),
    _context("speaks to the dead", "_check_alive", "if worker in self.dead:", "if False:"),
    _context("shares with the dead", "_share", "self._check_alive(to)", "pass"),
    _context("tells the dead", "tell", "self._check_alive(to)", "pass"),
    _context("calls the dead", "call", "self._check_alive(to)", "pass"),
    _context("creates on the dead", "create", "self._check_alive(to)", "pass"),
    _context("asks a dead owner", "owner_of", "if entry.lost:", "if False:"),
    _context(
        "undoes what a burial undid",
        "abandon",
        "descriptor.fork in children",
        "True",
    ),
    _context("undoes nothing", "abandon", "descriptor.fork in children", "False"),
    _context(
        "forgets that the owner of what arrives is dead",
        "_use",
        "user.lost = owner in self.dead",
        "pass",
    ),
    _context("waits for the dead", "died", "del self.waiting[call]", "pass"),
    _context("believes in dead owners", "died", "user.lose()", "pass"),
    _context(
        "waits for creations on the dead",
        "died",
        "self._creating.pop(user.rref, None)",
        "pass",
    ),
    _context("keeps entries of the dead", "died", "effects += self._after(user, [])", "pass"),
    _context(
        "does not release forks of the dead",
        "bury",
        "effects += self._after(owner, owner.forget(worker))",
        "pass",
    ),
    _context(
        "waits for a creation that died with its creator",
        "bury",
        "effects.append(Lose(owner.rref))",
        "pass",
    ),
    _context(
        "gives up creations of the living",
        "bury",
        "and owner.rref.creator == worker",
        "",
    ),
    _context(
        "gives up what was created in time",
        "bury",
        "not owner.created and",
        "not owner.resolved and",
    ),
    _context(
        "does not unpin what was pinned for the dead",
        "bury",
        "effects += self._after(user, user.forget(worker))",
        "pass",
    ),
    _context(
        "buries at once",
        "died",
        "self.dead.add(worker)",
        "self.dead.add(worker); self.bury(worker)",
    ),
    _context(
        "refuses a child's ACK after its owner's death",
        "_receive",
        "if found_user is None or found_user.lost:",
        "if found_user is None:",
    ),
    _context(
        "refuses a child's ACK after it let go of a dead owner's object",
        "_receive",
        "found_user = self.users.get(message.rref)",
        "found_user = self._user(message.rref)",
    ),
    _context("cancels what was answered", "cancel", "if waiting is None:", "if False:"),
    _context(
        "stops no function",
        "_receive",
        "return [Stop(sender, call)]",
        "return []",
    ),
    _context(
        "raises when a cancel comes too late",
        "_receive",
        "found = self.owners.get(rref)",
        "found = self._owner(rref)",
    ),
)
