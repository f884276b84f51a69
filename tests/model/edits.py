"""Mutants that no operator of `mutation` makes: other orders, other tables, other limits."""

from farref.actors.cluster.elected import Elected
from farref.actors.cluster.membership import MembershipService
from farref.protocol.aliases import Aliases
from farref.protocol.borrowing import BorrowingOwner, BorrowingUser
from farref.protocol.context import Context
from farref.protocol.creations import Asked, Seen
from farref.protocol.credit import Credit
from farref.protocol.cycles import CycleCollector
from farref.protocol.dead import Dead
from farref.protocol.deadlocks import DeadlockDetector
from farref.protocol.death import Death
from farref.protocol.delivery import Channel
from farref.protocol.entries import Entries
from farref.protocol.holders import HolderReports
from farref.protocol.hosting import Hosting
from farref.protocol.lending import LendingUser
from farref.protocol.loans import Loans
from farref.protocol.names import Names
from farref.protocol.owner import Owner
from farref.protocol.references import References
from farref.protocol.rendezvous.attendant import Attendant
from farref.protocol.rendezvous.observer import Observer
from farref.protocol.rendezvous.state import State
from farref.protocol.requests import Requests
from farref.protocol.search import Search
from farref.protocol.succession.campaign import Campaign
from farref.protocol.user import User

from .mutation import Mutant, edit, module_of, mutants

