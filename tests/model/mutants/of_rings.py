"""Rules of rings: the way of a probe, the proof of a ring, and the refused request."""

from farref.protocol.state import Tables

from .mutant import Mutant, in_context

RINGS = {
    "two methods that call each other": (
        in_context("goes round for ever", "_came_round", "if not probe.before:", "if True:"),
        in_context(
            "does not begin anew at a greater object",
            "receive_probe",
            "probe if rref < probe.start else Probe(start=rref)",
            "probe",
        ),
        in_context(
            "refuses nobody",
            "_came_round",
            "self.entries.after(owner, owner.cancel(sender, call, Refusal.RING, probe.path))",
            "[]",
        ),
        in_context(
            "remembers what it was told",
            "waits",
            "self.state.looking.pop(run)",
            "self.state.looking[run]",
        ),
    ),
    "two methods that call each other, and one gives up and waits again": (
        in_context(
            "takes any second lap for the same",
            "_came_round",
            "probe.path != probe.before",
            "False",
        ),
        in_context("takes two waits for one", "waits", "number=number", "number=0"),
    ),
    "a function that waits for a method that waits for what the function makes": (
        Mutant(
            "does not know that an object is being made",
            Tables,
            "holder",
            "or self.making.get(owner.rref)",
            "",
        ),
    ),
    "a method that waits for what is made by a method of what it makes": (
        in_context(
            "does not look behind a queued creation", "_foremost", "owner = target", "return owner"
        ),
    ),
    "the same, by way of an alias": (
        in_context("does not go on from an alias", "blocker", "owner.alias is not None", "False"),
        in_context(
            "does not go on from an alias's target",
            "receive_probe",
            "call in owner.asking",
            "False",
        ),
    ),
    "two methods that call each other, one by way of an alias": (
        in_context(
            "does not follow what is passed on", "receive_probe", "passed_on is not None", "False"
        ),
    ),
    "requests/a_ring_seen_from_outside": (
        in_context(
            "goes round a ring that it is not part of",
            "_look",
            "_has_met(probe, run)",
            "len(probe.path) >= 9",
        ),
    ),
    "requests/a_ring_with_a_call_held_back": (
        in_context("does not follow what is held back", "_behind", "self._in_front(call)", "call"),
        in_context(
            "refuses what holds another request back",
            "receive_probe",
            "_holds_back(probe.path[-1])",
            "False",
        ),
    ),
    "requests/a_ring_with_a_creation_held_back": (
        in_context(
            "does not ask for a creation that has not come", "_ask_creator", "owner.located", "True"
        ),
        in_context(
            "does not know what holds a creation back", "_creation", "creation is None", "True"
        ),
    ),
    "requests/a_ring_with_a_creation_passed_on": (
        in_context(
            "does not see a creation in front",
            "_in_front",
            "each in state.asking",
            "each not in state.waiting",
        ),
        in_context("does not go on from a creation", "_behind", "creation == first", "False"),
        in_context(
            "does not know what holds back what it passes on",
            "_passed_on",
            "made in self.state.passed_on",
            "False",
        ),
    ),
    "requests/a_creation_held_back_behind_itself": (
        in_context(
            "does not say that what it asks for is held back",
            "_whole",
            "creation is None or",
            "True or",
        ),
    ),
    "a ring through a method that can go on, and gets no turn": (
        in_context("refuses who has begun", "receive_probe", "call in owner.aside", "False"),
    ),
}
