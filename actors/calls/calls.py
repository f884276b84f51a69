"""The calls that the user's code makes: pack, make the protocol's move, return a future.

Requests are made in the user's threads, which may have to wait for room. The mailbox thread
completes the futures, and ends the requests whose time is over.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import math
import threading
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec.structs import force_setattr, replace
from thespian.actors import ActorAddress

from ...printable import logger
from ...protocol.effects import Effect, Fail, Hand, Settle, Unstopped
from ...protocol.errors import (
    FarrefError,
    OverloadedError,
    OwnerDiedError,
    ReferenceLostError,
    WorkerDiedError,
)
from ...protocol.ids import CallId, RRefId, WorkerId
from ...protocol.messages import Busy, Cargo, Descriptor, Flow, Message, Tell
from ...protocol.requests import ElsewhereError
from ...serialization.frozen import Frozen
from ...serialization.payload import Origin, Payload
from ..base.interrupts import undisturbed
from ..core import sites
from ..core.brief import Later
from ..core.core import Core, Internal
from ..core.counters import LATENCY_STEPS
from ..core.current import found
from ..core.delivery import Delivery
from ..core.duties import in_mailbox_thread, under_lock
from ..core.hooks import RequestHooks
from ..core.notices import What, notice
from ..values.packing import Pack, Packer
from ..wire.cargoes import is_answer
from ..wire.messages import ReplyAddress, WorkerInfo
from ..wire.settings import check_timeout
from .futures import Future
from .waiter import Leader, Waiter
from .waits import Waits

Invocation = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A function, or a method's name, and the arguments."""

Chain = tuple[Busy, ...]
Take = Callable[[Cargo, ActorAddress], None]
"""Gives a one-way message to the user: its cargo, and the address at which to answer it."""
Told = RequestHooks | None
"""The request as the hooks have it, if there are any."""

log = logger(__name__)

MAX_BACKLOG = 10_000
"""With this many messages unacknowledged by one peer, a user's thread that sends more waits
(G6)."""


MAX_UNSENT = 100_000
"""The same for messages of handlers, which may not wait: a further message is refused."""
MAX_BACKLOG_BYTES = 64 << 20
"""With this many bytes of one flow (`protocol.room`) not taken by one peer, a thread that sends
more waits.

This includes results of functions: a thread that has run a function waits until the caller has
taken earlier results.
"""
MAX_UNSENT_BYTES = 1 << 30
"""The same for messages of handlers."""
MAX_UNFETCHED_BYTES = 4 << 30
"""With this many bytes of results that nobody has asked for in an endpoint's futures, a thread that
makes a call waits."""
FEW = 1000
"""The most requests that `end_late` ends in one go. Incoming messages come before the others."""
NESTED_PATIENCE = 1.0
"""Seconds after which a function's own call goes ahead without room: the code that has filled the
room may wait for that function."""


class Answers:
    """The answers to a question that has any number of them: a future for each, in their order."""

    def __init__(self, number: int, make: Callable[[], Future[Any]]) -> None:
        self.number = number
        self._make = make
        self.line = deque([make()])

    def popleft(self) -> Future[Any]:
        """The future of the answer that has come."""
        future = self.line[-1]
        self.line.append(self._make())
        return future

    def __iter__(self) -> Iterator[Future[Any]]:
        return iter(self.line)


