"""Rules of an endpoint's loans and creations: what ends when, who is told, what is gone."""

from farref.protocol.context import Context

from .mutant import Mutant


def _loans(name: str, method: str, old: str, new: str) -> Mutant:
    machine = next(each for each in Context.__mro__ if method in vars(each))
    return Mutant(name, machine, method, old, new)


LOANS = (
    _loans(
        "gives back what was lent for another call",
        "give_back",
        "(call, ())",
        "(call, next(iter(self._serving.values()), ()))",
    ),
    _loans("gives back another reference", "give_back", "if loan.rref == rref:", "if True:"),
    _loans("gives nothing back", "give_back", "if loan.rref == rref:", "if False:"),
    _loans(
        "forks under the name of giving back",
        "give_back",
        "replace(loan, passing=Passing.BACK)",
        "loan",
    ),
    _loans("serves for ever", "_end", "self._serving.pop(call, ())", "self._serving.get(call, ())"),
    _loans("holds what a request brought", "_end", "self._release(descriptors)", "[]"),
    _loans("settles no loan", "_end", "if user is not None:", "if False:"),
    _loans(
        "does not delete after a loan",
        "_end",
        "effects += self._after(user, settled)",
        "effects += settled",
    ),
    _loans("says nothing of what came home", "_end", "None if replies else back", "None"),
    _loans("reports nothing", "_end", "if report is not None:", "if False:"),
    _loans(
        "settles loans of a dead owner's object", "_loan_ended", "if entry is None:", "if False:"
    ),
    _loans("merges the buried", "_unburied", "if each[1] not in self.buried", ""),
    _loans("does not count the dead in their grace", "_unburied", "self.buried", "self.dead"),
    _loans(
        "answers no notice for what is gone", "_notified", "[removal(rref, sender, fork)]", "[]"
    ),
    _loans(
        "keeps an entry after its notice",
        "_notified",
        "self._after(user, user.notified(fork))",
        "user.notified(fork)",
    ),
    _loans("takes empty tables back", "_take_back", "if borrowers and", "if"),
    _loans("takes nothing back", "_take_back", "if borrowers and", "if False and"),
    _loans(
        "takes back what its owner's death settled",
        "_take_back",
        "and report.owner not in self.dead",
        "",
    ),
    _loans(
        "serves no request", "_accept_request", "self._serving[call] = cargo.descriptors", "pass"
    ),
    _loans(
        "does not serve a creation to its end",
        "_receive_create",
        "self._making[message.rref] = message.call",
        "pass",
    ),
    _loans("makes for ever", "resolve", "self._making.pop(rref, None)", "self._making.get(rref)"),
    _loans("always returns a creation's loans", "resolve", "if loans:", "if True:"),
    _loans("does not return a creation's loans", "resolve", "if loans:", "if False:"),
    _loans(
        "ends loans before it takes the reply",
        "_receive_reply",
        "effects = self._accept(sender, message.cargo, lent=lent)",
        "told = {each.fork: each for each in message.loans}\n"
        "    effects = [each for fork, rref in lent.items()"
        " for each in self._loan_ended(sender, rref, fork, told.get(fork))]\n"
        "    effects += self._accept(sender, message.cargo, lent=lent); lent = {}",
    ),
    _loans("does not hear what became of a loan", "_receive_reply", "reports.get(fork)", "None"),
    _loans(
        "keeps what it lent",
        "_receive_reply",
        "for fork, rref in lent.items():",
        "for fork, rref in ():",
    ),
    _loans(
        "tells no borrower of a death",
        "died",
        "effects += self._after(user, user.died(worker, self._mint_fork))",
        "pass",
    ),
    _loans(
        "waits for the dead to acknowledge creations",
        "died",
        "self._asked.pop(worker, None)",
        "pass",
    ),
    _loans(
        "takes back from nobody", "died", "for message in unacknowledged:", "for message in ():"
    ),
    _loans("never buries", "bury", "self.buried.add(worker)", "pass"),
    _loans(
        "does not settle what a creation returned",
        "_receive",
        "for e in self._loan_ended(sender, r.rref, r.fork, r)]",
        "for e in ()]",
    ),
    _loans("lends as if there came a reply", "lend", "replies=replies)", "replies=True)"),
    _loans("does not say that it is counted", "lend", "counted=counted", "counted=False"),
    _loans(
        "sends one notice for each loan",
        "_finish",
        "batched(self._filter(effects))",
        "self._filter(effects)",
    ),
    # ---- creations (see `of_creations`, too)
    _loans("remembers what the dead created", "bury", "self._seen.pop(worker, None)", "pass"),
    _loans(
        "does not see a creation",
        "_receive_create",
        "self._seen.setdefault(sender, Seen()).add(message.rref.number, message.settled)",
        "pass",
    ),
    _loans("waits for acknowledged creations", "_created", "del self._asked[owner]", "pass"),
    _loans("waits for what is gone", "_own_or_await", "or not self._is_gone(rref)", "or True"),
    _loans("does not wait for what comes", "_own_or_await", "or not self._is_gone(rref)", ""),
    _loans("waits for its own objects", "_is_gone", "creator == self.me or", ""),
    _loans("waits for creations of the dead", "_is_gone", "or creator in self.dead", ""),
    _loans("waits for what it has seen", "_is_gone", "creator in self._seen and", "False and"),
)
