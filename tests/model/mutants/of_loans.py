"""Rules of an endpoint's loans and creations: what ends when, who is told, what is gone."""

from farref.protocol.context import Context

from .mutant import Mutant


def _loans(name: str, method: str, old: str, new: str) -> Mutant:
    machine = next(each for each in Context.__mro__ if method in vars(each))
    return Mutant(name, machine, method, old, new)


LOANS = (
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
    # ---- creations
)
