"""How an endpoint reaches its framework: post an envelope, be woken, look at the clock.

Only one thread of a process may touch a stock Thespian transport, the one that runs it (the
*mailbox thread*); the user's code runs in others. A `Port` is the door between them.
"""

from __future__ import annotations

import concurrent.futures
import heapq
import time
from typing import TYPE_CHECKING, Any, Protocol

from ..protocol.delivery import ACK_DELAY
from .futures import Future

if TYPE_CHECKING:
    from collections.abc import Callable

    from thespian.actors import ActorAddress

    from .base.loop import RunLoop
    from .endpoint import Endpoint


MAX_INBOX = 100_000
"""Messages that wait for an actor's handlers, or for a program to listen; see `Port.full`."""
MAX_INBOX_BYTES = 64 << 20
"""The same in bytes."""


class Port(Protocol):
    """What an endpoint needs of its shell. Every method may be called in any thread."""

    @property
    def runs_by_itself(self) -> bool:
        """Whether it is heard of though nobody calls in."""

    @property
    def takes_parcels(self) -> bool:
        """Whether packets may leave as parcels (see `parcels`): both ends are on our own base."""

    def post(self, address: ActorAddress, message: object) -> None:
        """Send *message* as an ordinary Thespian message, soon."""

    def wake(self) -> None:
        """Have the mailbox thread call `Endpoint.turn` soon. Takes no lock: finalizers call it."""

    def wait(self, future: concurrent.futures.Future[Any], timeout: float) -> bool:
        """Block until *future* is done, for *timeout* seconds at most; whether it is."""

    def call_in(self) -> bool:
        """Run the actors once, on a base where they run only while the program calls in.

        False on every other base, and for actors.
        """

    def given_up(self) -> None:
        """This endpoint counts as dead, and has been closed. In the mailbox thread."""

    def holds_back(self, address: ActorAddress) -> bool:
        """Whether the transport has not written yet what was last posted to *address*."""

    def largest(self) -> int:
        """Bytes that one message may have."""

    def full(self) -> bool:
        """Whether so many messages wait for the user that whoever sends more shall wait."""

    def queued(self) -> int:
        """How many wait for the user."""

    def timers(self) -> int:
        """Wakeups of this process that have not come; 0 on a base that does not tell."""


class SelfRunning(Port):
    """What every port has in common where actors run by themselves: whoever waits just waits."""

    @property
    def runs_by_itself(self) -> bool:
        return True

    @property
    def takes_parcels(self) -> bool:
        return False

    def wait(self, future: concurrent.futures.Future[Any], timeout: float) -> bool:
        # Not `concurrent.futures.wait`, which makes an event and a lock for each of many.
        try:
            concurrent.futures.Future.exception(future, timeout)
        except TimeoutError:
            return future.done()
        except concurrent.futures.CancelledError:
            pass
        return True

    def call_in(self) -> bool:
        return False


def lead_until(loop: RunLoop, future: concurrent.futures.Future[Any], timeout: float) -> bool:
    """Run *loop* in the calling thread until *future* is done; whether it is.

    False at once if another thread runs it and goes on.
    """
    if not isinstance(future, Future):
        return False

    def look(_: object) -> None:
        if not loop.is_runner():  # nearly always it is that thread that brings the outcome
            loop.look()

    def done() -> bool:
        # Here, where no signal handler raises: it would leave the future's lock taken, for ever.
        future.tell(look)
        return future.done()

    return loop.lead(done, timeout)


class Alarm:
    """The wakeups for everything that an endpoint waits for. In the mailbox thread only.

    Thespian's cannot be cancelled, and one that nobody needs any more rings all the same. So this
    counts on each that it has asked for: one that rings early enough is used again, and another
    is asked for only if it is to ring before all of them. There are as many as different pauses.
    """

    def __init__(self, nudge_after: Callable[[float], None]) -> None:
        """*nudge_after* has a wakeup with a `Nudge` come after so many seconds."""
        self._nudge_after = nudge_after
        self._due: list[float] = []
        """A heap: when each of them will ring."""

    @property
    def due(self) -> tuple[float, ...]:
        """When each wakeup rings that has been asked for, on the clock of `time.monotonic`."""
        return tuple(self._due)

    def rang(self) -> None:
        """A wakeup has come: the first of those asked for."""
        if self._due:
            heapq.heappop(self._due)

    def set(self, endpoint: Endpoint) -> None:
        """Have one come when *endpoint* has something to do."""
        now = time.monotonic()
        if self._due and self._due[0] <= now + ACK_DELAY:
            return  # nothing can be due sooner than that
        pause = endpoint.pause()
        if pause is None:
            return
        due = now + max(pause, 0.005)
        if not self._due or due < self._due[0] - 0.01:
            heapq.heappush(self._due, due)
            self._nudge_after(max(pause, 0.005))
