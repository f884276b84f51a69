"""The run loop: the order of an iteration, and when to sleep.

One thread runs the loop at a time; it may be one that waits for a message (:mod:`.leadership`).
The order within an iteration is chosen for the promises that depend on it:

- delivery comes before completions, so a reply that arrived together with the end of its
  sender is seen before the failure is;
- a message counts as handled when its handler has *returned*, not before;
- messages that handlers sent are written before the loop may sleep;
- completions run last, so that their messages are written in the next iteration.
"""

from __future__ import annotations

import contextlib
import math
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from functools import partial
from threading import get_ident
from time import monotonic, perf_counter, sleep
from typing import Any, Final, cast

from . import forks, framing
from ._thespian import (
    ActorAddress,
    RunExpired,
    RunHandlerResult,
    RunTerminated,
    TransmitOnly,
    WatchMessage,
    thesplog,
)
from .envelopes import Received
from .inbox import Inbox, LocalSource
from .incoming import ACK_DELAY, InConnection
from .interrupts import undisturbed
from .leadership import BRIEF_LEAD, Helper, Leadership, Work
from .listener import Listener
from .outbox import Outbox
from .outgoing import RETRY_DELAY
from .poller import Poller
from .timers import Timers

WRITE_PATIENCE: Final = 7.0  # seconds in which a leaving process writes its last messages
ACK_PATIENCE: Final = 1.0  # seconds in which it waits to hear that it was handled
STOP_PATIENCE: Final = 5.0
ROOM: Final = 300  # frames that handlers, and the functions that they call, may need
_HOLDS: Final = object()
"""The result of `_iterate` for a waiter that has got what it waited for."""


