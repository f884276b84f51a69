"""Rules of cycles: the stamps, the grips, the two looks, and the cuts."""

from farref.protocol.borrowing import BorrowingUser
from farref.protocol.cycles import Cycles
from farref.protocol.lending import LendingOwner
from farref.protocol.owner import Owner
from farref.protocol.quest import Quest
from farref.protocol.user import User

from .mutant import Mutant, in_context

CYCLES = {
    "an object that holds itself": (
        Mutant("cuts nothing", Cycles, "_judge", "cuts if quest.cuts else ()", "()"),
        Mutant("does not look at the first object again", Quest, "again", "me: [self.start]", ""),
    ),
    "two objects of one endpoint that hold each other": (
        Mutant(
            "takes no notice of variables",
            Cycles,
            "_grips",
            "entry.handles != sum(values.values()) + len(aliases)",
            "False",
        ),
        Mutant("does not look at the holders", Cycles, "_grips", "ahead += by"),
    ),
    "three objects in a row that hold their neighbours": (
        Mutant("cuts one ring", Cycles, "_judge", "cuts if quest.cuts else ()", "cuts[:1]"),
    ),
    "a ring of two": (
        Mutant("waits for one answer", Cycles, "_answered", "if quest.asked:", "if False:"),
    ),
    "a ring whose reference goes from one member to the other, and home": (
        Mutant("looks once", Cycles, "_answered", "quest.second = {}", "return self._judge(quest)"),
        Mutant("does not compare the forks", Cycles, "_answered", "quest.agrees", "True"),
        Mutant("does not mind what is under way", Cycles, "_grips", "not entry.at_rest", "False"),
    ),
    "a ring, and a reference that comes home while it is looked at": (
        Mutant("sees no reference come home", Owner, "arrive", "self.stamp += 1"),
        Mutant(
            "does not compare the looks", Cycles, "_answered", "quest.second == quest.first", "True"
        ),
    ),
    "a ring, and a reference that goes to and fro between two members": (
        Mutant("sees no reference come", User, "arrive", "self.stamp += 1"),
    ),
    "a ring, and a reference that goes to and fro between two members [borrow]": (
        Mutant(
            "knows only the forks that the owner counts",
            BorrowingUser,
            "grip",
            "self.known | self.reported",
            "self.known",
        ),
        Mutant("forgets the table", BorrowingUser, "grip", "self.borrowers.items()", "()"),
    ),
    "a ring that leads to another object, and a method that sends a reference out of it": (
        Mutant("sees no request", Owner, "enqueue", "self.stamp += 1"),
    ),
    "a ring that comes back from a loan while another endpoint keeps it [lend]": (
        Mutant("takes loans for nothing", LendingOwner, "at_rest", "not self.lent and", ""),
    ),
    "a ring through an alias": (
        Mutant("ignores aliases", Cycles, "_grips", "self.aliases.standing_for(rref)", "[]"),
        Mutant("does not look at aliases", Cycles, "_grips", "{*values, *aliases}", "values"),
    ),
    "a ring through an alias, which leads to another object": (
        Mutant(
            "cuts an alias",
            Quest,
            "cuts_of_rings",
            "edges[to][0] if to in aliases else to",
            "to",
        ),
        Mutant(
            "cuts only the rings behind the first object",
            Quest,
            "cuts_of_rings",
            "(self.start, *sorted(edges))",
            "(self.start,)",
        ),
    ),
    "cycles/a_late_cut": (
        Mutant("cuts in any case", Cycles, "receive_cut", "or owner.stamp != message.stamp", ""),
    ),
    "a ring of two, and one owner dies": (
        in_context("goes on with a search", "died", "effects + self.cycles.died()", "effects"),
    ),
}
