"""Rules of lending: the pins and covers of loans, and requests for the kept ones."""

from farref.protocol.lending import LendingOwner, LendingUser

from .mutant import Mutant


def _owner(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, LendingOwner, method, old, new)


def _user(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, LendingUser, method, old, new)


LENDING = (
    _owner("does not count what it lends", "lend", "self.fork(fork, to)"),
    _owner("lends where no reply comes", "lend", "if not replies:", "if False:"),
    _owner("does not remember what it lends", "lend", "self.lent[fork] = to"),
    _owner("lends what it abandons", "abandon", "self.lent.pop(fork, None)"),
    _owner("lends for ever", "loan_ended", "del self.lent[fork]"),
    _owner("forgets a held loan", "loan_ended", "report is None or not report.held", "True"),
    _owner("counts a returned loan", "loan_ended", "report is None or not report.held", "False"),
    _owner("does not free after a loan", "loan_ended", "return self.settle()", "return []"),
    _owner("waits for loans to the dead", "forget", "if to != worker", ""),
    _owner("forgets loans to the living", "forget", "if to != worker", "if False"),
    _owner("frees what is lent", "unused", "not self.lent and", ""),
    _user("forgets that it created the object", "create", "self.made = True"),
    _user("believes that every lender is counted", "counted", "self.made or", "True or"),
    _user("does not pin what it lends", "lend", "self.fork(fork, to)"),
    _user("waits for the reply to a creation", "lend", "if replies:", "if True:"),
    _user("waits for no reply", "lend", "if replies:", "if False:"),
    _user("lends what it abandons", "abandon", "self.lent.pop(fork, None)"),
    _user("unpins a loan before the reply", "child_ack", "if fork not in self.lent:", "if True:"),
    _user("forgets an early ChildAck", "child_ack", "self.lent[fork] = True"),
    _user("waits for an early ChildAck again", "loan_ended", "acknowledged or", ""),
    _user("unpins a held loan", "loan_ended", "not report.held", "True"),
    _user("pins a loan returned without a word", "loan_ended", "report is None or", "report and"),
    _user("pins a returned loan", "loan_ended", "or not report.held", ""),
    _user("does not delete after a loan", "loan_ended", "return self.settle()", "return []"),
    _user("believes no lender to be counted", "borrow", "by_owner or descriptor.counted", "False"),
    _user("believes every lender", "borrow", "by_owner or descriptor.counted", "True"),
    _user(
        "does not know what the owner lends", "borrow", "if by_owner else []", "if False else []"
    ),
    _user("believes to be counted when lent to", "borrow", "if by_owner else []", ""),
    _user("borrows for ever", "end_loan", "self.loans.pop(fork, None)", "self.loans.get(fork)"),
    _user("reports only what is held", "end_loan", "if held == replies", "if held"),
    _user("reports only what is returned", "end_loan", "if held == replies", "if not held"),
    _user("does not delete after the last loan", "end_loan", "effects + self.settle()", "effects"),
    _user("returns what it uses to the owner", "_hold_on", "(self.in_use or", "("),
    _user(
        "returns what the owner counts for a request",
        "_hold_on",
        "or self.requested is not None",
        "",
    ),
    _user("keeps all loans of the owner's", "_hold_on", "self.known == {fork}", "True"),
    _user("deletes what it returned", "_hold_on", "self.known.discard(fork)"),
    _user("holds what it does not use", "_hold_on", "not self.in_use or", ""),
    _user("holds what is covered", "_hold_on", "covered or", ""),
    _user("is covered by nothing but the owner", "_hold_on", "self.confirmed or", "False and"),
    _user("asks though it is counted", "_hold_on", "self.confirmed or", ""),
    _user(
        "is covered by any loan",
        "_hold_on",
        "any(other.counted for other in self.loans.values())",
        "self.loans",
    ),
    _user(
        "is covered by no other loan",
        "_hold_on",
        "any(other.counted for other in self.loans.values())",
        "False",
    ),
    _user("owes a dead lender", "_hold_on", "or loan.lender is None", ""),
    _user("owes its lender nothing", "_hold_on", "self.owed[fork] = loan.lender"),
    _user("does not ask for what it keeps", "_hold_on", "self._ask(fork)", "[]"),
    _user("asks twice", "_ask", "if self.requested is not None:", "if False:"),
    _user("forgets that it asked", "_ask", "self.requested = fork"),
    _user("hears of no lender's death", "died", "loan.lender == worker", "False"),
    _user("asks whoever died", "died", "loan.lender == worker", "True"),
    _user("believes in a dead lender", "died", "self.loans[fork] = Loan(None, counted=False)"),
    _user("is covered by a dead lender", "died", "counted=False", "counted=True"),
    _user("asks though it is counted after a death", "died", "if not self.confirmed:", "if True:"),
    _user("waits for replies of the dead", "forget", "if self.children[fork] != worker", ""),
    _user("forgets what it lent", "forget", "if self.children[fork] != worker", "if False"),
    _user("lends a dead owner's object", "lose", "self.lent.clear()"),
    _user("borrows a dead owner's object", "lose", "self.loans.clear()"),
    _user("deletes while a loan runs", "unused", "not self.loans and", ""),
    _user("deletes what the owner never counted", "settle", "if self.known else []", ""),
)
