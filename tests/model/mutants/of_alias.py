"""Rules of aliases: whom they ask, whom they tell, what they pass on, and when they end."""

from .mutant import in_context

ALIAS = (
    in_context("stands for what it does not hold", "_stand_for", "self.hold(target)", "pass"),
    in_context("does not ask what it stands for", "_stand_for", "*self._ask(alias, target), ", ""),
    in_context(
        "does not notice that nobody wants it",
        "_stand_for",
        ", *self._after(owner, owner.settle())",
        "",
    ),
    in_context(
        "stands for what is lost", "_stand_for", "isinstance(entry, User) and entry.lost", "False"
    ),
    in_context(
        "lets go of what it asks about", "_ask", "self._mint_pin(about)", "self._mint_pin(None)"
    ),
    in_context("does not settle a creation", "stand_for", "*self._made(rref), ", ""),
    in_context("asks in its own name only", "_ask", "self.owners[alias.rref].label", "alias.rref"),
    in_context(
        "does not know its aliases", "_alias_ref", "owner.aliases[message.alias] = sender", "pass"
    ),
    in_context(
        "does not remember who asks",
        "_alias_ref",
        "owner.asking.append((sender, message.call))",
        "pass",
    ),
    in_context(
        "answers only later",
        "_alias_ref",
        "self._answer_asking(owner) if owner.settled else self._hear(owner, message.label)",
        "[]",
    ),
    in_context("sees no circle", "_hear", "label == owner.label", "False"),
    in_context("sees circles everywhere", "_hear", "label == owner.label", "True"),
    in_context("says every label again", "_hear", "if label <= owner.label:", "if False:"),
    in_context("says no label again", "_hear", "if alias is not None else []", "if False else []"),
    in_context("does not learn a label", "_hear", "owner.label = label", "pass"),
    in_context(
        "answers for ever",
        "_answer_asking",
        "asking, owner.asking = owner.asking, []",
        "asking = owner.asking",
    ),
    in_context(
        "is kept by what it has answered",
        "_answer_asking",
        "*self._after(owner, owner.settle())",
        "",
    ),
    in_context(
        "tells when the value comes no more",
        "resolve",
        "effects + self._answer_asking(owner)",
        "effects",
    ),
    in_context(
        "keeps an alias that is gone on its list",
        "_alias_gone",
        "del owner.aliases[message.alias]",
        "pass",
    ),
    in_context(
        "does not take what it is told",
        "_canonical",
        "effects = self._accept(sender, brought)",
        "effects = []",
    ),
    in_context(
        "does not drop the hop",
        "_canonical",
        "effects += self._learn(about, canonical, moved.path)",
        "pass",
    ),
    in_context(
        "waits for what was answered",
        "_canonical",
        "del self._asking[message.call], alias.asked[message.call]",
        "pass",
    ),
    in_context(
        "resolves what is gone",
        "_canonical",
        "if not alias.gone and alias.canonical is None:",
        "if alias.canonical is None:",
    ),
    in_context(
        "stays on the list of the hop", "_canonical", "effects += self._unlist(alias)", "pass"
    ),
    in_context(
        "holds the hop for ever",
        "_canonical",
        "effects += self._answered(about, message.call)",
        "pass",
    ),
    in_context(
        "holds the canonical object twice",
        "_canonical",
        "return effects + self._release(brought.descriptors)",
        "return effects",
    ),
    in_context(
        "is not on the canonical object's list",
        "_found",
        "self._ask(alias, canonical) if canonical != alias.target else []",
        "[]",
    ),
    in_context(
        "forgets what waits",
        "_found",
        "for sender, request in waiting:",
        "for sender, request in ():",
    ),
    in_context("tells while creations are early", "_found", "alias.early = ", "_ = "),
    in_context("shows nothing", "_found", "effects += self._show(alias)", "pass"),
    in_context(
        "is not freed when what waited is gone",
        "_found",
        "self._after(owner, owner.settle())",
        "[]",
    ),
    in_context(
        "shows what is early",
        "_show",
        "if alias.shown is None or alias.gone:",
        "if alias.gone or alias.canonical is None:",
    ),
    in_context(
        "does not tell those who ask",
        "_show",
        "effects = self._answer_asking(self.owners[alias.rref])",
        "effects = []",
    ),
    in_context(
        "does not re-point its own handles",
        "_show",
        "self._learn(alias.rref, alias.shown, alias.path)",
        "[]",
    ),
    in_context(
        "passes every fetch on", "_pass_on", "(request.direct or not request.copy)", "False"
    ),
    in_context(
        "passes on what is lost", "_pass_on", "if self._has_lost(request.cargo):", "if False:"
    ),
    in_context(
        "acknowledges a creation before it has arrived",
        "_pass_on",
        "alias.rref, tuple(acks)\n",
        "alias.rref, ()\n    acks = [*acks]\n",
    ),
    in_context("forgets that a creation is early", "_pass_on", "alias.early.add(made)", "pass"),
    in_context(
        "is early for ever",
        "_pass_on",
        "alias.early.discard(request.rref)\n        alias.early.add(made)",
        "alias.early.add(made)",
    ),
    in_context(
        "keeps the handle of what it passes on",
        "_pass_on",
        "return effects + self._drop(made)",
        "return effects",
    ),
    in_context(
        "does not settle a creation that it passes on",
        "_pass_on",
        "*self._made(request.rref), ",
        "",
    ),
    in_context("does not hear that a creation arrived", "_created", " + self._arrived(rref)", ""),
    in_context("is early after all have arrived", "_arrived", "alias.early.discard(rref)", "pass"),
    in_context(
        "does not show when all have arrived", "_arrived", "return self._show(alias)", "return []"
    ),
    in_context("settles what it passed on", "_settled", "[] if waiting.relay else", ""),
    in_context("knows an object by a refusal", "_settled", "or message.refused", ""),
    in_context("says that a refusal is an answer", "refuse", "refused=True", "refused=False"),
    in_context(
        "does not pass an answer back",
        "_receive_reply",
        "effects += self._pass_back(waiting.relay, message.cargo)",
        "pass",
    ),
    in_context(
        "holds what it passed back",
        "_receive_reply",
        "return effects + self._release(message.cargo.descriptors)",
        "return effects",
    ),
    in_context("tells no caller", "_pass_back", "moved = self._moved(owner, caller)", "pass"),
    in_context("tells a caller again and again", "_pass_back", "alias.told.add(caller)", "pass"),
    in_context(
        "gives nothing back through", "_share_back", "self.give_back(descriptor.rref, call) or", ""
    ),
    in_context(
        "does not cancel what it passed on",
        "_cancel",
        "if cancelled or owner.alias is None:",
        "if True:",
    ),
    in_context(
        "keeps what a freed alias stood for",
        "_after",
        "effects += self._let_go(entry.alias)",
        "pass",
    ),
    in_context("holds what a broken alias stood for", "_break", "*self._let_go(alias), ", ""),
    in_context("breaks without an error", "_break", ", Lose(alias.rref, why)", ""),
    in_context("is not gone", "_let_go", "alias.gone = True", "pass"),
    in_context("stays on the list", "_let_go", "effects = self._unlist(alias)", "effects = []"),
    in_context(
        "keeps what it stood for", "_let_go", "effects + self._drop(alias.target)", "effects"
    ),
    in_context("remembers what is gone", "_unlist", "self._aliases.pop(alias.rref, None)", "pass"),
    in_context("leaves a list twice", "_unlist", "alias.listed.discard(about)", "pass"),
    in_context(
        "leaves a list before it is answered", "_unlist", "set(alias.asked.values())", "set()"
    ),
    in_context(
        "leaves the canonical object's list",
        "_unlist",
        "needed.add(alias.canonical or alias.target)",
        "pass",
    ),
    in_context("waits for the dead to say", "_lose_aliases", "if self._pends(about, call)", ""),
    in_context(
        "forgets to leave when a death ends its asking",
        "_lose_aliases",
        "if alias.gone:\n            effects += self._unlist(alias)\n        elif",
        "if",
    ),
    in_context(
        "stands for what died", "_lose_aliases", "effects += self._break(alias, Loss.OWNER)", "pass"
    ),
    in_context(
        "waits for a creation on the dead",
        "_lose_aliases",
        "effects += self._arrived(made)",
        "pass",
    ),
    in_context(
        "keeps questions to the dead",
        "_lose_aliases",
        "if rref in self._aliases and call in self._aliases[rref].asked",
        "",
    ),
    in_context(
        "answers nobody for a dead owner",
        "died",
        "else Refuse(relay.sender, relay.request, Refusal.LOST)",
        "else Fail(call, worker, waiting.rref)",
    ),
)
