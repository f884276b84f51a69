"""Rules of aliases: questions, answers, requests passed on, and their end."""

from .mutant import in_context

ALIAS = {
    "aliases/a_cancelled_call": (
        in_context("stands for what it does not hold", "stand_for", "self.entries.hold(target)"),
        in_context(
            "does not ask what it stands for", "stand_for", "*self._ask(alias, target), ", ""
        ),
        in_context(
            "does not remember who asks",
            "receive_alias_ref",
            "owner.asking[message.call] = sender",
        ),
        in_context("says every label again", "_hear", "if label <= owner.label:", "if False:"),
        in_context(
            "tells when the value comes no more",
            "resolve",
            "effects + self.aliases.answer_asking(owner)",
            "effects",
        ),
        in_context(
            "keeps an alias that is gone on its list",
            "receive_alias_gone",
            "del owner.aliases[message.alias]",
        ),
        in_context(
            "waits for what was answered",
            "receive_canonical",
            "del self.state.asking[message.call], alias.asked[message.call]",
        ),
        in_context(
            "holds the hop for ever",
            "receive_canonical",
            "effects += self.entries.answered(about, message.call)",
        ),
        in_context(
            "forgets what waits",
            "_found",
            "for sender, request in waiting:",
            "for sender, request in ():",
        ),
        in_context("settles what it passed on", "receive_reply", "waiting.relay is None and ", ""),
        in_context(
            "does not pass an answer back",
            "_reply",
            "effects += self.aliases.pass_back(waiting.relay, message.cargo)",
        ),
        in_context("tells no caller", "pass_back", "moved = self._moved(owner, caller)"),
        in_context("tells a caller again and again", "pass_back", "alias.told.add(caller)"),
        in_context(
            "does not cancel what it passed on",
            "cancel",
            "if cancelled or owner.alias is None:",
            "if True:",
        ),
        in_context(
            "keeps what a freed alias stood for", "_remove", "effects += self.let_go(entry.alias)"
        ),
        in_context("is not gone", "let_go", "alias.gone = True"),
        in_context("stays on the list", "let_go", "effects = self.unlist(alias)", "effects = []"),
        in_context(
            "keeps what it stood for", "let_go", "effects + self.drop(alias.target)", "effects"
        ),
        in_context("remembers what is gone", "unlist", "self.state.aliases.pop(alias.rref, None)"),
        in_context(
            "leaves the canonical object's list",
            "unlist",
            "needed.add(alias.canonical or alias.target)",
        ),
    ),
    "aliases/deaths": (
        in_context(
            "does not notice that nobody wants it",
            "stand_for",
            ", *self.entries.after(owner, owner.end_if_unused())",
            "",
        ),
        in_context("waits for the dead to say", "died", "if self._pends(about, call)", ""),
        in_context(
            "forgets to leave when a death ends its asking",
            "died",
            "effects += self.entries.unlist(alias)",
        ),
        in_context(
            "answers nobody for a dead owner",
            "died",
            "else Refuse(relay.sender, relay.request, Refusal.LOST)",
            "else Fail(call, worker, waiting.rref, waiting.by)",
        ),
    ),
    "the owner of what an alias stands for dies": (
        in_context("stands for what is lost", "stand_for", "self.entries.is_lost(target)", "False"),
        in_context("stands for what died", "died", "effects += self._break(alias, Loss.OWNER)"),
        in_context("keeps questions to the dead", "died", "del state.asking[call]"),
    ),
    "the owner of what an alias stands for dies, and a fetch has told what that is": (
        in_context(
            "knows the answer of another only if an entry of the target is left",
            "died",
            "alias.canonical is None and not alias.asked",
            "is_lost(target)",
        ),
        in_context(
            "does not go on without an answer",
            "died",
            "effects += self._found(alias, known, (known,))",
        ),
    ),
    "aliases/an_early_creation": (
        in_context(
            "lets go of what it asks about",
            "_ask",
            "self.entries.allocate_call(about)",
            "self.entries.allocate_call(None)",
        ),
        in_context(
            "asks in its own name only", "_ask", "self.state.owners[alias.rref].label", "alias.rref"
        ),
        in_context("does not learn a label", "_hear", "owner.label = label"),
        in_context(
            "does not take what it is told",
            "receive_canonical",
            "effects = self.references.accept(sender, brought)",
            "effects = []",
        ),
        in_context(
            "stays on the list of the hop",
            "receive_canonical",
            "effects += self.entries.unlist(alias)",
        ),
        in_context(
            "holds the canonical object twice",
            "receive_canonical",
            "return effects + self.entries.release(brought.descriptors)",
            "return effects",
        ),
        in_context(
            "is not on the canonical object's list",
            "_found",
            "self._ask(alias, canonical) if canonical != alias.target else []",
            "[]",
        ),
        in_context("tells while creations are early", "_found", "alias.early = ", "_ = "),
        in_context("shows nothing", "_found", "effects += self._show(alias)"),
        in_context(
            "shows what is early",
            "_show",
            "if alias.shown is None or alias.gone:",
            "if alias.gone or alias.canonical is None:",
        ),
        in_context(
            "does not tell those who ask",
            "_show",
            "effects = self.answer_asking(self.state.owners[alias.rref])",
            "effects = []",
        ),
        in_context(
            "does not re-point its own handles",
            "_show",
            "self.names.learn(alias.rref, alias.shown, alias.path)",
            "[]",
        ),
        in_context("forgets that a creation is early", "pass_on", "alias.early.add(made)"),
        in_context(
            "is early for ever",
            "pass_on",
            "alias.early.discard(request.rref)\n        alias.early.add(made)",
            "alias.early.add(made)",
        ),
        in_context(
            "keeps the handle of what it passes on",
            "pass_on",
            "return effects + self.entries.drop(made)",
            "return effects",
        ),
        in_context(
            "does not hear that a creation arrived", "created", " + self.aliases.arrived(rref)", ""
        ),
        in_context("is early after all have arrived", "arrived", "alias.early.discard(rref)"),
        in_context(
            "does not show when all have arrived",
            "arrived",
            "return self._show(alias)",
            "return []",
        ),
        in_context("leaves a list twice", "unlist", "alias.listed.discard(about)"),
        in_context(
            "leaves a list before it is answered", "unlist", "set(alias.asked.values())", "set()"
        ),
    ),
    "aliases/a_tree": (
        in_context("does not settle a creation", "stand_for", "= self.loans.made(rref)", "= []"),
        in_context(
            "does not know its aliases",
            "receive_alias_ref",
            "owner.aliases[message.alias] = sender",
        ),
        in_context(
            "answers only later",
            "receive_alias_ref",
            "self.answer_asking(owner) if owner.located else self._hear(owner, message.label)",
            "[]",
        ),
        in_context(
            "answers for ever",
            "answer_asking",
            "asking, owner.asking = owner.asking, EMPTY",
            "asking = owner.asking",
        ),
    ),
    "aliases/circles": (
        in_context("sees no circle", "_hear", "label == owner.label", "False"),
        in_context("sees circles everywhere", "_hear", "label == owner.label", "True"),
        in_context(
            "says no label again", "_hear", "if alias is not None else []", "if False else []"
        ),
        in_context(
            "resolves what is gone",
            "receive_canonical",
            "if not alias.gone and alias.canonical is None:",
            "if alias.canonical is None:",
        ),
        in_context(
            "holds what a broken alias stood for", "_break", "*self.entries.let_go(alias), ", ""
        ),
        in_context("breaks without an error", "_break", ", Lose(alias.rref, why)", ""),
    ),
    "aliases/asked_too_late": (
        in_context(
            "is kept by what it has answered",
            "answer_asking",
            "*self.entries.after(owner, owner.end_if_unused())",
            "",
        ),
    ),
    "aliases/h_g_f_canonical_first": (
        in_context(
            "does not drop the hop",
            "receive_canonical",
            "effects += self.names.learn(about, canonical, moved.path)",
        ),
    ),
    "who asked for an alias dies": (
        in_context(
            "is not freed when what waited is gone",
            "_found",
            "self.entries.after(owner, owner.end_if_unused())",
            "[]",
        ),
    ),
    "aliases/a_direct_fetch": (
        in_context(
            "passes every fetch on", "pass_on", "(request.direct or not request.copy)", "False"
        ),
    ),
    "who called an alias dies [lend]": (
        in_context(
            "passes on what is lost", "pass_on", "if self._has_lost(request.cargo):", "if False:"
        ),
    ),
    "aliases/lent_through_an_alias_by_borrowing": (
        in_context(
            "acknowledges a creation before it has arrived",
            "pass_on",
            "alias.rref, tuple(acks)\n",
            "alias.rref, ()\n    acks = [*acks]\n",
        ),
        in_context(
            "does not settle a creation that it passes on",
            "pass_on",
            "*self.loans.made(request.rref), ",
            "",
        ),
        in_context(
            "holds what it passed back",
            "_reply",
            "effects += self.entries.release(message.cargo.descriptors)",
        ),
        in_context(
            "gives nothing back through",
            "_share_back",
            "give((descriptor.rref,), call)",
            "share((descriptor.rref,), call.caller, lost=True)",
        ),
    ),
    "aliases/a_refused_call": (
        in_context(
            "knows an object by a refusal",
            "receive_reply",
            "aside = message.relayed or message.refused",
            "aside = message.relayed",
        ),
        in_context("says that a refusal is an answer", "refuse", "refused=True", "refused=False"),
    ),
    "the owner of what an alias stands for dies, with a creation on it": (
        in_context("waits for a creation on the dead", "died", "effects += self.arrived(made)"),
    ),
    "a fetch by way of an alias, and the owner of a reference in the value dies": (
        in_context(
            "cannot pass back what is lost",
            "_share_back",
            "give((descriptor.rref,), call)",
            "fork((descriptor.rref,), call.caller)",
        ),
    ),
}
