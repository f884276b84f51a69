"""Rules of an endpoint's loans and creations: their ends, reports, and losses."""

from farref.protocol.references import References

from .mutant import Mutant, in_context

LOANS = {
    "lending/a_returned_reference": (
        in_context(
            "gives back what was lent for another call",
            "lent_for",
            "(call, ())",
            "(call, next(iter(self.state.serving.values()), ()))",
        ),
        in_context(
            "gives back another reference",
            "give",
            "lent.get(found)",
            "next(reversed(lent.values()))",
        ),
    ),
    "lent and given back [lend]": (
        in_context("gives nothing back", "give", "lent.get(found)", "None"),
        in_context("forks under the name of giving back", "give", "passing=_BACK, ", ""),
        in_context(
            "ends loans before it takes the reply",
            "receive_reply",
            "effects = self.references.accept(sender, brought, lent=lent)",
            "effects = self.loans.ended(sender, waiting.loans, message.loans)\n"
            "    effects += self.references.accept(sender, brought, lent=lent); lent = {}",
        ),
    ),
    "lent by the owner, and not kept [lend]": (
        in_context(
            "serves for ever",
            "end",
            "self.state.serving.pop(call, ())",
            "self.state.serving.get(call, ())",
        ),
        in_context("holds what a request brought", "end", "entries.release(descriptors)", "[]"),
        in_context(
            "settles no loan",
            "end",
            "report, requests = user.end_loan(fork, replies=replies)",
            "report, requests = None, []",
        ),
        in_context(
            "does not delete after a loan", "end", "effects += entries.end_if_unused(user)", "pass"
        ),
        in_context(
            "serves no request", "accept_request", "self.state.serving[call] = cargo.descriptors"
        ),
        in_context(
            "keeps what it lent",
            "receive_reply",
            "self.loans.ended(sender, waiting.loans, message.loans)",
            "[]",
        ),
    ),
    "lent to a creation, and not kept [borrow]": (
        in_context(
            "says nothing of what came home",
            "end",
            "each.passing is _LOAN and not replies",
            "False",
        ),
    ),
    "lent by a user, and kept [lend]": (
        in_context("asks for nothing", "end", "effects += entries.sendable(requests)"),
    ),
    "lent by the owner, and kept [lend]": (
        in_context("reports nothing", "end", "if report is not None:", "if False:"),
        in_context("does not hear what became of a loan", "ended", "told.get(fork)", "None"),
    ),
    "the owner dies while its object is lent [borrow]": (
        in_context(
            "settles loans of a dead owner's object", "ended", "if entry is None:", "if False:"
        ),
    ),
    "the borrower dies [borrow]": (
        in_context("merges the buried", "unburied", "if each[1] not in buried", ""),
    ),
    "the lender dies, who had it from a creator [borrow]": (
        in_context(
            "does not count the dead in their grace",
            "unburied",
            "self.state.buried",
            "self.state.dead",
        ),
    ),
    "the owner keeps, and the lender dies [borrow]": (
        in_context(
            "answers no notice for what is gone", "_notified", "[removal(rref, sender, fork)]", "[]"
        ),
    ),
    "lent by the owner, and kept [borrow]": (
        in_context(
            "keeps an entry after its notice",
            "_notified",
            "self.entries.after(user, user.notified(fork))",
            "user.notified(fork)",
        ),
    ),
    "lent by the owner to a creation, and kept": (
        in_context(
            "does not serve a creation to its end",
            "_saw",
            "self.state.making[message.rref] = message.call",
        ),
    ),
    "a method of the own object makes an object": (
        in_context(
            "makes for ever",
            "made",
            "self.state.making.pop(rref, None)",
            "self.state.making.get(rref)",
        ),
        in_context("waits for acknowledged creations", "created", "del state.asked[owner]"),
    ),
    "lending/a_creation": (
        in_context(
            "always returns a creation's loans",
            "made",
            "if loans else effects",
            "if True else effects",
        ),
    ),
    "lent to a creation, and not kept [lend]": (
        in_context(
            "does not return a creation's loans",
            "made",
            "if loans else effects",
            "if False else effects",
        ),
        in_context(
            "does not settle what a creation returned",
            "returned",
            "self.ended(sender, message.loans, message.loans)",
            "[]",
        ),
    ),
    "lent by the owner to a creation, and kept [lend]": (
        Mutant(
            "lends as if there came a reply",
            References,
            "share",
            "replies=replies)",
            "replies=True)",
        ),
    ),
    "lending/covered_by_another_loan": (
        in_context(
            "does not say that it is counted",
            "share",
            "bool(entry.known) or entry.counted",
            "False",
        ),
    ),
    "borrowing/notices_and_answers_are_batched": (
        in_context(
            "sends one notice for each loan",
            "_finish",
            "batched(effects) if len(effects) > 1 and self._batches else effects",
            "effects",
        ),
    ),
    "the lender dies [borrow]": (
        in_context(
            "settles a death while it announces itself",
            "uncounted",
            "if user.requested is not None",
            "if False",
        ),
    ),
    "too late: a living creator's object": (
        in_context(
            "does not see a creation",
            "_saw",
            "seen.add(message.rref.number, message.settled)",
        ),
        in_context("waits for what it has seen", "_is_gone", "creator in seen and", "False and"),
    ),
    "too late: a created object [lend]": (
        in_context(
            "waits for what is gone", "own_or_await", "or not self._is_gone(rref)", "or True"
        ),
        in_context(
            "waits for creations of the dead", "_is_gone", "or creator in self.state.dead", ""
        ),
    ),
    "note: return value": (
        in_context(
            "does not wait for what comes", "own_or_await", "or not self._is_gone(rref)", ""
        ),
    ),
    "borrowing/rule_6_an_announcement_that_comes_too_late": (
        in_context("waits for its own objects", "_is_gone", "creator == self.state.me or", ""),
    ),
    "a value comes although the owner of a reference in it dies": (
        in_context(
            "cannot answer with what is lost",
            "_shareable",
            "self.entries.used(where) if lost else ",
            "",
        ),
        in_context(
            "pins what nobody will confirm",
            "share",
            "elif isinstance(entry, Owner) or not entry.lost:",
            "else:",
        ),
    ),
}
