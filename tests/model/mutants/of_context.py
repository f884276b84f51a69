"""Rules of the context: holds on references, and the changes of a death."""

from .mutant import in_context

CONTEXT = {
    "a user dies": (
        in_context(
            "believes the dead", "take", "if state.dead.firsts and sender in state.dead", "if False"
        ),
    ),
    "the caller dies while its method awaits": (
        in_context(
            "believes the bulks of the dead",
            "take_all",
            "if self.dead.firsts and sender in self.dead",
            "if False",
        ),
    ),
    "the creator dies": (
        in_context("finishes no bulk", "take_all", "self._finish(effects)", "effects"),
    ),
    "nobody wants the object when its value comes": (
        in_context(
            "refuses what overtakes a creation",
            "own_or_await",
            "owner = self.begin(rref)",
            'raise ProtocolError("unknown")',
        ),
        in_context("does not hold what is being created", "create", "user.create(fork)"),
        in_context("does not acknowledge a creation", "create", "[Send(sender, ack)]", "[]"),
    ),
    "a method of the own object makes an object": (
        in_context("starts an own object without a handle", "own", "owner.handles = 1"),
        in_context(
            "creates without a handle",
            "create",
            "self.entries.begin(rref).handles = 1",
            "self.entries.begin(rref)",
        ),
        in_context(
            "lets go of an object while its method is asked to create",
            "create",
            "entries.allocate_call(where)",
            "entries.allocate_call(None)",
        ),
        in_context(
            "lets go of an object that it asked something",
            "allocate_call",
            "if rref is not None:",
            "if False:",
        ),
        in_context(
            "holds the target of a creation for ever", "created", "*creating", "creating[0], None"
        ),
        in_context(
            "holds the target of its own creation for ever",
            "create",
            "if sender == state.me:",
            "if False:",
        ),
        in_context(
            "runs a method as a function", "create", "if message.target is None:", "if True:"
        ),
        in_context("does not notice an answer", "answered", "entry.pending.discard(request)"),
        in_context("frees nothing at the last drop", "drop", "self.end_if_unused(entry)", "[]"),
        in_context("does not count a drop", "drop", "entry.handles -= 1"),
        in_context(
            "keeps entries that have ended",
            "end_if_unused",
            "self._remove(",
            "(lambda *it: it[1])(",
        ),
    ),
    "a user shares with itself, the object is not its own": (
        in_context(
            "does not count a handle", "hold", "name.canonical).handles += 1", "name.canonical)"
        ),
    ),
    "note: return value": (
        in_context("takes a bulk without effect", "take_all", "effects += take(sender, message)"),
        in_context(
            "takes a bulk up to its first error", "take_all", "errors.append(error)", "break"
        ),
        in_context(
            "holds what it asked for ever",
            "receive_reply",
            "effects += self.entries.answered(waiting.rref, message.call)",
        ),
        in_context(
            "does not delete after the last answer",
            "answered",
            "return self.end_if_unused(entry)",
            "return []",
        ),
    ),
    "a reference returned in the reply, by the owner": (
        in_context(
            "waits after the reply", "receive_reply", "del self.state.waiting[message.call]"
        ),
        in_context(
            "does not accept what a reply brings",
            "receive_reply",
            "effects = self.references.accept(sender, brought, lent=lent)",
            "effects = []",
        ),
        in_context("does not release", "release", "self.end_if_unused(entry)", "[]"),
    ),
    "a value that refers to another object": (
        in_context(
            "does not accept what a creation brings",
            "create",
            "effects += self.references.accept_request(sender, message.call, message.cargo)",
        ),
    ),
    "the caller dies [lend]": (
        in_context("sends to the dead", "sendable", "if not dead.firsts:", "if True:"),
        in_context(
            "speaks to the dead",
            "check_alive",
            "if self.state.dead.firsts and worker in self.state.dead:",
            "if False:",
        ),
        in_context("shares with the dead", "_shareable", "self.entries.check_alive(to)"),
    ),
    "plain messages and calls to one who dies": (
        in_context("tells the dead", "tell", "self.entries.check_alive(to)"),
        in_context("calls the dead", "call", "self.entries.check_alive(to)"),
    ),
    "a message is abandoned after its owner died": (
        in_context("creates on the dead", "create", "self.entries.check_alive(to)"),
    ),
    "the owner dies while a method makes an object": (
        in_context(
            "asks a dead owner", "living", "isinstance(entry, User) and entry.lost", "False"
        ),
    ),
    "a message is abandoned after its receiver was buried": (
        in_context("undoes what a burial undid", "abandon", "descriptor.fork in children", "True"),
    ),
    "a message that cannot be pickled": (
        in_context("undoes nothing", "abandon", "descriptor.fork in children", "False"),
    ),
    "the owner dies and its users keep what they have": (
        in_context(
            "forgets that the owner of what arrives is dead",
            "accept",
            "lost = bool(state.dead.firsts) and owner in state.dead",
            "lost = False",
        ),
        in_context(
            "refuses a child's ACK after its owner's death",
            "_child_ack",
            "user is None or user.lost",
            "user is None",
        ),
    ),
    "the owner dies while its object is lent [lend]": (
        in_context(
            "refuses a child's ACK after it let go of a dead owner's object",
            "_child_ack",
            "self.users.get(message.rref)",
            "self.entries.user(message.rref)",
        ),
    ),
    "a cancelled function": (
        in_context("cancels what was answered", "cancel", "if waiting is None:", "if False:"),
    ),
    "aliases/a_cancelled_direct_fetch": (
        in_context(
            "asks again for what was cancelled",
            "cancel",
            "if waiting.fetch is not None:",
            "if False:",
        ),
    ),
    "a call on an alias, cancelled while it is held back": (
        in_context("runs what came cancelled", "_enqueue", "and request.cancelled", "and False"),
    ),
    "a cancelled function [lend]": (
        in_context("stops no function", "_cancel", "[Stop(sender, message.call)]", "[]"),
    ),
    "a cancelled call with references [lend]": (
        in_context(
            "raises when a cancel comes too late",
            "cancel",
            "owner = self.state.owners.get(rref)",
            "owner = self.entries.owner(rref)",
        ),
    ),
}
