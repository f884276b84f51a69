"""Rules of names: what handles count for, and what waits for what."""

from .mutant import in_context

NAMES = (
    in_context("does not know what it learned", "whereabouts", "if name is not None:", "if False:"),
    in_context(
        "does not know its own aliases", "whereabouts", "return shown or rref", "return rref"
    ),
    in_context("does not count a name's handle", "hold", "name.handles += 1", "pass"),
    in_context("counts a handle for the hop", "hold", "if name is None:", "if True:"),
    in_context("forgets a name", "hold", "self.names[rref] = name", "pass"),
    in_context(
        "does not take a name from a message",
        "take_up",
        "if rref not in self.names and rref != descriptor.rref:",
        "if False:",
    ),
    in_context(
        "does not learn from a message",
        "take_up",
        "effects = self._learn(rref, descriptor.rref, (descriptor.rref,))",
        "effects = []",
    ),
    in_context("does not drop a name's handle", "_drop", "name.handles -= 1", "pass"),
    in_context("keeps a name without handles", "_drop", "if not name.handles:", "if False:"),
    in_context(
        "drops the hop's handle", "_drop", "rref if name is None else name.canonical", "rref"
    ),
    in_context("learns without handles", "_learn", "or not entry.handles", ""),
    in_context(
        "keeps the hop's handles",
        "_learn",
        "name.handles, entry.handles = entry.handles, 0",
        "name.handles = entry.handles",
    ),
    in_context(
        "learns and does not hold",
        "_learn",
        "self._entry(canonical).handles += name.handles",
        "pass",
    ),
    in_context(
        "lets a request overtake",
        "_must_wait",
        "return any(call not in asking and call not in held for call in entry.pending)",
        "return False",
    ),
    in_context(
        "holds back what waits for itself",
        "_dispatch",
        'if getattr(send.message, "rref", None) in getattr(send.message, "chain", ()):',
        "if False:",
    ),
    in_context("waits for what it holds", "_must_wait", "and call not in held", ""),
    in_context(
        "lets a direct fetch be overtaken", "_must_wait", "if rref in self._fetching:", "if False:"
    ),
    in_context(
        "does not remember a direct fetch",
        "_send_on",
        "self._fetching[rref] = message.call",
        "pass",
    ),
    in_context("waits for an answered fetch", "_finish", "del self._fetching[rref]", "pass"),
    in_context("holds back for ever", "_finish", "effects.extend(self._send_on(rref))", "pass"),
    in_context(
        "cancels before it asks",
        "_dispatch_cancel",
        "self._held.values() if call in self._held_calls else ()",
        "()",
    ),
    in_context(
        "has others wait for a fetch that goes cancelled",
        "_send_on",
        " and not message.cancelled",
        "",
    ),
    in_context("asks again last", "_fetch_there", ", first=True", ""),
    in_context("waits for itself", "_fetch_there", "self._fetching.pop(fetch.rref, None)", "pass"),
    in_context(
        "does not hold what it asks again", "_fetch_there", "entry.pending.add(fetch.call)", "pass"
    ),
    in_context(
        "asks a dead owner again", "_fetch_there", "isinstance(entry, User) and entry.lost", "False"
    ),
    in_context(
        "does not ask again",
        "_receive_reply",
        "effects += self._fetch_there(waiting.fetch, message.moved.fork.rref)",
        "pass",
    ),
    in_context(
        "learns nothing from an answer",
        "_receive_reply",
        "effects += self._learn(waiting.rref, target, message.moved.path)",
        "pass",
    ),
    in_context(
        "holds where it was told", "_receive_reply", "effects += self._release(moved)", "pass"
    ),
    in_context(
        "settles a fetch that is asked again",
        "_receive_reply",
        "if not elsewhere or waiting.fetch is None:",
        "if True:",
    ),
    in_context("passes its parent's fork on", "_descriptor", "rref=entry.rref,", "rref=rref,"),
)