EDITS = (
    edit(
        "takes an old chain for a wait",
        Owner._waits_for_itself,
        "Busy(self.rref, self.running) in chain",
        "names(chain, self.rref)",
    ),
    edit(
        "takes an old chain for a wait of the target",
        Owner._waits_for_itself,
        "Busy(self.target, before) in chain",
        "names(chain, self.target)",
    ),
    edit(
        "lets go on without a turn",
        Owner.resume,
        "self._line_up(call.caller, Resume(call))",
        "return [Resume(call)]",
    ),
    edit("starts the last one first", Owner._next, "iter", "reversed"),
    edit(
        "lets who can go on jump the line",
        Owner.resume,
        "self._line_up(call.caller, Resume(call))",
        "self._line_up(call.caller, Resume(call)); self.queue.move_to_end(call, last=False)",
    ),
    edit("owes its parent nothing", User.arrive, "self.owed[descriptor.fork]", "_"),
    edit("deletes only the last fork", User._know, "added(self.known, fork)", "(fork,)"),
    edit(
        "lets go of an object while its method is asked to create",
        Requests.create,
        "self.entries.allocate_call(where)",
        "self.entries.allocate_call(None)",
    ),
    edit(
        "holds the target of a creation for ever",
        Requests.created,
        "self.entries.answered(*creating)",
        "self.entries.answered(creating[0], None)",
    ),
    edit(
        "keeps entries that have ended", Entries.end_if_unused, "self._remove", "lambda *it: it[1]"
    ),
    edit("takes a bulk up to its first error", Context.take_all, "errors.append(error)", "break"),
    edit(
        "forgets that the owner of what arrives is dead",
        References.accept,
        "bool(state.dead.firsts) and owner in state.dead",
        "False",
    ),
    edit(
        "refuses a child's ACK after it let go of a dead owner's object",
        Context._child_ack,
        "self.users.get",
        "self.entries.user",
    ),
    edit(
        "raises when a cancel comes too late",
        Hosting.cancel,
        "self.state.owners.get",
        "self.entries.owner",
    ),
    edit(
        "believes no lender to be counted",
        LendingUser.borrow,
        "by_owner or descriptor.counted",
        "False",
    ),
    edit("believes every lender", LendingUser.borrow, "by_owner or descriptor.counted", "True"),
    edit(
        "is covered by any loan",
        LendingUser._hold_on,
        "any((other.counted for other in self.loans.values()))",
        "self.loans",
    ),
    edit(
        "unpins first, then merges",
        BorrowingOwner.loan_ended,
        "self._merge(report.borrowers)",
        "super().loan_ended(sender, fork, report) + self._merge(report.borrowers)",
    ),
    edit("keeps the table it hands over", BorrowingUser._take_table, "EMPTY", "self.borrowers"),
    edit(
        "deletes first, then merges",
        BorrowingOwner.delete,
        "self._merge(message.borrowers) + super().delete(sender, message)",
        "super().delete(sender, message) + self._merge(message.borrowers)",
    ),
    edit(
        "hands an empty table over",
        BorrowingUser._take_table,
        "tuple(sorted(self.borrowers.items()))",
        "()",
    ),
    edit(
        "announces itself only when its own lender dies",
        BorrowingUser.died,
        "self._announce(allocate)",
        "any((f.parent == worker for f in self.reported)) and self._announce(allocate) or []",
    ),
    edit(
        "gives back what was lent for another call",
        Loans.lent_for,
        "()",
        "next(iter(self.state.serving.values()), ())",
    ),
    edit(
        "gives back another reference",
        References.give,
        "lent.get(found)",
        "next(reversed(lent.values()))",
    ),
    edit(
        "ends loans before it takes the reply",
        Requests.receive_reply,
        "effects = self.references.accept(sender, brought, lent=lent)",
        "effects = self.loans.ended(sender, waiting.loans, message.loans);"
        "effects += self.references.accept(sender, brought, lent=lent); lent = {}",
    ),
    edit("settles no loan", Loans.end, "user.end_loan(fork, replies=replies)", "(None, [])"),
    edit("does not hear what became of a loan", Loans.ended, "told.get(fork)", "None"),
    edit(
        "does not count the dead in their grace",
        Loans.unburied,
        "self.state.buried",
        "self.state.dead",
    ),
    edit(
        "keeps an entry after its notice",
        Loans._notified,
        "self.entries.after(user, user.notified(fork))",
        "user.notified(fork)",
    ),
    edit(
        "lends as if there came a reply",
        References.share,
        "entry.lend(fork, to, replies=replies)",
        "entry.lend(fork, to, replies=True)",
    ),
    edit(
        "buries at once",
        Death.died,
        "state.dead.add(worker)",
        "state.dead.add(worker); self.bury(worker)",
    ),
    edit("gives up what was created in time", Death.bury, "owner.created", "owner.resolved"),
    edit(
        "knows the answer of another only if an entry of the target is left",
        Aliases.died,
        "alias.canonical is None and (not alias.asked)",
        "is_lost(target)",
    ),
    edit(
        "lets go of what it asks about",
        Aliases._ask,
        "self.entries.allocate_call(about)",
        "self.entries.allocate_call(None)",
    ),
    edit(
        "asks in its own name only",
        Aliases._ask,
        "self.state.owners[alias.rref].label",
        "alias.rref",
    ),
    edit("tells while creations are early", Aliases._found, "alias.early", "_"),
    edit(
        "shows what is early",
        Aliases._show,
        "alias.shown is None or alias.gone",
        "alias.gone or alias.canonical is None",
    ),
    edit(
        "leaves a list before it is answered", Entries.unlist, "set(alias.asked.values())", "set()"
    ),
    edit(
        "acknowledges a creation before it has arrived",
        Aliases.pass_on,
        "self.state.passed_on[made] = (alias.rref, tuple(acks))",
        "self.state.passed_on[made] = (alias.rref, ()); acks = [*acks]",
    ),
    edit(
        "gives nothing back through",
        Aliases._share_back,
        "self.references.give((descriptor.rref,), call)",
        "self.references.share((descriptor.rref,), call.caller, lost=True)",
    ),
    edit(
        "cannot pass back what is lost",
        Aliases._share_back,
        "self.references.give((descriptor.rref,), call)",
        "self.references.fork((descriptor.rref,), call.caller)",
    ),
    edit(
        "passes its parent's fork on",
        References.share,
        "Descriptor(rref=entry.rref, fork=fork, owner=owner, parent=me,"
        " passing=passing, counted=counted, name=name)",
        "Descriptor(rref=rref, fork=fork, owner=owner, parent=me,"
        " passing=passing, counted=counted, name=name)",
    ),
    edit(
        "forgets the name of a creation on its way",
        Names._name,
        "not isinstance(message, ObjectRequest)",
        "isinstance(message, Create)",
    ),
    edit(
        "makes no name for a fetch that is asked again",
        Names._name,
        "name = self.state.names[rref] = Name(to, (to,))",
        "return",
    ),
    edit("holds back for ever", Names.send_held, "list(self.state.freed)", "()"),
    edit(
        "frees the wrong handle",
        Entries._free,
        "state.freed[rref] = state.freed[handle] = None",
        "state.freed[rref] = None",
    ),
    edit(
        "asks again last",
        Requests._fetch_there,
        "self.names.dispatch(fetch.rref, Send(to, again), first=True)",
        "self.names.dispatch(fetch.rref, Send(to, again))",
    ),
    edit(
        "cancels before it asks", Names.dispatch_cancel, "self.state.held_calls.get(call)", "None"
    ),
    edit("takes two waits for one", DeadlockDetector.waits, "number", "0"),
    edit(
        "does not look behind a queued creation",
        DeadlockDetector._foremost,
        "owner = target",
        "return owner",
    ),
    edit(
        "goes round a ring that it is not part of",
        DeadlockDetector._look,
        "_has_met(probe, run)",
        "len(probe.path) >= 9",
    ),
    edit(
        "refuses what holds another request back",
        DeadlockDetector.receive_probe,
        "_holds_back(probe.path[-1])",
        "False",
    ),
    edit(
        "does not see a creation in front",
        DeadlockDetector._in_front,
        "each in state.asking",
        "each not in state.waiting",
    ),
    edit("looks once", Search.weigh, "places = self.begin_again()", "break"),
    edit("cuts one ring", Search._judge, "map(self._cut, cuts)", "map(self._cut, cuts[:1])"),
    edit(
        "waits for one answer",
        CycleCollector._answered,
        "[] if search.asked else [Weigh(search.start)]",
        "search.asked.clear() or [Weigh(search.start)]",
    ),
    edit(
        "does not compare the looks",
        Search.see,
        "self.first.get(place) != grip",
        "self.first.get(place) is None",
    ),
    edit("forgets the table", BorrowingUser.grip, "self.borrowers.items()", "()"),
    edit(
        "forgets reported loans", BorrowingUser.grip, "{*self.known, *self.reported}", "self.known"
    ),
    edit(
        "sees no reference leave",
        References.share,
        "entry.stamp += 1",
        "entry.stamp += replies is not None",
    ),
    edit("sees no loan", References.share, "entry.stamp += 1", "entry.stamp += replies is None"),
    edit("cuts only the rings behind one object", Search._cuts, "objects", "objects[:1]"),
    edit("ignores aliases", HolderReports.begin, "self.aliases.standing()", "{}"),
    edit("does not look at aliases", HolderReports._grip, "{*values, *aliases}", "values"),
    edit(
        "counts the handles late", HolderReports._grip, "report.handles.get(rref)", "entry.handles"
    ),
    edit(
        "hands over what came before",
        Channel._put_in_order,
        "number == self.handed",
        "number <= self.handed",
    ),
    edit(
        "acknowledges only what is new",
        Channel.receive,
        "messages and self.acknowledge_at is None",
        "handed and self.acknowledge_at is None",
    ),
    edit("forgets everything", Channel.receive, "range(new)", "range(len(flight))"),
    edit("sends again only once", Channel.tick, "now + self._pause", "None"),
    edit(
        "sends again under new numbers",
        Channel.packet,
        "batch = tuple(again)",
        "batch = tuple(again); self._next += len(batch)",
    ),
    edit(
        "hands over what is ahead",
        Channel._put_in_order,
        "number == self.handed",
        "number >= self.handed",
    ),
    edit(
        "tells what it told before",
        Channel.packet,
        "Packet(self._next - len(batch), batch, self.handed)",
        "Packet(self._next - len(batch), batch, self._told - 1)",
    ),
    edit(
        "sends again only the latest",
        Channel.tick,
        "self.packet(now, self.flight)",
        "self.packet(now, [self.flight[-1]])",
    ),
    edit(
        "sends without room",
        Channel.send,
        "credit.messages >= WINDOW or credit.bytes >= credit.most",
        "False",
    ),
    edit("lets the last one go first", Credit.next, "self.waiting.popleft", "self.waiting.pop"),
    edit("does not report lost members", State.waiting_for, "int(again)", "0"),
    edit("calls before enough are there", State.calling, "self.limits.min_nodes", "0"),
    edit("counts rounds anew", State._leave, "self.round + 1", "0"),
    edit("counts last calls anew", State._leave, "self.call", "0"),
    edit("times all last calls as one", Observer._see, "call != self._call", "self._call is None"),
    edit(
        "makes everybody spare", State._join, "len(self.participants)", "0 * len(self.participants)"
    ),
    edit("keeps those who waited", State._advanced, "{}", "state.waiting"),
    edit("gives up too soon", Observer.look, "self._timeouts.silence", "self._timeouts.keep_alive"),
    edit(
        "does not look at beats",
        Observer._see,
        "self._beats.get(node) == seat.beat",
        "node in self._beats",
    ),
    edit("credits what was before it heard", Observer.heard, "-self._passed(now)", "0.0"),
    edit(
        "credits all that passed",
        Observer._passed,
        "min(max(0.0, now - self._last), self._timeouts.keep_alive)",
        "now - self._last",
    ),
    edit(
        "stays though it gives up",
        Attendant._seek,
        "Decision(self.leave(state), self._late(joined))",
        "Decision(joined, self._late(joined))",
    ),
    edit("does not find itself", Campaign.answered, "who == self.me", "False"),
    edit("does not stand", Campaign.answered, "True", "False"),
    edit(
        "says done before it is settled",
        Elected._do,
        "wire.Settled | wire.Spawn",
        "wire.Spawn",
    ),
    edit(
        "says done before it is made",
        Elected._do,
        "wire.Settled | wire.Spawn",
        "wire.Settled",
    ),
    edit(
        "gives a name twice",
        MembershipService._spawn,
        "making or self._members.named(message.name)",
        "False",
    ),
    edit("claims what is not acknowledged", Asked.add, "next(iter(self._waiting))", "number + 1"),
    edit("claims too little", Asked.add, "next(iter(self._waiting))", "0"),
    edit("keeps what is below", Seen.add, "self._heap[0] < watermark", "self._heap[0] < 0"),
    edit(
        "counts the next one",
        Dead.__contains__,
        "self._lasts[place - 1]",
        "1 + self._lasts[place - 1]",
    ),
    edit("forgets the first one", Dead.__contains__, "bisect_right", "bisect_left"),
    edit("looks at the wrong span", Dead.__contains__, "place - 1", "0"),
    edit("buries the one before", Dead.merge, "first - 1", "first - 2"),
    edit("buries the one after", Dead.merge, "last + 1", "last + 2"),
    edit(
        "keeps what was swallowed", Dead.merge, "self._lasts[begin:end]", "self._lasts[begin:begin]"
    ),
    edit(
        "believes who died before it came",
        Context.outlive,
        "(self.dead, self.state.buried)",
        "(self.state.buried,)",
    ),
    edit(
        "waits for who died before it came",
        Context.outlive,
        "(self.dead, self.state.buried)",
        "(self.dead,)",
    ),
)


def named(mutant: str) -> Mutant | None:
    """The mutant with this name, if the machines still have what it changes."""
    by_hand = {str(each): each for each in EDITS}
    return by_hand.get(mutant) or mutants(module_of(mutant)).get(mutant)
