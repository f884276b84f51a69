"""Rules of borrowing: guardians, tables, notices, announcements."""

from farref.protocol.borrowing import BorrowingOwner, BorrowingUser
from farref.protocol.user import User

from .mutant import Mutant


def _owner(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, BorrowingOwner, method, old, new)


def _user(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, BorrowingUser, method, old, new)


BORROWING = {
    "lent by the owner, and lent on by one who returns first [borrow]": (
        _owner(
            "does not merge a reply's table", "loan_ended", "self._merge(report.borrowers)", "[]"
        ),
        _owner(
            "unpins first, then merges",
            "loan_ended",
            "effects = self._merge(report.borrowers)",
            "effects = super().loan_ended(sender, fork, report) + self._merge(report.borrowers)",
        ),
        _owner("notifies everybody", "loan_ended", "if report.held:", "if True:"),
        _user("keeps the table it hands over", "_take_table", ", EMPTY", ", self.borrowers"),
        _user("reports no table alone", "end_loan", "held or table or", "held or"),
        _user("leaves its table behind", "unused", "or self.borrowers", ""),
    ),
    "lent by the owner, and kept [borrow]": (
        _owner("does not notify who holds a loan", "loan_ended", "if report.held:", "if False:"),
        _user("has no guardian", "borrow", "self.guardian = descriptor.fork"),
        _user("denies every notice", "notified", "self._know(fork)", "[]"),
        _user(
            "waits for a notice that came",
            "notified",
            "self.reported = without(self.reported, fork)",
        ),
        _user("does not leave when notified late", "notified", " + self.end_if_unused()", ""),
        _user("reports nothing", "end_loan", "if held or table or not replies", "if not replies"),
        _user("returns what it uses", "_hold_on", "return self.in_use,", "return False,"),
    ),
    "lent twice in one call, and given back once [borrow]": (
        _owner("does not merge a delete's table", "delete", "self._merge(message.borrowers)", "[]"),
        _owner(
            "deletes first, then merges",
            "delete",
            "self._merge(message.borrowers) + super().delete(sender, message)",
            "super().delete(sender, message) + self._merge(message.borrowers)",
        ),
        _owner("does not count a table", "_merge", "self.forks.update(new)"),
        _owner(
            "does not notify a table",
            "_merge",
            "for fork, worker in new]",
            "for fork, worker in ()]",
        ),
        _user(
            "hands an empty table over",
            "_take_table",
            "tuple(sorted(self.borrowers.items()))",
            "()",
        ),
        _user("does not add who holds", "loan_ended", "table[fork] = sender"),
        _user("waits for notices though it is counted", "unused", "and not self.known", ""),
        _user("leaves without its table", "leave", "borrowers=self._take_table()", "borrowers=()"),
    ),
    "borrowing/rule_4_taking_back": (
        _owner("counts a table's entry twice", "_merge", "if fork not in self.forks", ""),
    ),
    "mutual lending [borrow]": (
        _user("reports every loan", "borrow", "if not self._covered:", "if True:"),
        _user("is covered by no request", "_covered", "or self.requested", ""),
        _user("reports without a guardian", "end_loan", "if self.guardian == fork", "if True"),
    ),
    "mutual lending, of a borrowed reference [borrow]": (
        _user("changes its guardian", "_covered", "if self.guardian is not None:", "if False:"),
        _user("is covered by nothing it reported", "_covered", "self.reported or", ""),
    ),
    "a cancelled function [borrow]": (
        _user("keeps its guardian", "_hold_on", "self.guardian = None"),
    ),
    "lent twice to one callee, and kept once [borrow]": (
        _user("reports though it is counted", "_hold_on", "if self.known:", "if False:"),
    ),
    "a created object's lender dies, and the borrower keeps [borrow]": (
        _user("never announces itself", "died", "return self._announce(allocate)", "return []"),
        _user(
            "announces itself only when its own lender dies",
            "died",
            "return self._announce(allocate)",
            "return any(f.parent == worker for f in self.reported)"
            " and self._announce(allocate) or []",
        ),
        _user("announces itself for ever", "ack", "self.announcing = False"),
    ),
    "the borrower is sent what it lends on, and the lender dies [borrow]": (
        _user("reports to the dead", "died", "self.guardian.parent == worker", "False"),
    ),
    "the borrower waits for another, and the lender dies [borrow]": (
        _user("forgets what it takes back", "take_back", "table.update(borrowers)"),
        _user("takes back and does not say so", "take_back", "self._announce(allocate)", "[]"),
        _user("strikes the living from its table", "forget", "if who != worker", "if False"),
    ),
    "lent to a method of its own [borrow]": (
        _user("pins nothing that it lends", "lend", "self.children = children"),
        _user("pins for ever", "loan_ended", "del self.children[fork]"),
        _user("does not leave after a loan", "loan_ended", "self.end_if_unused()", "[]"),
    ),
    "lent to a callee that lends it on and fetches [borrow]": (
        _user("does not merge", "loan_ended", "table.update(report.borrowers)"),
    ),
    "the owner dies while its object is lent [borrow]": (
        _user(
            "merges what it did not lend", "loan_ended", "self.children.get(fork) == sender", "True"
        ),
        _user("guards a dead owner's object", "lose", "self.guardian = None"),
        _user("reported a dead owner's object", "lose", "self.reported = ()"),
        _user("keeps a dead owner's table", "lose", "self.borrowers = EMPTY"),
    ),
    "lent to a creation, and not kept [borrow]": (
        _user("adds who returned", "loan_ended", "if report.held:", "if True:"),
    ),
    "borrowed, and lent to itself [borrow]": (
        _user(
            "does not remember its report", "end_loan", "self.reported = added(self.reported, fork)"
        ),
    ),
    "borrowing/a_creation": (
        _user("does not return a creation's loan", "end_loan", "or not replies", ""),
    ),
    "the borrower dies [borrow]": (
        _user("returns what it announces", "_hold_on", "return True, ()", "return False, ()"),
        _user("does not know that it announces itself", "_announce", "self.announcing = True"),
    ),
    "lent by a user, and kept [borrow]": (
        _user("leaves before it is notified", "unused", "self.reported or", ""),
    ),
    "the owner and the lender die, and the borrower keeps [borrow]": (
        _user("announces itself to a dead owner", "_announce", "self.lost or", ""),
        _user("announces itself to the dead", "lose", "self.announcing = False"),
    ),
    "the borrower gives back, and the lender dies [borrow]": (
        _user("announces itself though it is counted", "_announce", "self.known or", ""),
    ),
    "the lender dies, who had it from a creator [borrow]": (
        _user("announces itself twice", "_announce", "or self.requested is not None", ""),
    ),
    "mutual lenders, one of whom dies [borrow]": (
        _user("keeps the dead in its table", "forget", "if who != worker", ""),
    ),
    "a call that cannot be pickled, and its reference is kept [borrow]": (
        Mutant("leaves too early", User, "end_if_unused", "if self.unused else []", ""),
    ),
    "lent by the owner, and not kept [borrow]": (
        _user("leaves whom it does not know", "leave", "or not self.known", ""),
    ),
}
