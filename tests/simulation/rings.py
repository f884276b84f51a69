"""Rings of tasks that wait for each other, in the true state of the whole world.

A task waits for one request at most. A request waits for one task at most. If the request runs, it
is the task that runs it. If not, it is the task that makes the request's object, or runs on this
object. A method of another object may have to make the object, and may not have begun: then it is
the task that makes that other object, or runs on it. So each task waits for one task at most. A
request that is under way, or held back by its caller, will wait for the same task.

* No method waits for a result of its own object. The waits show that, and not the chain of the
  request, which outlives them: if the owner of an alias passes a call on and dies, the caller goes
  on, and the call that was passed on may run later.
* A request refused for a ring waited in that ring while its probe was on the second lap.
* A ring has one victim. Its task ends, so the same tasks are in no other ring together.
* No ring lasts longer than two times `SOON`, which is much shorter than a timeout. But if none of
  its tasks waits for a queued request, no endpoint finds it, and one of its waits times out. The
  time counts only while endpoints reach each other: a probe, or the refusal, may be lost so often
  that it is under way for half a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farref.protocol.ids import CallId
from farref.protocol.messages import Create, Hop, Request, Tell, names, target_of

from .jobs import PendingRequest, Task
from .node import Node
from .oracle import Oracle, WrongError

SOON = 15.0
"""Seconds between two checks. There is none while an endpoint sleeps or is cut off, or a message is
late."""


class WaitGraph:
    """The tasks that wait for each other, and the requests that may be refused for that."""

    def __init__(
        self,
        oracle: Oracle,
        living: Callable[[], Iterable[Node]],
        late: Callable[[], bool],
    ) -> None:
        self._oracle = oracle
        self._living = living
        self._late = late
        """Whether a message has been under way for too long, as its packets were lost."""
        self._there: set[tuple[Hop, ...]] = set()
        """The ways of probes that were rings during their second lap."""
        self._broken: set[frozenset[CallId]] = set()
        """The rings that had a victim."""
        self._last: set[frozenset[CallId]] = set()
        self._check_at = SOON

    def second_lap(self, way: tuple[Hop, ...]) -> None:
        """Note that a probe has come round by *way*, and begins its second lap."""
        if self._ring(way[-1].run) == _tasks(way):
            self._there.add(way)

    def refused(self, request: Request, way: tuple[Hop, ...]) -> None:
        """Check that *request*, refused for the ring *way*, waits in it. Raises `WrongError`."""
        tasks = _tasks(way)
        if way not in self._there or self._asked_as(request.call) != way[-1].call:
            raise WrongError("G6", f"{request} is refused, but {way} was no ring")
        if tasks in self._broken:
            raise WrongError("G6", f"{request} is the second victim of {way}")
        self._broken.add(tasks)

    def answered(self, asked: PendingRequest) -> None:
        """Check that no method waits for *asked* on its own object. Raises `WrongError`."""
        if asked.on is None or not names(asked.chain, asked.on):  # nearly always
            return
        waiting = {task.waits: task for task, _ in self._tasks().values() if task.waits}
        task = asked.task
        while task is not None and not isinstance(task.request, Tell):
            if asked.on in {target_of(task.request), getattr(task.request, "rref", None)}:
                raise WrongError("G6", f"a method of {asked.on} waited for itself: {asked}")
            task = waiting.get(self._asked_as(task.request.call))

    def disturbed(self, until: float) -> None:
        """Put checks off: long waits are normal until then.

        An endpoint sleeps or is cut off, or a message was late.
        """
        self._last = set()
        self._check_at = max(self._check_at, until + SOON)

    def look(self, now: float) -> None:
        """Raise `WrongError` if a ring lasts too long although an endpoint can find it."""
        if now < self._check_at:
            return
        if self._late():
            self.disturbed(now)
            return
        self._check_at = now + SOON
        rings = {self._ring(run) for run in list(self._tasks())} - {frozenset()}
        for ring in sorted(rings & self._last, key=min):
            self._time_out(ring)
        self._last = rings

    def _time_out(self, ring: frozenset[CallId]) -> None:
        """End *ring*, which lasts too long: its least task gives up, if nothing else can end it."""
        tasks = self._tasks()
        awaited = {tasks[run][0].waits for run in ring}
        owners = (owner for node in self._living() for owner in node.context.owners.values())
        queued = {self._asked_as(each.call) for owner in owners for _, each in owner.queue.values()}
        if awaited & queued:
            raise WrongError("G6", f"a ring lasts for {SOON} s: {sorted(ring)}")
        call = tasks[min(ring)][0].waits
        for node in self._living():
            if call in node.asked:
                node.give_up(call)

    def _ring(self, run: CallId) -> frozenset[CallId]:
        """The tasks of the ring that *run* is in; empty if it is in none."""
        tasks = self._tasks()
        way, each = [run], self._after(run, tasks)
        while each is not None and each not in way:
            way.append(each)
            each = self._after(each, tasks)
        return frozenset(way if each == run else ())

    def _after(
        self, run: CallId, tasks: dict[CallId, tuple[Task, PendingRequest | None]]
    ) -> CallId | None:
        """The task that *run* waits for."""
        _, asked = tasks.get(run, (None, None))
        task = tasks[run][0] if asked is not None else None
        if task is None or asked is None or task.waits in tasks:
            return task.waits if task is not None else None
        for rref in self._oracle.turns_at(asked.on) if asked.on is not None else ():
            for call, (other, _) in tasks.items():
                makes = isinstance(other.request, Create) and other.request.rref == rref
                if makes or (
                    not isinstance(other.request, Tell) and target_of(other.request) == rref
                ):
                    return call
        return None

    def _asked_as(self, call: CallId) -> CallId:
        """The original request of *call*, which owners of aliases may have passed on."""
        for node in self._living():
            waiting = node.context.waiting.get(call)
            if waiting is not None and waiting.relay is not None:
                return self._asked_as(waiting.relay.request.call)
        return call

    def _tasks(self) -> dict[CallId, tuple[Task, PendingRequest | None]]:
        """The living endpoints' tasks and their requests. No handlers: no task waits for one."""
        return {
            task.request.call: (task, node.asked.get(task.waits) if task.waits else None)
            for node in self._living()
            for task in node.tasks
            if not isinstance(task.request, Tell)
        }


def _tasks(way: tuple[Hop, ...]) -> frozenset[CallId]:
    """The tasks among the hops: no waits of aliases, nor of requests that are held back."""
    return frozenset(hop.run for hop in way if hop.number)
