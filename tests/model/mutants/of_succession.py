"""Rules of the registrar's succession: elections, facts and messages, requests that come again.

A program of `successions`, or a test of one rule, catches them.
"""

from farref.actors.cluster.elected import Elected
from farref.actors.cluster.forwarder import Forwarder
from farref.actors.cluster.membership import MembershipService
from farref.actors.cluster.tombstones import Tombstones
from farref.protocol.succession import Campaign, Ledger, RegistrarLine

from .mutant import Mutant

SUCCESSION = {
    "test_a_line_sends_what_is_not_done_to_the_next_registrar": (
        Mutant("believes everybody", RegistrarLine, "believes", "term >= self.term", "True"),
        Mutant(
            "repeats nothing",
            RegistrarLine,
            "follow",
            "return list(self.kept.values())",
            "return []",
        ),
    ),
    "test_messages_wait_for_all_changes_before_them": (
        Mutant("speaks before the store knows", Ledger, "send", "if self._changes:", "if False:"),
        Mutant(
            "does not wait for the write under way",
            Ledger,
            "send",
            "elif self._flying is not None:",
            "elif False:",
        ),
        Mutant(
            "forgets what waits for the write",
            Ledger,
            "answered",
            "self._free += self._held",
            "pass",
        ),
        Mutant("writes nothing more", Ledger, "answered", "return self.write()", "return None"),
        Mutant("writes two at once", Ledger, "write", "self._flying is not None or not", "not"),
        Mutant(
            "does not count its writes",
            Ledger,
            "answered",
            "self._revision = answer.revision",
            "pass",
        ),
    ),
    "test_a_candidate_that_gets_the_role_back_takes_over_anew": (
        Mutant(
            "believes to have the role again",
            Campaign,
            "_elected",
            "if self.leads and self.term == holder.term:",
            "if self.leads:",
        ),
    ),
    "test_a_candidate_that_leads_renews_its_lease": (
        Mutant("does not find itself", Campaign, "answered", "if who == self.me:", "if False:"),
        Mutant(
            "does not stand",
            Campaign,
            "answered",
            "self._vacant = True\n",
            "self._vacant = False\n",
        ),
        Mutant(
            "stands though there is one", Campaign, "_next", "if not self._vacant:", "if False:"
        ),
    ),
    "test_a_candidate_that_did_not_hear_looks_before_it_stands_again": (
        Mutant(
            "does not look again",
            Campaign,
            "answered",
            "self._vacant = False  # perhaps it was done: look",
            "pass",
        ),
    ),
    "test_a_candidate_without_its_lease_has_no_role_and_needs_a_new_one": (
        Mutant(
            "does not notice that it is deposed",
            Campaign,
            "_deposed",
            "if not self.leads:",
            "if True:",
        ),
        Mutant("keeps an expired lease", Campaign, "answered", "self.lease = 0", "pass"),
        Mutant(
            "does not suspect after its fall",
            Campaign,
            "_deposed",
            "self.leads, self._suspects = False, True",
            "self.leads = False",
        ),
    ),
    "test_a_candidate_asks_one_question_at_a_time": (
        Mutant("asks twice at once", Campaign, "tick", "if self._asked is not None:", "if False:"),
    ),
    "test_a_candidate_follows_a_later_registrar_only": (
        Mutant(
            "follows whomever", Campaign, "_follow", "if holder.term <= self.term:", "if False:"
        ),
    ),
    "a death is settled under two registrars": (
        Mutant(
            "forgets the deaths",
            Elected,
            "_begin",
            "self._wait_for_all(open_deaths)",
            "pass",
        ),
        Mutant(
            "announces no death again",
            Elected,
            "_begin",
            "self.tell_all(wire.Died(same, cause))",
            "pass",
        ),
        Mutant(
            "forgets which deaths are agreed", Elected, "_begin", "if not gone.agreed", "if True"
        ),
        Mutant(
            "says done before it is settled",
            Elected,
            "_do",
            "isinstance(message, wire.Settled | wire.Spawn)",
            "isinstance(message, wire.Spawn)",
        ),
        Mutant("does not note the agreement", Tombstones, "agree", "agreed=True", "agreed=False"),
    ),
    "a living host is given up": (
        Mutant(
            "believes who was given up",
            Elected,
            "host",
            "if message.me in self._tombstones:",
            "if False:",
        ),
        Mutant(
            "forgets who was given up",
            Elected,
            "_let_go",
            "self._tombstones.count([host.me])",
            "pass",
        ),
        Mutant(
            "does not know that it is lost",
            Forwarder,
            "_hand_out",
            "if self.me in workers:",
            "if False:",
        ),
    ),
    "the registrar dies with an endpoint that orders": (
        Mutant(
            "keeps lost orders",
            Elected,
            "_drop_orders",
            "missing and not self._members.at(creating.asker)",
            "False",
        ),
    ),
    "a worker is ordered": (
        Mutant("says that nothing is done", Elected, "take", "elif done:", "elif False:"),
        Mutant("does not say hello", Forwarder, "take", "messages.append(self.hello())", "pass"),
        Mutant(
            "keeps orders for ever",
            Forwarder,
            "_hand_out",
            "self.line.done_if(lambda kept: _is_order(kept, to, token))",
            "pass",
        ),
    ),
    "the registrar dies while a worker is ordered": (
        Mutant(
            "says done before it is",
            Elected,
            "_do",
            "isinstance(message, wire.Settled | wire.Spawn)",
            "isinstance(message, wire.Settled)",
        ),
        Mutant(
            "knows no earlier order",
            MembershipService,
            "_spawn",
            "self._members.made_for(sender, message.token)",
            "()",
        ),
        Mutant(
            "knows no order under way",
            MembershipService,
            "_spawn",
            "if creating.asker == sender and creating.order.token == message.token:",
            "if False:",
        ),
        Mutant(
            "does not order again", MembershipService, "_go_on", "if host is not None:", "if False:"
        ),
        Mutant(
            "makes an actor twice", Forwarder, "_hand_out", "if me in self.ordered:", "if False:"
        ),
        Mutant("repeats nothing on joining", Forwarder, "take", "if self.joined:", "if False:"),
    ),
    "the lease ends too early, and a worker is ordered": (
        Mutant(
            "does requests for its earlier term",
            Elected,
            "take",
            "if forward.term != self._ledger.term:",
            "if False:",
        ),
    ),
    "the registrar dies": (
        Mutant(
            "notes the death last",
            MembershipService,
            "_gone",
            "self._tombstones.add(news, cause)",
            "pass",
        ),
        Mutant(
            "keeps the settled for ever",
            Forwarder,
            "_hand_out",
            "self.line.done_if(lambda kept: _is_answered(kept, workers, to))",
            "pass",
        ),
        Mutant(
            "tells nobody of deaths",
            Forwarder,
            "_deaths",
            "messages = self._all(message)",
            "messages = []",
        ),
    ),
    "two order the same name": (
        Mutant(
            "gives a name twice",
            MembershipService,
            "_spawn",
            "making or self._members.named(message.name)",
            "False",
        ),
    ),
    "the registrar dies while the system ends": (
        Mutant("forgets the end", Elected, "_do", "self._numbers[ENDED] = 1", "pass"),
    ),
    "the registrar dies while an endpoint joins": (
        Mutant(
            "gives a number twice", MembershipService, "_number_of", "next(known, None) or ", ""
        ),
    ),
}
