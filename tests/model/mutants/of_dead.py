"""Rules of a death, of the set of the dead, and of endpoints that join after them."""

from farref.protocol.context import Context
from farref.protocol.dead import Dead

from .mutant import Mutant, in_context

DEATH = {
    "a user dies": (
        in_context(
            "does not release forks of the dead",
            "bury",
            "effects += self.entries.after(owner, owner.forget(worker))",
        ),
        in_context(
            "buries at once",
            "died",
            "state.dead.add(worker)",
            "state.dead.add(worker); self.bury(worker)",
        ),
    ),
    "a message is abandoned after its owner died": (
        in_context("believes in dead owners", "lose", "user.lose()"),
        in_context("keeps entries of the dead", "lose", "return self.after(user, [])", "return []"),
        in_context(
            "waits for the dead to acknowledge creations", "died", "state.asked.pop(worker, None)"
        ),
    ),
    "the owner dies while a method makes an object": (
        in_context(
            "waits for creations on the dead", "died", "state.creating.pop(user.rref, None)"
        ),
    ),
    "the callee dies with what it was lent": (
        in_context("waits for the dead", "died", "del state.waiting[call]"),
    ),
    "the creator dies while a method makes an object": (
        in_context(
            "waits for a creation that died with its creator",
            "bury",
            "effects.append(Lose(owner.rref))",
        ),
        in_context(
            "gives up what was created in time",
            "bury",
            "not owner.created and",
            "not owner.resolved and",
        ),
    ),
    "a stranger dies": (
        in_context(
            "gives up creations of the living", "bury", "and owner.rref.creator == worker", ""
        ),
    ),
    "the child dies": (
        in_context(
            "does not unpin what was pinned for the dead",
            "bury",
            "effects += self.entries.after(user, user.forget(worker))",
        ),
    ),
    "the owner dies while its object is lent [borrow]": (
        in_context(
            "takes back what its owner's death settled",
            "_take_back",
            "and report.owner not in self.state.dead",
            "",
        ),
    ),
    "the borrower dies [borrow]": (in_context("never buries", "bury", "state.buried.add(worker)"),),
    "borrowing/nothing_to_take_back": (
        in_context("takes empty tables back", "_take_back", "if borrowers and", "if"),
    ),
    "the lender's lender dies, and the end keeps [borrow]": (
        in_context("takes nothing back", "_take_back", "if borrowers and", "if False and"),
    ),
    "a created object's lender dies, and the borrower keeps [lend]": (
        in_context(
            "tells no borrower of a death",
            "died",
            "effects += self.entries.after(user, user.died(worker, self.entries.allocate_fork))",
        ),
        in_context("remembers what the dead created", "bury", "state.seen.pop(worker, None)"),
    ),
    "borrowing/rule_4_taking_back": (
        in_context(
            "takes back from nobody", "died", "for message in unacknowledged:", "for message in ():"
        ),
    ),
}

DEAD = (
    Mutant("forgets who died", Dead, "add", "self.merge(", "list("),
    Mutant("counts the next one", Dead, "__contains__", "<= self._lasts", "<= 1 + self._lasts"),
    Mutant("forgets the last one", Dead, "__contains__", "<= self._lasts", "< self._lasts"),
    Mutant("forgets the first one", Dead, "__contains__", "bisect_right", "bisect_left"),
    Mutant("looks at the wrong span", Dead, "__contains__", "[place - 1]", "[0]"),
    Mutant("does not join to the left", Dead, "merge", "first - 1", "first"),
    Mutant("does not join to the right", Dead, "merge", "last + 1", "last"),
    Mutant("buries the one before", Dead, "merge", "first - 1", "first - 2"),
    Mutant("buries the one after", Dead, "merge", "last + 1", "last + 2"),
    Mutant("forgets what began before", Dead, "merge", "min(first, self.firsts[begin])", "first"),
    Mutant("forgets what ended after", Dead, "merge", "max(last, self._lasts[end - 1])", "last"),
    Mutant("keeps what was swallowed", Dead, "merge", "begin:end] = [last", "begin:begin] = [last"),
    Mutant(
        "believes who died before it came",
        Context,
        "outlive",
        "(self.dead, self.state.buried)",
        "(self.state.buried,)",
    ),
    Mutant(
        "waits for who died before it came",
        Context,
        "outlive",
        "(self.dead, self.state.buried)",
        "(self.dead,)",
    ),
)
