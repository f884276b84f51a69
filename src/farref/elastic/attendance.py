"""One node's attendance at one run: a thread polls the state, sends heartbeats, stores changes.

The state is shared by compare-and-set. An `Attendant` decides the next state; this module does its
input and output. One thread alone calls the backend, and each caller waits for that thread with its
own deadline. So a backend that never answers (a stopped process, a stranger on the port, a library
that ignores signals) costs its caller only the timeout and a named error. All times are from this
machine's monotonic clock.

    caller                    thread                          backend
    join() ----------------> begin, poll, store, poll ... --> get_state, set_state
      waits <---- outcome -- the round is formed
    view() <---------------- the state, as of the last poll (at most a second ago)

A node that waits for a round polls often; a node in a round polls once a second. A node leaves when
its program ends, also by a signal that Python turns into an exception.
"""

from __future__ import annotations

import atexit
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from ..printable import logger
from ..protocol.errors import RendezvousConnectionError, RendezvousError, RendezvousStateError
from ..protocol.ids import WorkerId
from ..protocol.rendezvous.attendant import Attendant
from ..protocol.rendezvous.codec import decode, encode
from ..protocol.rendezvous.limits import RoundLimits, Timeouts
from ..protocol.rendezvous.state import Membership, State
from .api import RendezvousBackend
from .network import start_thread

T = TypeVar("T")

log = logger(__name__)

LOOK = 1.0
"""Seconds between two polls by a node that is in a round."""

REFUSED = 20
"""A node gives up storing the first state after so many answers in a row that nothing is stored."""

Change = Callable[["State | None"], "State | None"]
"""Returns the state to store, given the stored one; None to leave it unchanged."""


