"""Rules of lending: the pins and covers of loans, and requests for the kept ones."""

from farref.protocol.lending import LendingOwner, LendingUser
from farref.protocol.owner import Owner
from farref.protocol.user import User

from .mutant import Mutant


def _owner(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, LendingOwner, method, old, new)


def _user(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, LendingUser, method, old, new)


LENDING = {
    "lent by the owner, and not kept [lend]": (
        _owner("does not count what it lends", "lend", "self.fork(fork, to)"),
        _owner("does not remember what it lends", "lend", "self.lent[fork] = to"),
        _owner("lends for ever", "loan_ended", "del self.lent[fork]"),
        _owner(
            "counts a returned loan", "loan_ended", "report is None or not report.held", "False"
        ),
        _owner("does not free after a loan", "loan_ended", "self.end_if_unused()", "[]"),
        _user("borrows for ever", "end_loan", "self.loans.pop(fork, None)", "self.loans.get(fork)"),
        _user("deletes what it returned", "_hold_on", "self.known = without(self.known, fork)"),
        Mutant("deletes what the owner never counted", User, "leave", " or not self.known", ""),
    ),
    "lent twice in one call by the owner [lend]": (
        Mutant("deletes while a loan runs", User, "unused", "or self.loans", ""),
    ),
    "lent by the owner to a creation, and kept [lend]": (
        _owner("lends where no reply comes", "lend", "if not replies:", "if False:"),
    ),
    "a call that cannot be pickled [lend]": (
        _owner("lends what it abandons", "abandon", "self.lent.pop(fork, None)"),
    ),
    "lent by the owner, and kept [lend]": (
        _owner("forgets a held loan", "loan_ended", "report is None or not report.held", "True"),
        _user(
            "does not know what the owner lends",
            "borrow",
            "if by_owner else []",
            "if False else []",
        ),
        _user("reports only what is returned", "end_loan", "if held == replies", "if not held"),
        _user("returns what it uses to the owner", "_hold_on", "(self.in_use or", "("),
    ),
    "the callee dies with what it was lent [lend]": (
        _owner("waits for loans to the dead", "forget", "if to != worker", ""),
    ),
    "the borrower dies [lend]": (
        _owner("forgets loans to the living", "forget", "if to != worker", "if False"),
        _user("asks whoever died", "died", "loan.lender == worker", "True"),
    ),
    "returned by a chain of callees [lend]": (
        Mutant("frees what is lent", Owner, "at_rest", "and not self.lent", ""),
    ),
    "lent twice by its creator, and kept once [lend]": (
        _user("forgets that it created the object", "create", "self.made = True"),
        _user(
            "believes no lender to be counted", "borrow", "by_owner or descriptor.counted", "False"
        ),
        _user(
            "is covered by no other loan",
            "_hold_on",
            "any(other.counted for other in self.loans.values())",
            "False",
        ),
    ),
    "mutual lending, between two who are not counted [lend]": (
        _user("believes that every lender is counted", "counted", "self.made or", "True or"),
        _user("believes every lender", "borrow", "by_owner or descriptor.counted", "True"),
        _user(
            "is covered by any loan",
            "_hold_on",
            "any(other.counted for other in self.loans.values())",
            "self.loans",
        ),
    ),
    "lent to a method of its own [lend]": (
        _user("does not delete after a loan", "loan_ended", "self.end_if_unused()", "[]"),
        _user("does not pin what it lends", "lend", "self.children = children"),
        _user(
            "pins a loan returned without a word", "loan_ended", "report is None or", "report and"
        ),
    ),
    "a value that refers to another object [lend]": (
        _user("waits for the reply to a creation", "lend", "if replies:", "if True:"),
        _user("owes its lender nothing", "_hold_on", "self.owed[fork] = loan.lender"),
        _user("does not ask for what it keeps", "_hold_on", "self._ask(fork)", "[]"),
        _user("forgets that it asked", "_ask", "self.requested = fork"),
    ),
    "the borrower gives back, and the lender dies [lend]": (
        _user("waits for no reply", "lend", "if replies:", "if False:"),
        _user(
            "unpins a loan before the reply", "child_ack", "if fork not in self.lent:", "if True:"
        ),
    ),
    "a call that cannot be pickled, and its reference is kept [lend]": (
        _user("lends what it abandons", "abandon", "self.lent.pop(fork, None)"),
    ),
    "lent by the owner, and lent on by one who returns first [lend]": (
        _user("forgets an early ChildAck", "child_ack", "self.lent[fork] = True"),
        _user("waits for an early ChildAck again", "loan_ended", "acknowledged or", ""),
        _user("unpins a held loan", "loan_ended", "not report.held", "True"),
    ),
    "lent to a creation, and not kept [lend]": (
        _user("pins a returned loan", "loan_ended", "or not report.held", ""),
        _user("reports only what is held", "end_loan", "if held == replies", "if held"),
    ),
    "lent by a user, and not kept [lend]": (
        _user("believes to be counted when lent to", "borrow", "if by_owner else []", ""),
        _user("holds what it does not use", "_hold_on", "not self.in_use or", ""),
    ),
    "lent twice to one callee, and kept once [lend]": (
        _user("keeps all loans of the owner's", "_hold_on", "self.known == (fork,)", "True"),
    ),
    "lent by two paths [lend]": (
        _user(
            "returns what the owner counts for a request",
            "_hold_on",
            "or self.requested is not None",
            "",
        ),
    ),
    "mutual lending [lend]": (
        _user("holds what is covered", "_hold_on", "if covered:", "if False:"),
        _user("is covered by nothing but the owner", "_hold_on", "self.known or", "False and"),
        _user("asks though it is counted", "_hold_on", "self.known or", ""),
        _user("asks twice", "_ask", "if self.requested is not None:", "if False:"),
    ),
    "a created object's lender dies, and the borrower keeps [lend]": (
        _user("owes a dead lender", "_hold_on", "or loan.lender is None", ""),
        _user("hears of no lender's death", "died", "loan.lender == worker", "False"),
    ),
    "lending/the_lender_dies": (
        _user("believes in a dead lender", "died", "self.loans[fork] = Loan(None, counted=False)"),
        _user("is covered by a dead lender", "died", "counted=False", "counted=True"),
    ),
    "lent to one who is counted, and the lender dies [lend]": (
        _user(
            "asks though it is counted after a death", "died", "if not self.confirmed:", "if True:"
        ),
    ),
    "the borrower dies, and the lender keeps [lend]": (
        _user("waits for replies of the dead", "forget", "if self.children[fork] != worker", ""),
    ),
    "lent, kept and given back, and a stranger dies [lend]": (
        _user("forgets what it lent", "forget", "if self.children[fork] != worker", "if False"),
    ),
    "the owner dies while its object is lent [lend]": (
        _user("lends a dead owner's object", "lose", "self.lent = EMPTY"),
        _user("borrows a dead owner's object", "lose", "self.loans = EMPTY"),
    ),
}
