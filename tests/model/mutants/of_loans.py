"""Rules of an endpoint's loans and creations: what ends when, who is told, what is gone."""

from .mutant import in_context

LOANS = (
    in_context(
        "gives back what was lent for another call",
        "_loan",
        "(call, ())",
        "(call, next(iter(self._serving.values()), ()))",
    ),
    in_context("gives back another reference", "_loan", "if loan.rref == rref:", "if True:"),
    in_context("gives nothing back", "_loan", "if loan.rref == rref:", "if False:"),
    in_context(
        "forks under the name of giving back",
        "give_back",
        "passing=Passing.BACK, ",
        "",
    ),
    in_context(
        "serves for ever", "_end", "self._serving.pop(call, ())", "self._serving.get(call, ())"
    ),
    in_context("holds what a request brought", "_end", "self._release(descriptors)", "[]"),
    in_context("settles no loan", "_end", "if user is not None:", "if False:"),
    in_context(
        "does not delete after a loan",
        "_end",
        "effects += self._after(user, settled)",
        "effects += settled",
    ),
    in_context("says nothing of what came home", "_end", "None if replies else back", "None"),
    in_context("reports nothing", "_end", "if report is not None:", "if False:"),
    in_context(
        "settles loans of a dead owner's object", "_loan_ended", "if entry is None:", "if False:"
    ),
    in_context("merges the buried", "_unburied", "if each[1] not in self.buried", ""),
    in_context("does not count the dead in their grace", "_unburied", "self.buried", "self.dead"),
    in_context(
        "answers no notice for what is gone", "_notified", "[removal(rref, sender, fork)]", "[]"
    ),
    in_context(
        "keeps an entry after its notice",
        "_notified",
        "self._after(user, user.notified(fork))",
        "user.notified(fork)",
    ),
    in_context("takes empty tables back", "_take_back", "if borrowers and", "if"),
    in_context("takes nothing back", "_take_back", "if borrowers and", "if False and"),
    in_context(
        "takes back what its owner's death settled",
        "_take_back",
        "and report.owner not in self.dead",
        "",
    ),
    in_context(
        "serves no request", "_accept_request", "self._serving[call] = cargo.descriptors", "pass"
    ),
    in_context(
        "does not serve a creation to its end",
        "_receive_create",
        "self._making[message.rref] = message.call",
        "pass",
    ),
    in_context("makes for ever", "_made", "self._making.pop(rref, None)", "self._making.get(rref)"),
    in_context(
        "always returns a creation's loans",
        "_made",
        "if loans else effects",
        "if True else effects",
    ),
    in_context(
        "does not return a creation's loans",
        "_made",
        "if loans else effects",
        "if False else effects",
    ),
    in_context(
        "ends loans before it takes the reply",
        "_receive_reply",
        "effects = self._accept(sender, brought, lent=lent)",
        "told = {each.fork: each for each in message.loans}\n"
        "    effects = [each for fork, rref in lent.items()"
        " for each in self._loan_ended(sender, rref, fork, told.get(fork))]\n"
        "    effects += self._accept(sender, brought, lent=lent); lent = {}",
    ),
    in_context(
        "does not hear what became of a loan", "_receive_reply", "reports.get(fork)", "None"
    ),
    in_context(
        "keeps what it lent",
        "_receive_reply",
        "for fork, rref in lent.items():",
        "for fork, rref in ():",
    ),
    in_context(
        "tells no borrower of a death",
        "died",
        "effects += self._after(user, user.died(worker, self._mint_fork))",
        "pass",
    ),
    in_context(
        "waits for the dead to acknowledge creations",
        "died",
        "self._asked.pop(worker, None)",
        "pass",
    ),
    in_context(
        "takes back from nobody", "died", "for message in unacknowledged:", "for message in ():"
    ),
    in_context("never buries", "bury", "self.buried.add(worker)", "pass"),
    in_context(
        "does not settle what a creation returned",
        "_receive",
        "for e in self._loan_ended(sender, r.rref, r.fork, r)]",
        "for e in ()]",
    ),
    in_context("lends as if there came a reply", "lend", "replies=replies)", "replies=True)"),
    in_context("does not say that it is counted", "lend", "counted=counted", "counted=False"),
    in_context(
        "sends one notice for each loan",
        "_finish",
        "batched(self._filter(effects))",
        "self._filter(effects)",
    ),
    # ---- creations (see `of_creations`, too)
    in_context("remembers what the dead created", "bury", "self._seen.pop(worker, None)", "pass"),
    in_context(
        "does not see a creation",
        "_receive_create",
        "self._seen.setdefault(sender, Seen()).add(message.rref.number, message.settled)",
        "pass",
    ),
    in_context("waits for acknowledged creations", "_created", "del self._asked[owner]", "pass"),
    in_context("waits for what is gone", "_own_or_await", "or not self._is_gone(rref)", "or True"),
    in_context("does not wait for what comes", "_own_or_await", "or not self._is_gone(rref)", ""),
    in_context("waits for its own objects", "_is_gone", "creator == self.me or", ""),
    in_context("waits for creations of the dead", "_is_gone", "or creator in self.dead", ""),
    in_context("waits for what it has seen", "_is_gone", "creator in self._seen and", "False and"),
)
