"""Rules of the rendezvous: the nodes' places, the forming of rounds, and giving nodes up.

A program of `meetings`, or a test of one rule, catches them.
"""

from farref.protocol.rendezvous import Attendant, Observer, RendezvousRun, State

from .mutant import Mutant

RENDEZVOUS = {
    "test_who_waits_for_whom": (
        Mutant("does not report lost members", State, "waiting_for", "int(again)", "0"),
        Mutant(
            "asks for more nodes though it is closed", State, "waiting_for", "self.closed", "False"
        ),
        Mutant("counts a node that is in no round", State, "waiting_for", "number >= 0 and ", ""),
    ),
    "two meet [service]": (
        Mutant(
            "calls before enough are there", State, "calling", ">= self.limits.min_nodes", ">= 0"
        ),
        Mutant(
            "waits for more than may come",
            State,
            "_advanced",
            ">= state.limits.max_nodes",
            "> state.limits.max_nodes",
        ),
        Mutant("does not listen", Observer, "heard", "if node in self._quiet:", "if False:"),
        Mutant("hears nobody", RendezvousRun, "heard", "self._observer.heard(node, now)", "pass"),
    ),
    "the run is closed while they meet": (
        Mutant("calls though it is closed", State, "calling", "and not self.closed", ""),
    ),
    "one may come [service]": (
        Mutant(
            "gives a round to outsiders",
            State,
            "membership",
            "or node not in self.participants",
            "",
        ),
        Mutant("joins the waiting again", State, "_join", "if node in self.waiting or", "if"),
        Mutant("lets come into a round", State, "_join", "if not self.complete:", "if True:"),
        Mutant(
            "has a round of its own for who asks again",
            State,
            "_join_again",
            "or self.round > join.after",
            "",
        ),
        Mutant("ends a round too soon", State, "_advanced", "and not state.participants:", ":"),
        Mutant("opens no last call", State, "_advanced", "if state.calling and", "if False and"),
        Mutant("never finishes", Observer, "look", "if self._call is not None and", "if False and"),
        Mutant(
            "finishes at once", Observer, "look", "self._called >= self._timeouts.last_call", "True"
        ),
        Mutant(
            "counts what was before",
            Observer,
            "_see",
            "self._call, self._called = call, 0.0",
            "self._call = call",
        ),
        Mutant("does nothing that is due", RendezvousRun, "tick", "self.do(command, now)", "pass"),
    ),
    "the run is closed, and its id is used again [service]": (
        Mutant("lets join what is closed", State, "_join", "if self.closed:", "if False:"),
        Mutant(
            "keeps participants",
            State,
            "_leave",
            "_without(self.participants, nodes)",
            "self.participants",
        ),
        Mutant("keeps who waits", State, "_leave", "_without(self.waiting, nodes)", "self.waiting"),
        Mutant(
            "is closed for ever", State, "_leave", "if state.closed and state.empty:", "if False:"
        ),
        Mutant(
            "is opened too soon",
            State,
            "_leave",
            "if state.closed and state.empty:",
            "if state.closed:",
        ),
        Mutant("counts rounds anew", State, "_leave", "self.round + 1", "0"),
        Mutant("counts last calls anew", State, "_leave", "call=self.call", "call=0"),
        Mutant("goes on when closed", State, "_advanced", "if self.closed:", "if False:"),
        Mutant(
            "times all last calls as one",
            Observer,
            "_see",
            "if call != self._call:",
            "if self._call is None:",
        ),
    ),
    "the run is closed": (
        Mutant("joins spares again", State, "_join", "or node in self.spares", ""),
    ),
    "the run is closed [service]": (
        Mutant(
            "does not count the waiting",
            State,
            "_join",
            "len(self.participants) + len(self.waiting) <",
            "len(self.participants) <",
        ),
        Mutant("makes everybody spare", State, "_join", "elif len(", "elif 0 * len("),
        Mutant(
            "tells a spare that it is an error",
            State,
            "_refuse",
            "if node in self.spares:",
            "if False:",
        ),
        Mutant("keeps spares", State, "_leave", "_without(self.spares, nodes)", "self.spares"),
        Mutant(
            "forgets ranks", State, "_completed", "[member.node for member in self.members]", "[]"
        ),
    ),
    "what was stored is not told": (
        Mutant(
            "believes who asks again to be there",
            State,
            "_join_again",
            "not self.complete or",
            "True or",
        ),
        Mutant(
            "is in two lists",
            State,
            "_join_again",
            "_without(self.participants, (node,))",
            "self.participants",
        ),
        Mutant(
            "never ends a round",
            State,
            "_advanced",
            "if state.complete and not state.participants:",
            "if False:",
        ),
        Mutant(
            "does not count rounds",
            State,
            "_advanced",
            "round=state.round + 1",
            "round=state.round",
        ),
        Mutant(
            "forgets who waits", State, "_advanced", "participants=state.waiting", "participants={}"
        ),
        Mutant("keeps those who waited", State, "_advanced", "waiting={}", "waiting=state.waiting"),
        Mutant(
            "asks for the round that it had",
            Attendant,
            "resolved",
            "self._after = outcome.round",
            "pass",
        ),
    ),
    "one dies while they meet [service]": (
        Mutant(
            "ends a last call that is not open",
            State,
            "apply",
            "self._completed() if self.calling else self",
            "self._completed()",
        ),
    ),
    "two meet": (
        Mutant("does not count beats", State, "_beat", "seat.beat + 1", "seat.beat"),
        Mutant(
            "gives up too soon",
            Observer,
            "look",
            ">= self._timeouts.silence)",
            ">= self._timeouts.keep_alive)",
        ),
        Mutant(
            "does not look at beats",
            Observer,
            "_see",
            "if self._beats.get(node) == seat.beat:",
            "if node in self._beats:",
        ),
        Mutant("wants for ever", Attendant, "resolved", "self._deadline = None", "pass"),
        Mutant("never beats", Attendant, "_beaten", "if due else state", "if False else state"),
    ),
    "one leaves [service]": (
        Mutant("lets no spare in", State, "_advanced", "state = state._filled()", "pass"),
        Mutant("lets in spares at once", State, "_filled", "if self.complete:", "if False:"),
    ),
    "the run is closed while they meet [service]": (
        Mutant("opens a last call again", State, "_advanced", "not before.calling", "True"),
    ),
    "too few come [service]": (
        Mutant("gives nobody up", Observer, "look", "if silent:", "if False:"),
        Mutant(
            "takes looks for beats",
            Observer,
            "_see",
            "if self._beats.get(node) == seat.beat:",
            "if False:",
        ),
    ),
    "test_a_service_hears_of_its_nodes": (
        Mutant("credits what was before it heard", Observer, "heard", "-self._passed(now)", "0.0"),
    ),
    "test_an_observer_that_was_stopped_does_not_find_everybody_dead": (
        Mutant(
            "credits all that passed",
            Observer,
            "_passed",
            "min(max(0.0, now - self._last), self._timeouts.keep_alive)",
            "now - self._last",
        ),
    ),
    "test_an_attendant_never_gives_itself_up": (
        Mutant("gives itself up", Attendant, "look", "if n != self.node)", ")"),
    ),
    "test_an_attendant_beats_in_time": (
        Mutant(
            "believes that what it wanted is stored",
            Attendant,
            "look",
            "self._said[0] == seat.beat",
            "True",
        ),
        Mutant(
            "does not know when it lived", Attendant, "look", "self._lived = self._said[1]", "pass"
        ),
    ),
    "the run is closed, and its id is used again": (
        Mutant(
            "stays where it failed",
            Attendant,
            "_seek",
            "self.leave(state) if there else state",
            "state",
        ),
    ),
    "test_a_run_that_is_closed_before_anybody_came_stays_closed_until_its_closer_leaves": (
        Mutant("opens what is closed", Attendant, "_seek", "if there else state", ""),
    ),
    "too few come": (
        Mutant("waits for ever", Attendant, "_seek", "now >= deadline", "False"),
        Mutant(
            "stays though it gives up",
            Attendant,
            "_seek",
            "Decision(self.leave(state), self._late(joined))",
            "Decision(joined, self._late(joined))",
        ),
    ),
    "one may come": (
        Mutant(
            "does not beat while it waits",
            Attendant,
            "_seek",
            "self._beaten(joined, now)",
            "joined",
        ),
    ),
    "clocks that differ": (
        Mutant("does not miss itself", Attendant, "look", "elif seat is None:", "elif False:"),
    ),
    "test_who_left_is_not_waited_for": (
        Mutant(
            "remembers who left",
            Observer,
            "_see",
            "del self._quiet[gone], self._beats[gone]",
            "pass",
        ),
    ),
    "test_a_round_that_is_formed_in_the_last_moment_counts": (
        Mutant("gives up what it has", Attendant, "_seek", "membership is None and", ""),
    ),
    "test_the_last_call_of_a_service_is_timed_from_its_opening": (
        Mutant(
            "does not tick for a last call",
            RendezvousRun,
            "do",
            "if self.state.call != before.call:",
            "if False:",
        ),
    ),
}
