"""Rules of cycles: the stamps, the grips, the two looks, and the cuts."""

from farref.protocol.borrowing import BorrowingUser
from farref.protocol.cycles import CycleCollector
from farref.protocol.entries import Entries
from farref.protocol.owner import Owner
from farref.protocol.references import References
from farref.protocol.search import Search
from farref.protocol.survey import Survey, Surveys

from .mutant import Mutant, in_context

CYCLES = {
    "an object that holds itself": (
        Mutant("cuts nothing", Search, "_judge", "map(self._cut, cuts)", "()"),
    ),
    "two objects of one endpoint that hold each other": (
        Mutant(
            "takes no notice of variables",
            Surveys,
            "_grip",
            "survey.handles.get(rref) != inside + len(aliases)",
            "False",
        ),
        Mutant("does not look at the holders", Survey, "add", "self.ahead.append(holder)"),
        Mutant("looks once", Search, "weigh", "places = self.begin_again()", "break"),
    ),
    "three objects in a row that hold their neighbours": (
        Mutant("cuts one ring", Search, "_judge", "self._cut, cuts", "self._cut, cuts[:1]"),
    ),
    "a ring of two": (
        Mutant(
            "waits for one answer",
            CycleCollector,
            "_answered",
            "[] if search.asked else",
            "search.asked.clear() or",
        ),
    ),
    "a ring whose reference goes from one member to the other, and home": (
        Mutant("does not compare the forks", Search, "weigh", "self.compare_forks()"),
        Mutant("does not mind what is under way", Surveys, "_grip", "not entry.at_rest", "False"),
    ),
    "a ring, and a reference that comes home while it is looked at": (
        Mutant("does not compare the looks", Search, "see", "!= grip", "is None"),
    ),
    "a ring that another endpoint keeps from a borrower of it [borrow]": (
        Mutant("forgets the table", BorrowingUser, "grip", "self.borrowers.items()", "()"),
    ),
    "cycles/a_notice_under_way": (
        Mutant(
            "forgets reported loans",
            BorrowingUser,
            "grip",
            "{*self.known, *self.reported}",
            "self.known",
        ),
    ),
    "a ring, and a reference that leaves between two looks": (
        Mutant(
            "sees no reference leave",
            References,
            "share",
            "entry.stamp += 1",
            "entry.stamp += replies is not None",
        ),
    ),
    "a ring, and a loan between two looks": (
        Mutant(
            "sees no loan",
            References,
            "share",
            "entry.stamp += 1",
            "entry.stamp += replies is None",
        ),
    ),
    "a ring, and a request between two looks": (
        Mutant("sees no request leave", Entries, "allocate_call", "entry.stamp += 1"),
    ),
    "an object that holds itself and another one": (
        Mutant(
            "cuts only the rings behind one object", Search, "_cuts", "in objects", "in objects[:1]"
        ),
    ),
    "a ring that comes back from a loan while another endpoint keeps it [lend]": (
        Mutant("takes loans for nothing", Owner, "at_rest", "and not self.lent", ""),
    ),
    "a ring through an alias": (
        Mutant("ignores aliases", Surveys, "begin", "self.aliases.standing()", "{}"),
        Mutant("does not look at aliases", Surveys, "_grip", "{*values, *aliases}", "values"),
    ),
    "a ring through an alias, which leads to another object": (
        Mutant(
            "cuts an alias",
            Search,
            "_cuts",
            "edges[to][0] if alias else to",
            "to",
        ),
    ),
    "an object that holds itself, and its other holder, which is known to live": (
        Mutant("forgets that a holder lives", Search, "_add", "self.enliven([rref])"),
    ),
    "cycles/a_late_cut": (
        Mutant(
            "cuts in any case", CycleCollector, "receive_cut", "or owner.stamp != message.stamp", ""
        ),
        Mutant("sees no reference come home", Owner, "arrive", "self.stamp += 1"),
        Mutant("sees no request", Owner, "enqueue", "self.stamp += 1"),
    ),
    "a ring, and a reference that goes through a stranger": (
        Mutant("sees no new fork", Owner, "fork_request", "self.stamp += 1"),
    ),
    "an object that holds itself, and a value that outlives the last variable with a handle": (
        Mutant(
            "counts the handles late", Surveys, "_grip", "survey.handles.get(rref)", "entry.handles"
        ),
    ),
    "a ring of two, and one owner dies": (
        in_context("goes on with a search", "died", "effects + self.cycles.died()", "effects"),
    ),
}
