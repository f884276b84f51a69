"""Rules of names: the counts of handles, and the order of requests."""

from .mutant import in_context

FORGETS = in_context("forgets the name that it knows", "lend_on", "b.name or a.name", "b.name")

NAMES = {
    "aliases/a_cancelled_call": (
        in_context(
            "does not know what it learned", "whereabouts", "if name is not None:", "if False:"
        ),
        in_context("does not drop a name's handle", "drop", "name.handles -= 1"),
        in_context(
            "keeps a name for nothing",
            "_end_name_if_unused",
            "if not (name.handles or name.requests):",
            "if False:",
        ),
        in_context("keeps a dropped name", "drop", "self._end_name_if_unused(rref, name)"),
        in_context(
            "drops the hop's handle", "drop", "rref if name is None else name.canonical", "rref"
        ),
        in_context("learns without handles", "learn", "or not entry.handles", ""),
        in_context(
            "keeps the hop's handles",
            "learn",
            "name.handles, entry.handles = entry.handles, 0",
            "name.handles = entry.handles",
        ),
        in_context(
            "learns and does not hold",
            "learn",
            "self.entries.entry(canonical).handles += name.handles",
        ),
        in_context(
            "learns nothing from an answer",
            "receive_reply",
            "effects += self.names.learn(waiting.rref, target, message.moved.path)",
        ),
        in_context(
            "holds where it was told", "receive_reply", "effects += self.entries.release(moved)"
        ),
    ),
    "aliases/an_argument_is_an_alias": (
        FORGETS,
        in_context("forgets the name that came", "lend_on", "b.name or a.name", "a.name"),
    ),
    "aliases/circles": (
        in_context(
            "does not know its own aliases", "whereabouts", "return shown or rref", "return rref"
        ),
    ),
    "an alias that comes home, called what it stands for": (
        in_context("does not count a name's handle", "hold", "name.handles += 1"),
        in_context(
            "counts a handle for the hop",
            "hold",
            "rref if name is None else name.canonical",
            "rref",
        ),
        in_context("forgets a name", "hold", "self.state.names[rref] = name"),
        in_context(
            "does not take a name from a message",
            "take_up",
            "if rref not in self.state.names and rref != descriptor.rref:",
            "if False:",
        ),
        in_context(
            "does not learn from a message",
            "take_up",
            "effects = self.learn(rref, descriptor.rref, (descriptor.rref,))",
            "effects = []",
        ),
        in_context("passes its parent's fork on", "share", "rref=entry.rref,", "rref=rref,"),
    ),
    "a call on an alias, which comes back without its name, in order": (
        in_context(
            "forgets the name of a call on its way",
            "dispatch",
            "self._name(rref, send.message)",
        ),
        in_context(
            "keeps the name of an answered call",
            "answered",
            "self._free(rref, request)",
        ),
        in_context(
            "keeps a name that has no request any more",
            "_free",
            "self._end_name_if_unused(handle, name)",
        ),
    ),
    "a creation on an alias, which comes back without its name, in order": (
        in_context(
            "forgets the name of a creation on its way",
            "_name",
            "not isinstance(message, ObjectRequest)",
            "isinstance(message, Create)",
        ),
    ),
    "a direct fetch on an alias, which comes back without its name, in order": (
        in_context(
            "makes no name for a fetch that is asked again",
            "_name",
            "name = self.state.names[rref] = Name(to, (to,))",
            "return",
        ),
    ),
    "the owner of what an alias stands for dies, called under the alias's name": (
        in_context(
            "keeps the name of a call that is lost", "lose", "self._free(user.rref, request)"
        ),
    ),
    "aliases/requests_go_on_in_order": (
        in_context(
            "lets a request overtake",
            "_must_wait",
            "return any(call not in asking and call not in held for call in entry.pending)",
            "return False",
        ),
    ),
    "a method that waits for itself, behind a direct fetch": (
        in_context(
            "holds back what waits for itself",
            "dispatch",
            'if chain and names(chain, getattr(send.message, "rref", None)):',
            "if False:",
        ),
    ),
    "aliases/a_direct_fetch": (
        in_context("waits for what it holds", "_must_wait", "and call not in held", ""),
        in_context(
            "lets a direct fetch be overtaken",
            "_must_wait",
            "if rref in state.fetching:",
            "if False:",
        ),
        in_context(
            "does not remember a direct fetch",
            "_leaves",
            "self.state.fetching[rref] = message.call",
        ),
        in_context("waits for an answered fetch", "_free", "del state.fetching[handle]"),
        in_context("holds back for ever", "send_held", "list(self.state.freed)", "()"),
        in_context(
            "frees the wrong handle",
            "_free",
            "state.freed[rref] = state.freed[handle] = None",
            "state.freed[rref] = None",
        ),
        in_context(
            "forgets a part of those it frees", "_free", "handle = handle or rref", "handle = rref"
        ),
        in_context("asks again last", "_fetch_there", ", first=True", ""),
        in_context(
            "does not ask again",
            "receive_reply",
            "effects += self._fetch_there(waiting.fetch, message.moved.fork.rref, waiting.by)",
        ),
        in_context(
            "settles a fetch that is asked again",
            "receive_reply",
            "(not elsewhere or waiting.fetch is None)",
            "True",
        ),
    ),
    "a call on an alias, cancelled while it is held back": (
        in_context(
            "cancels before it asks",
            "dispatch_cancel",
            "name = self.state.held_calls.get(call)",
            "name = None",
        ),
    ),
    "requests/cancelled_fetches": (
        in_context(
            "has others wait for a fetch that goes cancelled",
            "_leaves",
            " or message.cancelled",
            "",
        ),
    ),
    "an alias, fetched directly": (
        in_context(
            "does not hold what it asks again", "_fetch_there", "entry.pending.add(fetch.call)"
        ),
    ),
    "the owner of what an alias stands for dies, fetched directly": (
        in_context(
            "asks a dead owner again",
            "_fetch_there",
            "isinstance(entry, User) and entry.lost",
            "False",
        ),
    ),
}