class Attendance:
    """Thread-safe. It starts its thread with the first request, and has none after the end."""

    def __init__(
        self,
        node: WorkerId,
        backend: RendezvousBackend,
        limits: RoundLimits,
        timeouts: Timeouts,
        *,
        order: int | None = None,
    ) -> None:
        self.node = node
        self.membership: Membership | None = None
        """Its membership in its last round."""
        self._backend = backend
        self._timeouts = timeouts
        self._attendant = Attendant(node, limits, timeouts, time.monotonic(), order=order)
        self._wake = threading.Condition()
        self._requests: deque[tuple[Change, Future[State]]] = deque()
        self._nothing = State(limits)
        self._wanted: tuple[float, str, Future[Membership]] | None = None
        """The request for a round, until the thread takes it: its time, and this node's address."""
        self._joining: Future[Membership] | None = None
        """The request that the thread has taken."""
        self._seen: State | None = None
        """The stored state, as of the last poll."""
        self._heard = 0.0
        """The time of that poll."""
        self._failing: tuple[float, type[RendezvousError], str] | None = None
        """The time of the first failed poll, and the last error as text (an error holds frames)."""
        self._present = False
        """Whether to poll and to send heartbeats; else the thread only serves requests."""
        self._thread: threading.Thread | None = None

    # ---- for callers

    def join(self, address: str) -> Membership:
        """Meet the others in a round after the last one; they reach this node by *address*.

        Raises `RendezvousError`; then this node is not in the run.
        """
        found: Future[Membership] = Future()
        with self._wake:
            self._started()
            self._failing, self._present = None, True
            self._wanted = time.monotonic(), address, found
        try:
            # The thread keeps the deadline, unless the backend keeps the thread.
            late = self._timeouts.join + self._timeouts.heartbeat
            return self._result(found, late, f"{self.node} waited for a round")
        except BaseException:
            self.abandon()
            raise
        finally:
            del found, self  # an error's traceback holds this frame

    def view(self) -> State:
        """The state, at most some seconds old.

        Raises `RendezvousError` if it is corrupt, or if it could not be read for the time that a
        node may be silent.
        """
        with self._wake:
            if self._present and self._thread is not None and self._seen is not None:
                # After a pause of this whole process there has just been no time for a poll.
                if self._failing is None and not self._wake.wait_for(
                    self._is_informed, self._timeouts.heartbeat
                ):
                    late = self._unanswered("the state was not read")
                    self._failing = (self._heard, type(late), str(late))
                if self._failing is None:
                    return self._seen
                since, kind, said = self._failing
                if time.monotonic() - since < self._timeouts.silence:
                    return self._seen
                raise kind(said)
        return self.change(lambda _: None, self._timeouts.heartbeat, "reading the state")

    def close(self) -> None:
        """Close the run. Raises `RendezvousError`."""
        self.change(self._attendant.close, self._timeouts.close, "closing the run")

    def end(self, *, close: bool) -> None:
        """Leave. With *close*, close the run first, if this node takes part in it."""

        def gone(stored: State | None) -> State | None:
            if stored is None or stored.seat(self.node) is None:
                return None
            return self._attendant.leave(self._attendant.close(stored) if close else stored)

        with self._wake:
            self._present, self._wanted = False, None
        self.change(gone, self._timeouts.close if close else self._timeouts.heartbeat, "leaving")

    def change(self, change: Change, timeout: float, what: str) -> State:
        """Apply *change* to the stored state. Return the state that is then stored."""
        done: Future[State] = Future()
        with self._wake:
            self._started()
            self._requests.append((change, done))
        try:
            return self._result(done, timeout, what)
        finally:
            del done, self  # an error's traceback holds this frame

    def _result(self, done: Future[T], seconds: float, what: str) -> T:
        end = time.monotonic() + seconds
        try:
            while not done.done():
                left = end - time.monotonic()
                if left <= 0:
                    raise self._unanswered(what)
                # Another thread may take a signal, so wake up now and then to run its handler here.
                wait((done,), min(left, 0.5))
            return done.result()
        finally:
            del done, self  # as above

    def abandon(self) -> None:
        """Leave soon, without waiting for it."""

        def left(stored: State | None) -> State | None:
            return self._attendant.leave(stored) if stored is not None else None

        with self._wake:
            if self._present:
                self._present, self._wanted = False, None
                self._requests.append((left, Future()))
                self._wake.notify_all()

    # ---- with the lock held

    def _is_informed(self) -> bool:
        """Whether there was an answer while a node may be silent, or an error."""
        return self._failing is not None or time.monotonic() - self._heard < self._timeouts.silence

    def _started(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = start_thread(f"farref-rendezvous-{self.node}", self._run)
            # Not sooner: exit handlers run in reverse order, so the backend ends after this.
            atexit.register(self._leave_at_exit)
        self._wake.notify_all()

    def _unanswered(self, what: str) -> RendezvousError:
        if self._failing is not None:
            _, kind, said = self._failing
            return kind(said)
        return RendezvousConnectionError(
            f"{what}: {self._backend.name} did not answer in time; check that it runs, and that "
            "the address is right"
        )

    def _leave_at_exit(self) -> None:
        """Leave when the program ends, so that the others need not give this node up."""
        if self._thread is None or not self._thread.is_alive():
            return  # this is a fork of its process
        try:
            self.end(close=False)
        except RendezvousError as error:
            log.warning("%s could not leave its rendezvous: %s", self.node, error)

    # ---- the thread

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._requests and not self._present:
                    self._thread = None
                    atexit.unregister(self._leave_at_exit)
                    return
                request = self._requests.popleft() if self._requests else None
                wanted, self._wanted = self._wanted, None
            if wanted is not None:
                since, address, self._joining = wanted
                self._attendant.begin(since, address=address)
            if request is not None:
                self._serve(*request)
            else:
                self._attend()
                with self._wake:
                    if self._idle():
                        self._wake.wait(self._pause())

    def _idle(self) -> bool:
        return self._present and self._wanted is None and not self._requests

    def _serve(self, change: Change, done: Future[State]) -> None:
        try:
            done.set_result(self._stored(change))
        except BaseException as error:  # for the caller
            done.set_exception(error)
        finally:
            del change, done, self  # an error's traceback holds this frame

    def _attend(self) -> None:
        outcome: Membership | BaseException | None = None

        def look(stored: State | None) -> State:
            nonlocal outcome
            decision = self._attendant.look(stored, time.monotonic())
            outcome = decision.outcome
            return decision.state

        joining = self._attendant.joining
        try:
            seen = self._stored(look)
        except Exception as error:
            outcome = self._failed(error)
        else:
            with self._wake:
                self._seen, self._heard, self._failing = seen, time.monotonic(), None
                self._wake.notify_all()
        if joining and outcome is not None:
            self._resolve(outcome)

    def _failed(self, error: Exception) -> Exception | None:
        """The outcome of a failed poll: None for some time if the backend may recover.

        `view` raises the error after the time that a node may be silent, or else at once.
        """
        now, kind, said = time.monotonic(), type(error), str(error)
        if not issubclass(kind, RendezvousError):
            kind, said = RendezvousError, f"{kind.__name__} in {self._backend.name}: {said}"
        may_recover = isinstance(error, RendezvousConnectionError)
        with self._wake:
            before = self._failing
            since = now - self._timeouts.silence
            if may_recover:
                since = now if before is None else before[0]
            self._failing = since, kind, said
        if before is None:
            more = ", and is tried again" if may_recover else ""
            log.warning("the rendezvous of %s failed%s: %s", self.node, more, said)
        patience = min(self._timeouts.silence, self._timeouts.join)
        return error if now - since >= patience else None

    def _resolve(self, outcome: Membership | BaseException) -> None:
        if isinstance(outcome, Membership | RendezvousError):
            self._attendant.resolved(outcome)
        joining, self._joining = self._joining, None
        if isinstance(outcome, Membership):
            self.membership = outcome
        if joining is None:
            return  # its caller has that error already
        if isinstance(outcome, Membership):
            joining.set_result(outcome)
        else:
            joining.set_exception(outcome)

    def _pause(self) -> float:
        pause = self._attendant.pause(time.monotonic())
        if self._failing is not None:
            return min(LOOK, self._timeouts.keep_alive)
        if not self._attendant.joining:
            return min(pause, LOOK, self._timeouts.keep_alive)
        # All nodes together poll a few hundred times a second, however many there are.
        here = 1 if self._seen is None else len(self._seen.seats())
        return min(pause, LOOK, 0.05 + 0.003 * here) * random.uniform(0.7, 1.0)  # noqa: S311 - it only spreads load

    def _stored(self, change: Change) -> State:
        """Apply *change*, again while other nodes are faster. Return the state then stored."""
        found = self._backend.get_state()
        faster = refused = 0
        while True:
            stored = None if found is None else decode(found[0])
            wanted = change(stored)
            if wanted is None or wanted == (stored or self._nothing):
                return stored or self._nothing
            answer = self._backend.set_state(encode(wanted), found[1] if found else None)
            if answer is not None and answer[2]:
                return wanted
            # Nothing is stored, and this did not store it. The state may have been removed just
            # now, but not every time.
            refused = refused + 1 if answer is None and found is None else 0
            if refused == REFUSED:
                raise RendezvousStateError(
                    f"{self._backend.name} keeps no state: its set_state answered None {REFUSED} "
                    "times in a row, when nothing was stored. It must store the state, and return "
                    "(state, token, True)"
                )
            found = self._backend.get_state() if answer is None else (answer[0], answer[1])
            faster = min(faster + 1, 6)
            time.sleep(random.uniform(0, 0.001 * 2**faster))  # noqa: S311 - the same