class Calls(Internal):
    """Makes the calls of one endpoint, and completes their futures."""

    def __init__(
        self, core: Core, delivery: Delivery, packer: Packer, waits: Waits, hand: Take
    ) -> None:
        self._core = core
        self._give = hand
        self._state = core.context.state
        self._delivery = delivery
        self.packer = self._packer = packer
        self._waits = waits
        self.leader: Leader | None = None
        """On our own base: lets a thread that waits receive."""
        core.handlers |= {Settle: self._settle, Fail: self._fail, Hand: self._hand}
        core.handlers[Unstopped] = self._unstopped
        self.timed_until = 0.0
        """Until then latencies are counted: while somebody looks at an overview."""
        self.latencies: defaultdict[tuple[WorkerId, int], int] = defaultdict(int)
        """The answers by sender and latency; see `LATENCY_STEPS`. Under the endpoint's lock."""
        self.owners: dict[WorkerId, WorkerInfo] = {}
        """The endpoints that were asked for objects."""
        self._asks: dict[int, tuple[WorkerId, deque[Future[Any]] | Answers]] = {}
        """The questions that lack an answer: a future for each one that is to come."""
        self.deadlines: list[tuple[float, int, CallId | int]] = []
        """A heap of the times at which requests end, each with its call or the number of its
        question. An answered request is removed when its time comes, or when most are answered."""
        self.numbers = itertools.count()
        self.most = FEW
        """The size of the heap at which the answered requests are removed."""
        self.first = math.inf
        """When `end_late` looks at the heap next. That request may have been answered: so the
        mailbox thread, which keeps the time, seldom has to be woken for a new one."""
        self._ask_numbers = itertools.count(1)
        self._there: dict[RRefId, Future[Any]] = {}
        """Questions whether a value is there, without an answer; at most one for each reference."""
        self.asked = 0
        """How many such questions have been asked."""
        self._made: weakref.WeakSet[Future[Any]] = weakref.WeakSet()
        """The futures that the program is to set."""
        self.unfetched = delivery.intakes["results"]
        """The results that nobody has asked for yet."""
        self._pressing: dict[int, tuple[WorkerId, Flow]] = {}
        """For each thread: a peer and a flow. Its next message there is sent even without room."""

    # ---- made by the user

    def remote(
        self, to: WorkerInfo, what: Invocation, target: RRefId | None = None, asked: Told = None
    ) -> Any:
        """Have *to* own the result of *what*; returns the result's reference at once."""
        core = self._core
        if core.hooks is not None and asked is None:
            return core.hooks.asks(partial(self.remote, to, what, target), what[0], "create", to)
        self._admit(to, "requests")
        label = str(getattr(what[0], "__name__", what[0]))
        pack = self._packer.pack(what, to.id, label, call=True)
        site = sites.here() if core.sites.wanted else None
        made: list[RRefId] = []

        def move(cargo: Cargo) -> list[Effect]:
            rref, effects = core.context.create(to.id, cargo, target)
            made.append(rref)
            if site is not None:
                core.note_site(rref, cargo)
            return effects

        with undisturbed:
            self._send(pack, move, to=to, replies=False, asked=asked, site=site)
            self.owners[to.id] = to
            if core.closed:  # after the message was packed
                core.check_open()
            return core.handles(made)[0]

    def remote_method(self, rref: RRefId, what: Invocation, asked: Told = None) -> Any:
        """Run a method of the object at its owner, which owns the result. Returns its reference."""
        core = self._core
        core.check_open()
        if core.hooks is not None and asked is None:
            ask = partial(self.remote_method, rref, what)
            return core.hooks.asks(ask, what[0], "create", core.owner(rref), rref)
        while True:
            try:
                return self.remote(core.owner(rref), what, rref, asked)
            except ElsewhereError:
                continue  # the object has just turned out to be an alias

    def call(
        self,
        to: WorkerInfo,
        what: Invocation,
        timeout: float | None,
        chain: Chain,
        *,
        waits: bool = False,
        asked: Told = None,
    ) -> Future[Any]:
        """Run *what* on *to*. With *waits*, the calling thread asks for the result at once."""
        core = self._core
        if core.hooks is not None and asked is None:
            ask = partial(self.call, to, what, timeout, chain, waits=waits)
            return core.hooks.asks(ask, what[0], "call", to)
        if self.unfetched.bytes >= MAX_UNFETCHED_BYTES:
            self._await_fetching()
        label = str(getattr(what[0], "__name__", what[0]))
        what_in_words = "the reply of {} to {}()", to, label
        answer = self._answer(what_in_words, timeout, asked, rref=None, waits=waits)
        self._admit(to, "requests")
        pack = self._packer.pack(what, to.id, label, call=True)

        def begin(cargo: Cargo) -> list[Effect]:
            answer.call, effects = core.context.call(to.id, cargo, chain, answer)
            if type(answer) is not Waiter:
                self.bound(answer, answer.call)
            return effects

        self._send(pack, begin, to=to, replies=True, asked=asked, answer=answer)
        return answer  # type: ignore[no-any-return]  # or what stands in for it

    def invoke(
        self,
        rref: RRefId,
        what: Invocation,
        timeout: float | None,
        chain: Chain,
        *,
        waits: bool = False,
        asked: Told = None,
    ) -> Future[Any]:
        """Run a method of the object. *waits*: see `call`."""
        core = self._core
        if core.closed:  # first: the system's end says more than a death in it
            core.check_open()
        if core.hooks is not None and asked is None:
            ask = partial(self.invoke, rref, what, timeout, chain, waits=waits)
            return core.hooks.asks(ask, what[0], "invoke", self._owner(rref), rref)
        if self.unfetched.bytes >= MAX_UNFETCHED_BYTES:
            self._await_fetching()
        label = str(getattr(what[0], "__name__", what[0]))
        what_in_words = "the reply of {}() of {}", label, rref
        answer = self._answer(what_in_words, timeout, asked, rref=rref, waits=waits)

        def begin(to: WorkerId, cargo: Cargo) -> list[Effect]:
            answer.call, effects = core.context.invoke(rref, cargo, chain, to, answer)
            if type(answer) is not Waiter:
                self.bound(answer, answer.call)
            return effects

        while True:
            to = self._owner(rref)
            self._admit(to, "requests")
            pack = self._packer.pack(what, to.id, label, call=True)
            move = partial(begin, to.id)
            try:
                self._send(pack, move, to=to, replies=True, asked=asked, answer=answer)
            except ElsewhereError:
                continue  # the object has just turned out to be an alias
            return answer  # type: ignore[no-any-return]  # or what stands in for it

    def fetch(
        self,
        rref: RRefId,
        timeout: float | None,
        chain: Chain,
        *,
        copy: bool = True,
        direct: bool = False,
        follow: bool = True,
        waits: bool = False,
        asker: weakref.ref[Any] | None = None,
        asked: Told = None,
    ) -> Future[Any]:
        """Ask for a copy of the value, or with *copy* false whether there is one.

        *waits*: see `call`; an interrupted wait takes the request back. *asker*: the handle that
        may keep a frozen value.
        *direct* and *follow*: see `Context.fetch`. Without *direct* the value of an alias comes by
        way of the alias's owner, in order with the earlier and later requests to it.
        """
        core = self._core
        if copy and core.hooks is not None and asked is None and not core.closed:
            ask = partial(self.fetch, rref, timeout, chain, direct=direct, follow=follow)
            ask = partial(ask, waits=waits, asker=asker)
            return core.hooks.asks(ask, "to_here", "fetch", self._owner(rref), rref)
        if copy and self.unfetched.bytes >= MAX_UNFETCHED_BYTES:
            self._await_fetching()
        answer = self._answer(("the value of {}", rref), timeout, asked, rref=rref, waits=waits)
        answer.fetches, answer.asker = True, asker
        if copy and not core.closed:
            to = self._owner(rref).id
            channel = self._delivery.channels.get(to)
            if channel is not None and (
                channel.asking or len(channel.unsent) + len(channel.flight) >= MAX_BACKLOG
            ):
                self._await_owner(to, self._patience(timeout))

        def begin() -> list[Effect]:
            answer.call, effects = core.context.fetch(
                rref, chain, copy=copy, direct=direct, follow=follow, by=answer
            )
            if type(answer) is not Waiter:
                self.bound(answer, answer.call)
            return effects

        try:
            waits = type(answer) is Waiter
            undisturbed.hold(answer.leader.poller if waits else None)
            try:
                core.step_within(begin)
                if waits and not core.closed:
                    answer.leader.receive(answer)
            finally:
                undisturbed.release()
        except BaseException:
            if answer.call is not None:  # it has left
                answer.give_up()
            raise
        if core.closed and not answer.over:  # meanwhile: nobody would complete it
            core.check_open()
        return answer  # type: ignore[no-any-return]  # or what stands in for it

    def there(self, ref: Any, *, keep: bool) -> Future[Any] | None:
        """A future that is done when the value of the `RRef` *ref* is there; None if it is known.

        If *keep*, the handle may keep a frozen value. The question stays until it is answered, so
        that a later `wait` need not repeat it. If no handle is left then, the answer lets the
        reference go.
        """
        rref: RRefId = ref.id
        future = self._there.get(rref)
        if future is not None and not future.over:
            return future
        if ref._frozen is not None or self._core.canonical(rref) is not None:
            return None
        try:
            future = self.fetch(rref, math.inf, (), copy=False)
        except ReferenceLostError:
            return None  # it has an error, so it is ready
        future.asker = weakref.ref(ref)
        future.overlooked = True
        self._there[rref] = future
        self.asked += 1

        def answered(future: object) -> None:
            if self._there.get(rref) is future:
                del self._there[rref]

        future.on_answer(keep=keep, then=answered)
        return future

    def known(self, rref: RRefId, timeout: float | None, frozen: Frozen) -> Any:
        """A frozen value that was fetched before. Raises the error of a fetch from a dead owner."""
        self._patience(timeout)
        self._core.owner(rref)
        return frozen.thaw()

    def known_already(self, rref: RRefId, timeout: float | None, frozen: Frozen) -> Future[Any]:
        """The same as a completed future."""
        future: Future[Any] = self.new_future(("the value of {}", rref), timeout, rref=rref)
        future.known(self.known(rref, timeout, frozen))
        return future

    def tell(
        self,
        to: WorkerInfo,
        message: object,
        tag: tuple[str, int] | None = None,
        asked: Told = None,
    ) -> None:
        name = type(message).__name__  # for traces: the receiver has it before it unpickles
        core = self._core
        if core.hooks is not None and asked is None and tag is None:  # no question, and no answer
            core.hooks.asks(partial(self.tell, to, message), name, "tell", to)
            return
        self._admit(to, "results" if tag is not None and tag[0] == "answer" else "mail")
        pack = self._packer.pack(message, to.id, (*tag, name) if tag else name)
        self._send(pack, lambda cargo: core.context.tell(to.id, cargo), to=to, asked=asked)

    def ask(
        self,
        to: WorkerInfo,
        message: object,
        timeout: float,
        answers: int = 1,
        asked: Told = None,
    ) -> list[Future[Any]]:
        """Send a message; returns a future for each of the *answers* sent back to its address."""
        core = self._core
        if core.hooks is not None and asked is None:
            ask = partial(self.ask, to, message, timeout, answers)
            return core.hooks.asks(ask, type(message).__name__, "ask", to)
        number, what = next(self._ask_numbers), ("the answer of {}", to)
        made: list[Future[Any]] = [self.new_future(what, timeout) for _ in range(answers)]
        for each in made:
            each.question = number
        made[-1].asked = asked
        with undisturbed, core.lock:  # or an interrupt would leave a question without its deadline
            self._asks[number] = to.id, deque(made)
            self.bound(made[-1], number)
        try:
            self.tell(to, message, ("ask", number), asked)
        except BaseException:
            self.drop(made[-1])
            raise
        return made

    def answers(self, what: What) -> Answers:
        """Ask a question that has any number of answers, until `no_more`.

        Its number is negative: later answers are dropped without a word.
        """
        answers = Answers(-next(self._ask_numbers), partial(self._next_answer, what))
        with self._core.lock:
            self._asks[answers.number] = self._core.me, answers
        return answers

    def _next_answer(self, what: What) -> Future[Any]:
        future = self.new_future(what, None)
        future.deadline, future.overlooked = None, True
        return future

    def no_more(self, answers: Answers) -> None:
        """No further answer will come: the last future in the line gets None."""
        with self._core.lock:
            self._asks.pop(answers.number, None)
        answers.line[-1].known(None)

    def made(self, future: Future[Any]) -> None:
        """The program is to set *future*; its waits end with the endpoint."""
        with self._core.lock:
            self._core.check_open()
            self._made.add(future)

    def drop(self, future: Future[Any]) -> None:
        """No answer to the request of *future* is wanted any more: drop it if it comes."""
        with self._core.lock:
            if future.question is not None:
                self._asks.pop(future.question, None)  # with its other answers
            elif future.call is not None and self._awaiting(future.call) is future:
                self._hand_over(future.call, None)

    # ---- the ends of requests by their timeouts

    @under_lock
    def bound(self, future: Future[Any], of: CallId | int) -> None:
        """The request *of* a call, or of a question, ends at the deadline of *future*."""
        due, heap = future.deadline, self.deadlines
        if due is None:
            return
        heapq.heappush(heap, (due, next(self.numbers), of))
        if due < self.first:
            self.first = due
            self._core.wake()  # the mailbox thread keeps the time
        if len(heap) > self.most:
            heap[:] = [each for each in heap if self._awaiting(each[2]) or each[2] in self._asks]
            heapq.heapify(heap)
            self.most = 2 * len(heap) + FEW

    def deadline(self) -> float | None:
        """The time when `end_late` has work next."""
        return None if self.first == math.inf else self.first

    @in_mailbox_thread
    def end_late(self, now: float) -> None:
        """End the requests whose time is over."""
        if now < self.first:
            return
        late: list[tuple[CallId | int, list[Future[Any]]]] = []
        with self._core.lock:
            heap, none = self.deadlines, (None, ())
            while heap and len(late) < FEW:
                due, _, of = heap[0]
                asked: Any = of  # a call, or the number of a question
                future = self._awaiting(asked)
                mine = [future] if future is not None else [*self._asks.get(asked, none)[1]]
                if due > now and mine:
                    break
                heapq.heappop(heap)
                if not mine:
                    continue  # it was answered
                if mine[-1].deadline > now:  # a wait has named a longer time
                    heapq.heappush(heap, (mine[-1].deadline, next(self.numbers), of))
                else:
                    late.append((of, mine))
            self.first = heap[0][0] if heap else math.inf
        for of, mine in late:
            left = [each for each in mine if not each.expire()]
            if left:
                with self._core.lock:
                    self.bound(left[-1], of)

    @property
    def in_flight(self) -> int:
        """The number of calls, fetches and questions without an answer."""
        return len(self.awaited()) + len(self._asks)

    # ---- answers

    def _answer(
        self, what: What, timeout: float | None, asked: Told, *, rref: RRefId | None, waits: bool
    ) -> Any:
        """The record of a new request: a `Future`.

        It is a `Waiter`, which costs less, if the calling thread waits at once and may receive.
        """
        core, leader = self._core, self.leader
        if not waits or leader is None:
            future: Future[Any] = self.new_future(what, timeout, rref=rref)
            if asked is not None:
                future.asked = asked
            return future
        seconds, here = core.settings.timeout, found()
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        run = here.run if here is not None and here.core is core else None
        began = time.monotonic()
        return Waiter(self, leader, run, what, seconds, rref, asked, began=began)

    def _owner(self, rref: RRefId) -> WorkerInfo:
        """The owner of *rref*, as far as it is known without the lock: it may be an alias."""
        state, core = self._state, self._core
        user = state.users.get(rref)
        if user is not None and not user.lost and rref not in state.names:  # nearly always
            address = core.peers.addresses.get(user.owner)
            if address is not None:
                return WorkerInfo(user.owner, address)
        return core.owner(rref)

    def awaited(self) -> list[Future[Any] | Waiter]:
        """The calls and fetches for whose answers somebody waits. In any thread."""
        waiting: list[Any] = [each.by for each in self._state.waiting.copy().values()]
        return [each for each in waiting if each is not None]

    @under_lock
    def _awaiting(self, call: Any) -> Any:
        """The `Future` or `Waiter` of *call*, if anybody waits for it."""
        waiting = self._state.waiting.get(call)
        return waiting.by if waiting is not None else None

    @under_lock
    def _hand_over(self, call: CallId, by: Future[Any] | None) -> None:
        """From now on *by* waits for the answer to *call*."""
        self._state.waiting[call] = replace(self._state.waiting[call], by=by)

    def new_future(
        self, what: What, timeout: float | None, *, rref: RRefId | None = None
    ) -> Future[Any]:
        return Future.of(self._core, self._packer, self._waits, what, timeout, rref=rref)

    def future_of(self, pending: Waiter) -> Future[Any]:
        """The future for the rest of the wait for *pending*."""
        call = pending.call
        with self._core.lock:
            future = pending.become()
            if call is not None and self._awaiting(call) is pending:
                future.call = call
                self._hand_over(call, future)
                self.bound(future, call)
        if pending.payload is not None:  # it has come just now
            future.finish(cargo=Cargo(payload=pending.payload))
        return future

    # ---- completed by the endpoint

    def _settle(self, effect: Settle, later: Later) -> None:
        reply = effect.reply
        answer: Any = effect.by
        payload = reply.cargo.payload
        now = self._state.now
        if now < self.timed_until and answer is not None:
            step = int(LATENCY_STEPS * math.log2(max(1.0, 1e6 * (now - answer.began))))
            self.latencies[effect.sender, step] += 1
        if (
            type(answer) is Waiter
            and type(payload) is Payload
            and not reply.cargo.descriptors
            and (payload.plain or not (payload.functions or payload.inert))
            and (payload.plain or payload.frozen or not payload.buffers)
        ):
            answer.payload, answer.over = payload, True
            if effect.sender == self._core.me:  # another thread may lead
                answer.leader.lead.look()
            return
        future = _future_of(answer)
        if future is None:
            self._core.discards.message(reply.cargo.descriptors)
        elif reply.moved is not None and payload is None:
            later.append(future.elsewhere)
        else:
            later.append(partial(future.finish, cargo=reply.cargo))

    def _fail(self, effect: Fail, later: Later) -> None:
        future = _future_of(effect.by)
        if future is not None:
            how = self._core.context.entries.how(effect.worker)
            later.append(partial(future.finish, error=_death_of(effect.worker, effect.rref, how)))

    def _unstopped(self, effect: Unstopped, later: Later) -> None:
        future = _future_of(effect.by)
        if future is not None:
            later.append(future.goes_on)

    def _hand(self, effect: Hand, later: Later) -> None:
        later.append(partial(self._hand_over_mail, effect.sender, effect.message))

    def _hand_over_mail(self, sender: WorkerId, message: Tell) -> None:
        """Give a one-way message to the `ask` that it answers, or to the user. Without the lock."""
        core, cargo = self._core, message.cargo
        payload: Any = cargo.payload
        if is_answer(payload):
            number = payload.tag[1]
            with core.lock:  # otherwise `end` might fail it too
                _, left = self._asks.get(number, (None, None))
                future = left.popleft() if left else None
                if future is not None and not left:
                    del self._asks[number]
            if future is not None:
                future.finish(cargo=cargo)
                return
            if number > 0:
                core.chores.submit(_log_late, core.me, sender)
        elif (address := core.address_of(sender)) is not None:
            tag = getattr(payload, "tag", None)
            self._give(cargo, ReplyAddress(address, tag[1]) if isinstance(tag, tuple) else address)
            return
        core.discards.message(cargo.descriptors)

    def died(self, dead: WorkerId) -> None:
        """The actor *dead* died and answers no asks any more."""
        with self._core.lock:
            mine = [number for number, (worker, _) in self._asks.copy().items() if worker == dead]
            futures = [each for number in mine for each in self._asks.pop(number)[1]]
        for future in futures:
            future.finish(error=_death_of(dead, None, self._core.context.entries.how(dead)))

    def return_mail(self, dead: WorkerId, address: ActorAddress, left: list[Message]) -> None:
        """*dead* may not have *left*: its one-way messages become dead letters, as in Thespian."""
        cargoes = [each.cargo for each in left if type(each) is Tell]
        # Of questions and answers the asker's future knows.
        mail = [each for each in cargoes if type(getattr(each.payload, "tag", None)) is str]
        if mail:
            self._core.chores.submit(self._to_the_dead, dead, address, mail)

    def _to_the_dead(self, dead: WorkerId, address: ActorAddress, mail: list[Cargo]) -> None:
        """Send *mail* by the transport, which knows the handlers of dead letters."""
        lost = 0
        for cargo in mail:
            if cargo.descriptors:  # no letter can hold references: they are released
                lost += 1
                continue
            try:
                self._core.port.post(address, self._packer.open(cargo))
            except Exception:  # such as a value that its own sender cannot unpickle
                lost += 1
        if lost:
            notice(
                log,
                logging.WARNING,
                f"{lost} messages were on their way to {dead} when it died, and are lost: a dead "
                "letter holds no references, and its sender must be able to unpickle it",
            )

    def end(self) -> list[Future[Any]]:
        """The futures that will never be completed, as the endpoint closes. Under its lock."""
        asked = [each for _, left in self._asks.copy().values() for each in left]
        taken = [_future_of(each) for each in self.awaited()]
        self._asks.clear()
        return [future for future in (*taken, *asked, *self._made) if future is not None]

    # ---- inside

    def _patience(self, timeout: float | None) -> float:
        """The seconds that a wait may take.

        Raises `ValueError`, or the reason why the endpoint ended.
        """
        seconds = self._core.settings.timeout
        if timeout is not None:
            seconds = check_timeout(timeout, seconds)
        if self._core.closed:  # first: the system's end says more than a death in it
            self._core.check_open()
        return seconds

    def _share(
        self, to: WorkerId, replies: bool | None, rrefs: list[RRefId]
    ) -> tuple[Descriptor, ...]:
        """Lend for a request; *replies* says whether it has a reply. Fork for mail (None)."""
        context = self._core.context
        if replies is None:
            return context.fork_all(rrefs, to)
        return context.lend_all(rrefs, to, replies=replies)

    def _send(
        self,
        pack: Pack,
        move: Callable[[Cargo], list[Effect]],
        *,
        to: WorkerInfo,
        replies: bool | None = None,
        asked: Told = None,
        site: str | None = None,
        answer: Any = None,
    ) -> None:
        """Share the references in the message, and make the *move* that sends it, or undo both.

        *replies*: see `_share`. *asked* and *site* are its origin. If *answer* is a `Waiter`, this
        thread then receives until the answer is there.
        """
        core, waits, cargo = self._core, type(answer) is Waiter, pack.plain
        pressing = self._pressing.pop(threading.get_ident(), None) if self._pressing else None
        try:
            undisturbed.hold(answer.leader.poller if waits else None)
            try:
                if cargo is None:
                    cargo = pack.cargo(partial(self._share, to.id, replies))
                if asked is not None or site is not None:
                    payload: Any = cargo.payload  # nobody has seen it yet
                    origin = Origin(site, () if asked is None else asked.context)
                    force_setattr(payload, "origin", origin)
                try:
                    core.step_within(move, cargo)
                    if pressing:
                        self._delivery.press(*pressing)
                except BaseException:
                    if cargo.descriptors:
                        core.step(partial(core.context.abandon, cargo.descriptors))
                    raise
                if waits and not core.closed:
                    answer.leader.receive(answer)
            finally:
                undisturbed.release()
        except BaseException:
            if answer is not None and answer.call is not None:  # it has left
                answer.give_up()
            raise
        if answer is not None and core.closed and not answer.over:  # nobody would complete it
            core.check_open()

    def _admit(self, to: WorkerInfo, flow: Flow) -> None:
        """Refuse a dead peer, learn the address, and wait while the peer is far behind."""
        core, delivery = self._core, self._delivery
        if core.closed:
            core.check_open()
        dead = core.context.dead
        if dead.firsts or to.id not in core.peers.resolved:
            with core.lock:
                if to.id in dead:
                    how = core.context.entries.how(to.id)
                    raise WorkerDiedError(f"worker {to} died{how}; choose another one")
                core.peers.learn(to.id, to.address)
        channel = delivery.channels.get(to.id)
        if (
            channel is not None
            and not channel.asking  # half of the room of each flow is left, so no message waits
            and len(channel.unsent) + len(channel.flight) < MAX_BACKLOG
        ):
            return  # nearly always
        handler = core.in_loop()
        messages, size = delivery.load(to.id, flow)
        if messages < (MAX_UNSENT if handler else MAX_BACKLOG) and size < (
            MAX_UNSENT_BYTES if handler else MAX_BACKLOG_BYTES
        ):
            return
        if handler:  # a handler may not block
            raise OverloadedError(
                f"{to} has not taken {messages} messages and {size} bytes of {flow} from handlers "
                f"of {core.me} yet; make the handler `async`, and let it `await` something now "
                "and then while it sends, or send less"
            )
        if not self.wait_for_room(to.id, flow):
            messages, size = delivery.load(to.id, flow)
            raise OverloadedError(
                f"{messages} messages and {size} bytes of {flow} have waited for {to} for "
                f"{core.settings.timeout:g} s; {to} is stopped, cut off, or slower than {core.me}: "
                f"wait and send again, send less, or end {to}"
            )

    def _await_owner(self, to: WorkerId, seconds: float) -> None:
        """Wait while too many messages to the owner *to* are unacknowledged: a program may poll it.

        Bytes do not count, because a fetch carries none.
        """
        core, handler = self._core, self._core.in_loop()
        most = MAX_UNSENT if handler else MAX_BACKLOG

        def ready() -> bool:
            return self._delivery.load(to, "requests")[0] < most or to in core.context.dead

        if not ready() and (handler or not self._wait(ready, seconds)):
            raise OverloadedError(
                f"{most} messages or more wait for {to}, which is stopped, cut off, or slower than "
                f"{core.me}: wait and fetch again, fetch less often, or end {to}"
            )

    def _await_fetching(self) -> None:
        """Wait while futures hold too many bytes of results that nobody asks for."""
        core = self._core

        def ready() -> bool:
            return not self.unfetched.over(MAX_UNFETCHED_BYTES)

        if not core.in_loop() and not self._wait(ready, core.settings.timeout):
            raise OverloadedError(
                f"futures of {core.me} hold {self.unfetched.bytes} bytes of results, and no code "
                f"has asked for them for {core.settings.timeout:g} s; get the results, or drop the "
                "futures, before you call again"
            )

    def wait_for_room(self, to: WorkerId, flow: Flow) -> bool:
        """Wait until more may be sent to *to*; false if the system's timeout ends the wait.

        Blocks. A function's own call goes ahead sooner: the code that has filled the room may wait
        for that function.
        """
        core, seconds = self._core, self._core.settings.timeout
        nested = flow != "results" and core.pool.mine.inside
        patience = time.monotonic() + NESTED_PATIENCE

        def ready() -> bool:
            messages, size = self._delivery.load(to, flow)
            if to in core.context.dead:
                return True
            if messages >= MAX_BACKLOG or size < MAX_BACKLOG_BYTES:
                return messages < MAX_BACKLOG
            if not nested or size >= MAX_UNSENT_BYTES or time.monotonic() < patience:
                return False
            self._pressing[threading.get_ident()] = to, flow
            return True

        # A thread with a result to send keeps its place. Otherwise other jobs would make more
        # results in that place, and wait too.
        return self._wait(ready, seconds, lend=flow != "results")

    def _wait(self, ready: Callable[[], bool], seconds: float, *, lend: bool = True) -> bool:
        """Wait up to *seconds* until *ready*, or closed; whether it is. Blocks."""
        core, progress = self._core, self._delivery.progress
        end = time.monotonic() + seconds
        if not ready():
            core.check_no_step()

        def over() -> bool:
            with core.lock:
                return ready() or core.closed

        while not over() and time.monotonic() < end and core.port.call_in():
            time.sleep(0)  # in-process actors run only while the program calls in
        with core.pool.waiting() if lend else contextlib.nullcontext(), progress:
            while not over():
                left = end - time.monotonic()
                if left <= 0:
                    return False
                progress.wait(min(left, 0.1))  # finalizers make room without notifying
        return True


def _log_late(me: WorkerId, sender: WorkerId) -> None:
    notice(
        log,
        logging.WARNING,
        f"{me} dropped an answer of {sender}: nobody waits for it. It came late (give `ask` a "
        "longer timeout), or is not the first: `ask(..., answers=n)` returns a list of n answers",
    )


def _future_of(by: Any) -> Future[Any] | None:
    """The future that takes an answer which has come; None if nobody waits for it any more."""
    return by.become() if isinstance(by, Waiter) else by


def _death_of(worker: WorkerId, rref: RRefId | None, how: str) -> FarrefError:
    """The error for a wait on *worker*, or on its object *rref*; *how*: see `Tables.how`."""
    if rref is not None:
        return OwnerDiedError(
            f"{worker}, the owner of {rref}, died{how}; the value is lost: create the object again"
        )
    return WorkerDiedError(
        f"worker {worker} died before it replied{how}; the call may have run or not: call another "
        "worker if a second run does no harm"
    )