class RunLoop:
    """Receives, delivers and writes, in the thread that leads."""

    def __init__(
        self,
        *,
        me: ActorAddress,
        poller: Poller,
        inbox: Inbox,
        listener: Listener,
        outbox: Outbox,
        timers: Timers,
    ) -> None:
        self._me = me
        self._pid = forks.pid
        self.poller = poller
        self._inbox = inbox
        self._local = LocalSource()
        self._listener = listener
        self._outbox = outbox
        self._timers = timers
        self.leadership = Leadership(poller.wake)
        """Who leads; a future that a thread leads for wakes the leader by it."""
        self._handler: Any = None
        """The standby's handler, for any leader; None while no thread is in `run`."""
        self._outcome: Any = None
        """The result or error for the standby that another thread found."""
        self._helper: Helper | None = None
        self._offered: Sized = ()
        """The work for the helper."""
        self._raw: Callable[[framing.Part | bytearray, ActorAddress], object] | None = None
        inbox.raws = self._take_raws
        self._nudge: Callable[[], object] = bool  # does nothing
        self._nudged = False
        """The leader is to call `_nudge`, and has not begun."""
        self._signals: deque[object] = deque()
        self._ack_due: list[InConnection] = []
        self._ack_at = 0.0
        self._aborting = False
        self._leaving = False
        self._leave_since = 0.0
        self._stopped = False
        self._resting = False
        """The leader checks nothing more before it sleeps, but a finalizer may still run in it."""
        self._watch_pending = False
        self.rejected = 0
        """Messages that could not be unpickled."""

    # -- from any thread --------------------------------------------------------------

    def is_leader(self) -> bool:
        return self.leadership.leader == get_ident()

    def is_interrupted(self) -> bool:
        """Whether the caller, for instance a finalizer, has interrupted the leader at work.

        The leader gets no message before the caller returns.  (In a sleep, which a signal handler
        may interrupt, it does.)  Nor does any thread while this one passes the lead on.
        """
        return (self.is_leader() and not self.poller.asleep) or self.leadership.is_passed_on()

    def _is_helper(self) -> bool:
        return self._helper is not None and self._helper.identity == get_ident()

    def looks(self) -> bool:
        """Whether the calling thread, or the next leader, will check for work.

        Not the helper while another thread leads: the leader may sleep already.
        """
        leader = self.leadership.leader
        return leader == get_ident() or (not leader and self._is_helper())

    def take_raw(self, handler: Callable[[framing.Part | bytearray, ActorAddress], object]) -> None:
        """Give the data of each raw frame, with its sender, to *handler* from now on.

        Thespian does not see it.  The data may be a view that is valid until *handler* returns.
        """
        self._raw = handler

    def on_nudge(self, call: Callable[[], object]) -> None:
        """Have the leader *call* soon after each :meth:`nudge`, also an earlier one.

        It must raise nothing.
        """
        self._nudge = call
        self.nudge()

    def nudge(self) -> None:
        """See :meth:`on_nudge`.  Takes no lock: a finalizer may call it anywhere."""
        self._nudged = True
        leader = self.leadership.leader  # the next one checks before it sleeps
        if leader and (self._resting or leader != get_ident()):
            self.poller.wake()

    def work(self, work: Work) -> None:
        """Have a helper do *work* from now on; see :class:`.leadership.Helper`."""
        self._offered = work.offered
        self._helper = Helper(work, partial(self.lead, seconds=None, yields=True))

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """For a signal handler that waits: if it interrupted a sleeping leader, others may lead."""
        sleeper = self.poller.asleep
        if not (self.is_leader() and sleeper):
            yield
            return
        with self.leadership.lent():
            yield
        self.poller.asleep = sleeper

    def deliver_local(self, envelope: Received) -> None:
        """Deliver *envelope* to ourselves, after those before it."""
        self._local.append(envelope)
        self._inbox.add(self._local)
        if self._resting or not self.is_leader():
            self.poller.wake()

    def interrupt(self, message: object) -> None:
        """Like :meth:`deliver_local` for a signal handler: one append, no more."""
        self._signals.append(message)

    def abort(self, *, drain: bool) -> None:
        """End the run; with *drain* after all messages are written and confirmed."""
        self._aborting = True
        if drain and not self._leaving:
            self._leaving = True
            self._leave_since = 0.0
        self.poller.wake()

    def stop(self) -> None:
        """End the run of any thread, and all later ones.  Waits for it, but not for ever."""
        self._stopped = True
        self.poller.wake()
        self.leadership.recheck()
        if self._helper is not None:
            self._helper.end()
        deadline = monotonic() + STOP_PATIENCE
        while self.leadership.leader and not self.is_leader() and monotonic() < deadline:
            sleep(0.001)

    # -- in the running thread --------------------------------------------------------

    def run(self, handler: Any, seconds: float | None) -> Any:
        """Thespian's main loop, as in :meth:`.transport.Transport.run`: be the standby."""
        if self.is_leader():
            raise AssertionError("a handler runs its own transport")
        end = None if seconds is None else perf_counter() + seconds
        self.leadership.claim()
        self._aborting, self._outcome = False, None
        transmit_only = handler is TransmitOnly or isinstance(handler, TransmitOnly)
        self._handler = None if transmit_only else handler
        try:
            while True:
                outcome = self._iterate(handler, end, transmit_only, None)
                if outcome is not None:
                    return outcome
                self.leadership.leave()
                if not self.leadership.stand_by(self._is_over, end):
                    outcome, self._outcome = self._outcome, None
                    if isinstance(outcome, Exception):
                        raise outcome
                    return RunTerminated() if outcome is None else outcome
        finally:
            self._handler = None
            if self.is_leader():
                self.leadership.leave()

    def lead(
        self,
        until: Callable[[], object],
        seconds: float | None,
        *,
        yields: bool = False,
        briefly: bool = False,
        held: bool = False,
    ) -> bool:
        """Run the loop in the calling thread, while the standby is in :meth:`run` with a handler.

        Runs until *until* holds, for *seconds* at most, and returns whether it holds.  Also false
        if another thread leads, or must lead: then wait in another way, `Leadership.following`.
        See :mod:`.leadership` for the helper, which *yields*, and for leading *briefly*.
        *held*: the calling thread holds signals back for :attr:`poller` already (`interrupts`).
        """
        lead, me = self.leadership, get_ident()
        if self._handler is None or lead.leader == me or forks.pid != self._pid:
            return False  # a signal handler has interrupted us; a forked child has our sockets
        if not yields:  # the helper is at the beginning of its stack
            try:
                sys._getframe(max(0, sys.getrecursionlimit() - ROOM))
            except ValueError:
                pass
            else:
                return False  # the stack has no room: a `RecursionError` would end the process
        end = None if seconds is None else perf_counter() + seconds
        held = not (held or yields) and undisturbed.hold(self.poller)
        try:  # at once: a signal handler may raise anywhere
            if not lead.enter(yields=yields, briefly=briefly, patience=seconds):
                return False
            handler = self._handler
            if handler is None:
                return False
            if self._await_quietly(until, end, yields=yields):
                return True
            outcome = self._iterate(handler, end, False, until, yields=yields)
        except Exception as error:
            self._outcome = error
            return False
        else:
            if outcome is _HOLDS:
                return True
            if outcome is not None and not isinstance(outcome, RunExpired):
                self._outcome = outcome
                return False
            return bool(until())
        finally:
            try:
                if lead.leader == me:
                    left = self._inbox.ring or (not yields and self._offered)
                    urgent = bool(left) or self._outcome is not None
                    lead.leave(urgent=urgent, early=briefly and not until())
            finally:
                if held:
                    undisturbed.release()

    def lead_briefly(self, until: Callable[[], object], seconds: float) -> None:
        """For a thread that waits: run *until* that, if nobody else needs the loop.

        It may return at once, or at any time. `Leadership.waiting` counts the thread meanwhile.
        """
        lead = self.leadership
        if self._is_helper():  # it does no other work until its wait is over, so it may lead on
            self.lead(until, seconds, held=True)
        elif len(lead.waiting) > 1:
            lead.crowd()
        elif not self.lead(until, min(seconds, BRIEF_LEAD), briefly=True, held=True):
            lead.call_standby()

    def _is_over(self) -> bool:
        return self._stopped or self._outcome is not None

    def _iterate(  # noqa: PLR0915 - one iteration, in its order
        self,
        handler: Any,
        end: float | None,
        transmit_only: bool,
        until: Callable[[], object] | None,
        *,
        yields: bool = False,
    ) -> Any:
        """The result for :meth:`run`, or None if the calling thread leaves the lead.

        A waiter waits *until* something, and gets `_HOLDS` when it has come.  The standby (None)
        leaves when another thread is to lead.
        """
        polled, inbox, outbox, lead = False, self._inbox, self._outbox, self.leadership
        while not self._stopped:
            self._resting = False
            quiet = transmit_only or self._aborting
            inbox.raw = None if quiet else self._raw
            if self._nudged and not quiet:
                self._nudged = False
                self._handled(self._nudge)
            if inbox.ring and not quiet:
                result = self._deliver(handler)
                if result is not None:
                    return result
            if outbox.dirty:
                outbox.flush()
            completed = bool(outbox.finished) and self._complete()
            now = perf_counter()
            if self._listener.waits or self._ack_due:
                due = self._due()
            else:  # nearly always
                due = self._timers.heap[0][0] if self._timers.heap else math.inf
            if due <= now or self._signals or outbox.pending:
                self._tick(now)
                due = self._due()
            if transmit_only or self._aborting:
                done = self._written(now, confirmed=self._leaving)
                if self._aborting and (done or not self._leaving):
                    return RunTerminated()
                if transmit_only and done:
                    return 0
            elif until is None:
                if lead.claims > 0 or (self._helper is not None and self._helper.relieve()):
                    return None
            else:
                if not yields and self._offered and self._helper is not None:
                    if lead.brief:
                        return _HOLDS if until() else None
                    self._helper.work.disperse()
                if until():
                    return _HOLDS
                late = end is not None and now >= end  # however much there is to deliver
                if late or lead.claims > 0 or undisturbed.delayed:
                    return None
            self._resting = True
            ready_now = bool(inbox.ring) and not (transmit_only or self._aborting)
            if end is not None:
                if now >= end and polled and not ready_now:
                    return outbox.unwritten() if transmit_only else RunExpired()
                due = min(due, end)
            if ready_now or completed or (self._nudged and not quiet):
                due = now
            elif outbox.pending:
                due = min(due, now + RETRY_DELAY)
            elif self._leaving and self._leave_since:  # look again when our patience is over
                waited = now - self._leave_since
                patience = ACK_PATIENCE if waited <= ACK_PATIENCE else WRITE_PATIENCE
                due = min(due, now + patience - waited)
            ready = self.poller.wait(None if due == math.inf else max(0.0, due - now))
            if ready and not self._watch_pending:
                self._watch_pending = True
                self._take_local(WatchMessage(ready))
            polled = True
            new = bool(inbox.ring or self._nudged or outbox.dirty or outbox.finished)
            if self._signals or (not yields and self._offered):
                new = True
            if until is not None and not new and until():
                return _HOLDS  # nearly always: nothing else has come
        return RunTerminated()

    def _await_quietly(
        self, until: Callable[[], object], end: float | None, *, yields: bool
    ) -> bool:
        """Sleep, and take raw frames, as long as the loop has nothing else to do.

        Returns whether *until* holds: mostly the next frame brings that, and no iteration is
        needed.
        """
        inbox, outbox, heap = self._inbox, self._outbox, self._timers.heap
        offered = () if yields else self._offered
        inbox.raw = self._raw
        if self._nudged and not (self._stopped or self._aborting):
            self._resting = self._nudged = False
            self._handled(self._nudge)
        self._resting = True
        while not (
            self._nudged
            or inbox.ring
            or outbox.dirty
            or outbox.finished
            or offered
            or self._signals
        ):
            if until():
                return True
            if (
                outbox.pending
                or self._listener.waits
                or self._ack_due
                or self._stopped
                or self._aborting
                or self.leadership.claims
                or undisturbed.delayed
            ):
                return False
            now, due = perf_counter(), end
            if heap and (due is None or heap[0][0] < due):
                due = heap[0][0]
            if due is not None and due <= now:
                return False
            ready = self.poller.wait(None if due is None else due - now)
            if ready and not self._watch_pending:
                self._watch_pending = True
                self._take_local(WatchMessage(ready))
        return False

    def _deliver(self, handler: Callable[[Received], object] | None) -> Any:
        """Deliver up to a burst of messages. Return the result for :meth:`run`, None to go on."""
        for _ in range(framing.BURST):
            source = self._inbox.next()
            if source is None:
                return None
            if source is self._local:
                envelope = self._local.popleft()
                if type(envelope.message) is WatchMessage:
                    self._watch_pending = False
                if handler is None:
                    return envelope
                if not self._handled(handler, envelope):
                    return self._stopped_by_handler()
            else:
                connection = cast("InConnection", source)
                frame = connection.pop()
                if frame[0] == framing.RAW and self._raw is not None:
                    self._take_raws([frame[1]], connection.sender)
                    continue
                received = self._decoded(connection, frame)
                if received is None:
                    continue
                if handler is None:
                    self._mark_handled(connection, frame)
                    return received
                go_on = self._handled(handler, received)
                self._mark_handled(connection, frame)
                if not go_on:
                    return self._stopped_by_handler()
            if self._aborting:
                return None
        return None

    def _take_raws(self, frames: Sequence[bytes | bytearray], sender: ActorAddress) -> None:
        """Deliver raw frames, before which no message of their sender is waiting."""
        self._resting = False  # it was about to sleep
        outbox, raw = self._outbox, self._raw
        outbox.handling_since, outbox.handling = perf_counter(), get_ident()
        try:
            for data in frames:
                raw(data, sender)  # type: ignore[misc] # it is there: see `_iterate`
        finally:
            outbox.handling = 0
            if outbox.dirty:
                outbox.flush()

    def _handled(self, handler: Callable[..., object], *of: Received) -> object:
        outbox = self._outbox
        outbox.handling_since, outbox.handling = perf_counter(), get_ident()
        try:
            return handler(*of)
        finally:
            outbox.handling = 0
            if outbox.dirty:
                outbox.flush()

    def _stopped_by_handler(self) -> RunHandlerResult:
        self.acknowledge()  # the process may exit without running again
        return RunHandlerResult(False)

    def _decoded(self, connection: InConnection, frame: framing.Frame) -> Received | None:
        try:
            return Received(connection.sender, framing.decode(frame))
        except (Exception, SystemExit) as error:  # unpickling may run anything
            self.rejected += 1
            thesplog(
                "cannot unpickle a message from %s: %s",
                connection.sender,
                "".join(traceback.format_exception_only(error)).strip(),  # its __str__ may raise
                level=40,
                primary=True,
            )
            connection.mark_handled(frame, rejected=True)
            return None

    def _mark_handled(self, connection: InConnection, frame: framing.Frame) -> None:
        if connection.mark_handled(frame) and not connection.ack_due:
            connection.ack_due = True
            if not self._ack_due:
                self._ack_at = perf_counter() + ACK_DELAY
            self._ack_due.append(connection)

    def acknowledge(self) -> None:
        due, self._ack_due = self._ack_due, []
        for connection in due:
            connection.ack_due = False
            connection.acknowledge()

    def _complete(self) -> bool:
        """Call the callbacks of finished sends. Return whether there were any."""
        for intent, status in self._outbox.take_finished():
            intent.tx_done(status)
        return True

    def _tick(self, now: float) -> None:
        """Handle due times, and the messages of signal handlers."""
        if self._ack_due and now >= self._ack_at:
            self.acknowledge()
        if self._outbox.pending:
            self._outbox.tick()
        if self._listener.waits and self._listener.next_due <= now:
            self._listener.tick(now)
        while self._signals:
            self._take_local(self._signals.popleft())
        if self._timers.heap and self._timers.heap[0][0] <= now:
            for message in self._timers.due(now):
                self._take_local(message)

    def _take_local(self, message: object) -> None:
        self._local.append(Received(self._me, message))
        self._inbox.add(self._local)

    def _written(self, now: float, *, confirmed: bool) -> bool:
        """Whether everything is written (and *confirmed*: handled), or our patience is over."""
        if not confirmed:
            return not self._outbox.unwritten()
        if not self._leave_since:
            self._leave_since = now
            self.acknowledge()
            self._outbox.request_acks()
        # Nothing more is handled here. A peer that leaves too, and waits for our word on its last
        # message, must hear that now: we may wait for its word on ours.
        self._listener.hang_up()
        waited = now - self._leave_since
        if waited > WRITE_PATIENCE:
            return True
        if self._outbox.unwritten() or self._outbox.finished:
            return False
        return waited > ACK_PATIENCE or not self._outbox.unacked()

    def _due(self) -> float:
        """When `_tick` has work next; infinity if it has none."""
        listener, heap = self._listener, self._timers.heap
        due = listener.next_due if listener.waits else math.inf
        if heap and heap[0][0] < due:
            due = heap[0][0]
        return min(due, self._ack_at) if self._ack_due else due

    @contextlib.contextmanager
    def reading_on(self) -> Iterator[Callable[[float], None]]:
        """For the leader while it waits in a handler.

        The block gets a function that sleeps for some seconds at most, reads and writes, but
        delivers nothing and calls no callback.
        """

        def keep_reading(timeout: float) -> None:
            self._outbox.tick()
            self.poller.wait(min(timeout, RETRY_DELAY) if self._outbox.pending else timeout)

        self._outbox.flush()
        self._inbox.raw = None
        self._inbox.relax(True)
        try:
            yield keep_reading
        finally:
            self._inbox.relax(False)
