"""The thread that runs the loop: the standby, a waiting waiter, or the helper for short work."""

from __future__ import annotations

import inspect
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from thespian.actors import ActorSystem

from farref.actors.base import leadership
from farref.actors.base.envelopes import Received
from farref.actors.base.transport import Transport

from ..waiting import eventually
from .kit import PATIENCE, running

pytestmark = pytest.mark.processes

A_WHILE = 0.05
"""Seconds: many times as long as the standby leaves the lead to others."""
LATE = 2.0
"""Seconds: on a busy machine, a thread may begin that late."""
SHORT = 0.01
"""Seconds: a pause of the standby that a test waits for."""
ROUNDING = 1e-9
"""Seconds: sums of pauses are not exact."""


class Standby:
    """A transport with a standby; it records the messages and threads of its handler."""

    def __init__(self, system: ActorSystem, context: Any) -> None:
        self.system = system
        self.transport: Transport = context._systemBase.transport
        self.loop = self.transport.loop
        self.came: list[tuple[Any, int]] = []
        self.returned: list[Any] = []
        self.handle: Callable[[Any], object] = lambda _: None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.returned.append(self.transport.run(self._handler))
        except ValueError as error:
            self.returned.append(error)

    def _handler(self, envelope: Received) -> bool:
        self.came.append((envelope.message, threading.get_ident()))
        self.handle(envelope.message)
        return bool(envelope.message != "the end")

    def tell(self, message: object) -> None:
        """Send from the program, by its own transport."""
        self.system.tell(self.transport.myAddress, message)

    def messages(self) -> list[Any]:
        return [message for message, _ in self.came]

    def by(self, message: object) -> int:
        """The thread that handled *message*."""
        eventually(lambda: message in self.messages())
        thread: int = dict(self.came)[message]
        return thread

    def leads_alone(self) -> None:
        """Soon the standby handles what comes, without another thread's help."""
        self.tell("after")
        assert self.by("after") == self.thread.ident


@pytest.fixture
def here() -> Iterator[Standby]:
    with running() as system, system.private() as context:
        endpoint = Standby(system, context)
        yield endpoint
        endpoint.transport.abort_run()
        endpoint.thread.join(PATIENCE)
        assert not endpoint.thread.is_alive()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets pauses of `leadership` by their names, in seconds."""

    def set_pauses(**seconds: float) -> None:
        for name, value in seconds.items():
            monkeypatch.setattr(leadership, name, value)

    return set_pauses


@contextmanager
def while_led(here: Standby, work: Callable[[], object]) -> Iterator[None]:
    """Another thread does *work*, once the calling one leads."""
    waiter = threading.get_ident()

    def do() -> None:
        eventually(lambda: here.loop.leadership.leader == waiter)
        work()

    thread = threading.Thread(target=do)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize("briefly", [False, True])
def test_a_waiter_is_given_what_it_waits_for(here: Standby, *, briefly: bool) -> None:
    here.tell("before")
    assert here.by("before") == here.thread.ident
    with while_led(here, lambda: here.tell("for me")):
        assert here.loop.lead(lambda: "for me" in here.messages(), PATIENCE, briefly=briefly)
    assert here.by("for me") == threading.get_ident()
    here.leads_alone()  # and no thread leads


def test_a_waiter_that_waits_in_vain(here: Standby) -> None:
    assert not here.loop.lead(lambda: False, A_WHILE)
    here.leads_alone()


def test_a_waiter_looks_when_it_is_told_to(here: Standby) -> None:
    done = threading.Event()

    def finish() -> None:
        done.set()
        here.loop.leadership.look()

    with while_led(here, finish):
        assert here.loop.lead(done.is_set, PATIENCE)


def test_a_nudge_has_the_leader_take_a_turn_whoever_leads(here: Standby) -> None:
    by: list[int] = []
    here.loop.nudge()  # before anybody takes turns: it counts, too
    here.loop.on_nudge(lambda: by.append(threading.get_ident()))
    eventually(lambda: by == [here.thread.ident])
    here.loop.nudge()
    eventually(lambda: len(by) == 2)
    with while_led(here, here.loop.nudge):
        assert here.loop.lead(lambda: len(by) == 3, PATIENCE)
    assert by[2] == threading.get_ident()


def test_a_nudge_by_the_leader_itself_counts_also_in_its_last_moment_before_sleep(
    here: Standby,
) -> None:
    """A finalizer may run anywhere in it."""
    by: list[int] = []
    here.loop.on_nudge(lambda: by.append(threading.get_ident()))
    eventually(lambda: by == [here.thread.ident])
    looked: list[int] = []

    def until() -> bool:
        looked.append(1)
        if len(looked) == 1:
            here.loop.nudge()  # the leader: it rings no bell, but looks again
        return len(by) == 2

    end = time.monotonic() + PATIENCE / 2
    assert here.loop.lead(until, PATIENCE)
    assert by[1] == threading.get_ident()
    assert time.monotonic() < end, "it slept until its wait was over"


def test_a_second_waiter_waits_beside_the_first(here: Standby) -> None:
    first, second = threading.Event(), threading.Event()
    results: list[bool] = []
    here.handle = lambda message: (first if message == 1 else second).set()

    def wait() -> None:
        results.append(here.loop.lead(first.is_set, PATIENCE))

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: not here.loop.is_leader() and here.loop.leadership.leader)
    eventually(lambda: here.loop.leadership.leader == waiting.ident)
    assert not here.loop.lead(second.is_set, PATIENCE)  # at once
    with here.loop.leadership.following():
        here.tell(1)
        waiting.join(PATIENCE)
        assert results == [True]
        here.tell(2)
        assert second.wait(PATIENCE)
        assert here.by(2) == here.thread.ident
        assert not here.loop.lead(first.is_set, PATIENCE)  # it would leave the other alone


def test_many_threads_wait_at_once(here: Standby) -> None:
    """Each waiting thread gets its message: the lead passes from thread to thread."""
    came = {(n, k): threading.Event() for n in range(6) for k in range(99)}
    here.handle = lambda message: came[message].set() if message in came else None

    def wait(number: int) -> None:
        for turn in range(99):
            event = came[number, turn]
            here.tell((number, turn))
            if not here.loop.lead(event.is_set, PATIENCE):
                with here.loop.leadership.following():
                    assert event.wait(PATIENCE), turn

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(wait, range(6)))


@pytest.mark.parametrize("how", ["by its handler", "by an abort"])
def test_the_run_ends_while_a_waiter_leads(here: Standby, how: str) -> None:
    abort = here.transport.abort_run
    with while_led(here, abort if how == "by an abort" else lambda: here.tell("the end")):
        assert not here.loop.lead(lambda: False, PATIENCE)
    here.thread.join(PATIENCE)
    assert not here.thread.is_alive()  # the standby returns the waiter's result
    assert len(here.returned) == 1
    assert not here.loop.lead(lambda: True, PATIENCE)  # no standby is left to lead for


def test_what_a_handler_raises_is_the_standbys(here: Standby) -> None:
    def fail(_: object) -> None:
        raise ValueError("a handler of ours")

    here.handle = fail
    with while_led(here, lambda: here.tell("bad")):
        assert not here.loop.lead(lambda: False, PATIENCE)
    here.thread.join(PATIENCE)
    assert [str(each) for each in here.returned] == ["a handler of ours"]


def test_an_interrupt_of_a_waiter_is_its_own(here: Standby) -> None:
    def interrupt(message: object) -> None:
        if message == "interrupt":
            raise KeyboardInterrupt

    here.handle = interrupt
    with while_led(here, lambda: here.tell("interrupt")), pytest.raises(KeyboardInterrupt):
        here.loop.lead(lambda: False, PATIENCE)
    here.leads_alone()


def test_a_waiter_deep_in_a_recursion_leaves_it_to_others(here: Standby) -> None:
    """A handler without room on its stack fails, and loses its message."""

    def dive(levels: int) -> bool:
        return dive(levels - 1) if levels else here.loop.lead(lambda: True, PATIENCE)

    room = sys.getrecursionlimit() - len(inspect.stack(0))
    assert not dive(room - 100)
    assert dive(room // 4)


def test_what_a_finalizer_sends_just_before_the_sleep(here: Standby) -> None:
    """The collector runs at any point, also between the last look and the sleep."""
    left = list(range(20))

    def collect(_frame: object, event: str, function: object) -> None:
        if event == "c_call" and getattr(function, "__name__", "") == "poll":
            here.loop.deliver_local(Received(here.transport.myAddress, left.pop()))
            if not left:
                sys.setprofile(None)

    here.handle = lambda message: sys.setprofile(collect) if message == "begin" else None
    here.tell("begin")
    eventually(lambda: len(here.came) == 21)


class Stream:
    """Time that is counted: the standby's pauses. One waiter leads after the other meanwhile.

    It is the clock of `lead`, and the condition on which the standby waits. So nothing depends on
    the speed of the machine. All of it happens in the thread that runs `Lead.stand_by`.
    """

    def __init__(self, led: leadership.Leadership, apart: float, until: float) -> None:
        """A waiter comes every *apart* seconds."""
        self.now = 0.0
        self.looks = 0
        self._led = led
        self._apart = apart
        self._until = until
        """The last waiter leaves then."""
        self._next = apart
        self._woken = False
        led._changed = self  # type: ignore[assignment]  # what the standby uses of it
        assert led.enter(yields=False)

    def clock(self) -> float:
        return self.now

    def over(self) -> bool:
        """The standby looks: the condition for which `stand_by` ends."""
        self.looks += 1
        return False

    def notify_all(self) -> None:
        """A waiter that leaves wakes the standby."""
        self._woken = True

    def wait(self, seconds: float) -> bool:
        """The standby pauses. A next waiter is faster than the standby, which wakes."""
        end, self._woken = self.now + seconds, False
        while self._next <= min(end, self._until) and not self._woken:
            self.now = self._next
            self._next += self._apart
            self._led.leave()
            assert self._led.enter(yields=False)
        if not self._woken and self._until <= end and self._led.leader:
            self.now = max(self.now, self._until)
            self._led.leave()
        if not self._woken:
            self.now = end
        return self._woken


def streamed(monkeypatch: pytest.MonkeyPatch, apart: float, until: float) -> Stream:
    """The standby stands by while waiters come, and leads when no more do."""
    led = leadership.Leadership(lambda: None)
    with led.following():  # else it leads before the first waiter comes
        pass
    stream = Stream(led, apart, until)
    monkeypatch.setattr(leadership, "perf_counter", stream.clock)
    assert led.stand_by(stream.over, None), "no waiter comes any more, so it leads"
    assert led.leader == threading.get_ident()
    return stream


def test_the_standby_looks_less_often_while_waiters_keep_coming(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once in the longest pause, after some that double. It leads soon after the last waiter."""
    until = 100 * leadership.LONGEST_PATIENCE
    stream = streamed(monkeypatch, leadership.DENSE / 4, until)
    doubled = math.ceil(math.log2(leadership.LONGEST_PATIENCE / leadership.PATIENCE))
    assert stream.looks <= 100 + doubled + 3
    assert stream.now <= until + leadership.LONGEST_PATIENCE + leadership.PATIENCE + ROUNDING


def test_the_standby_looks_often_while_waiters_come_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks when each has led for a while, and when it has left. It leads soon afterwards."""
    waiters = 50
    until = waiters * 2 * leadership.DENSE
    stream = streamed(monkeypatch, 2 * leadership.DENSE, until)
    assert stream.looks >= 2 * waiters
    assert stream.now <= until + 2 * leadership.PATIENCE + ROUNDING


# ---- brief leaders


class LeadsBriefly(threading.Thread):
    """A thread that brief leads until it is told to end, or has to leave."""

    def __init__(self, here: Standby) -> None:
        super().__init__()
        self.loop = here.loop
        self.over = threading.Event()
        self.led: bool | None = None
        self.start()
        eventually(lambda: self.loop.leadership.leader == self.ident)

    def run(self) -> None:
        self.loop.leadership.waiting.append(None)
        self.led = self.loop.lead(self.over.is_set, PATIENCE, briefly=True)
        self.loop.leadership.waiting.pop()

    def end(self) -> bool:
        """Whether it has led until its wait was over."""
        self.over.set()
        self.loop.leadership.look()
        self.join(PATIENCE)
        assert self.led is not None
        return self.led


@pytest.fixture
def long_pauses(here: Standby, pauses: Callable[..., None]) -> Iterator[None]:
    """The standby's pauses are longer than any test.

    Once another thread has led, it leads when it is told to. It also leads when it is woken, if no
    thread has led since it last looked.
    """
    eventually(lambda: here.loop.leadership.leader == here.thread.ident)
    pauses(PATIENCE=3 * PATIENCE, NAP=3 * PATIENCE)
    yield
    here.loop.leadership.crowd()


@pytest.mark.usefixtures("long_pauses")
def test_a_brief_leader_leaves_short_work_to_the_helper(here: Standby, jobs: Jobs) -> None:
    brief = LeadsBriefly(here)
    here.tell(ShortWork())
    brief.join(PATIENCE)
    assert brief.led is False
    eventually(lambda: jobs.done)
    assert not jobs.dispersed
    assert here.loop._helper is not None
    assert jobs.done == [here.loop._helper.identity]


@pytest.mark.usefixtures("long_pauses")
def test_no_brief_leader_comes_soon_after_one_that_left_early(
    here: Standby, jobs: Jobs, pauses: Callable[..., None]
) -> None:
    pauses(BRIEF_PAUSE=3 * PATIENCE)
    brief = LeadsBriefly(here)
    here.tell(ShortWork())
    brief.join(PATIENCE)
    assert not here.loop.lead(lambda: True, PATIENCE, briefly=True)
    assert here.loop.lead(lambda: True, PATIENCE), "another waiter may"
    here.loop.leadership._brief_from = 0.0  # the pause is over
    assert here.loop.lead(lambda: True, PATIENCE, briefly=True)


@pytest.mark.usefixtures("long_pauses")
def test_a_waiter_takes_over_from_a_brief_leader(here: Standby) -> None:
    brief = LeadsBriefly(here)
    assert here.loop.lead(lambda: not brief.is_alive(), PATIENCE)
    assert brief.led is False


@pytest.mark.usefixtures("long_pauses")
def test_a_second_thread_that_waits_ends_a_brief_lead(here: Standby) -> None:
    """And the standby takes over, although it is not its time."""
    brief = LeadsBriefly(here)
    here.loop.leadership.waiting.append(None)
    looks: list[None] = []
    here.loop.lead_briefly(lambda: looks.append(None), PATIENCE)
    assert not looks, "it does not lead itself"
    brief.join(PATIENCE)
    assert brief.led is False
    here.tell("for both")
    assert here.by("for both") == here.thread.ident
    here.loop.lead_briefly(lambda: False, PATIENCE)  # at once, also when there is nothing to do
    here.loop.leadership.waiting.pop()


@pytest.mark.usefixtures("long_pauses")
def test_a_thread_that_waits_while_nobody_leads(here: Standby) -> None:
    """A brief leader has just left, and will wait again, or so the standby thinks."""
    assert LeadsBriefly(here).end()
    here.loop.leadership.waiting += [None, None]
    here.loop.lead_briefly(lambda: False, PATIENCE)
    here.tell("for one of them")
    assert here.by("for one of them") == here.thread.ident


@pytest.fixture
def a_row(here: Standby, pauses: Callable[..., None]) -> None:
    """Many brief leads have followed each other, and so does the next one."""
    pauses(BRIEF_GAP=3 * PATIENCE)
    here.loop.leadership._brief_left = time.perf_counter()
    here.loop.leadership._in_a_row = leadership.MANY


@pytest.mark.usefixtures("long_pauses", "a_row")
def test_many_brief_leads_that_follow_each_other_leave_the_standby_alone(here: Standby) -> None:
    for _ in range(3):
        assert here.loop.lead(lambda: True, PATIENCE, briefly=True)
        time.sleep(A_WHILE)
        assert here.loop.leadership.leader == 0
    here.loop.leadership.call_standby()  # the function has ended
    here.leads_alone()


@pytest.mark.usefixtures("long_pauses", "a_row")
@pytest.mark.parametrize("why", ["few before it", "a gap before it", "early", "another waits"])
def test_the_standby_takes_over_after_a_brief_lead(
    here: Standby, pauses: Callable[..., None], why: str
) -> None:
    """Otherwise messages would wait for a next brief leader, and there may be none."""
    led = here.loop.leadership
    if why == "few before it":
        led._in_a_row = leadership.MANY - 2
    elif why == "a gap before it":
        pauses(BRIEF_GAP=0.0)
    if why == "early":
        assert not here.loop.lead(lambda: False, A_WHILE, briefly=True)
    else:
        brief = LeadsBriefly(here)
        if why == "another waits":
            led.waiting.append(None)
        assert brief.end()
    here.leads_alone()
    led.waiting.clear()


@pytest.mark.usefixtures("long_pauses", "a_row")
def test_work_that_comes_with_the_end_of_a_brief_lead_is_not_left_lying(
    here: Standby, jobs: Jobs
) -> None:
    """The same look at the sockets brings both."""
    over = threading.Event()

    def take(message: Any) -> None:
        jobs.offered.append(message)
        over.set()

    here.handle = take
    with while_led(here, lambda: here.tell(ShortWork())):
        assert here.loop.lead(over.is_set, PATIENCE, briefly=True)
    eventually(lambda: len(jobs.done) == 1)


@pytest.mark.usefixtures("long_pauses", "a_row")
def test_a_thread_that_may_not_lead_briefly_has_the_standby_lead(here: Standby) -> None:
    assert here.loop.lead(lambda: True, PATIENCE, briefly=True)
    here.loop.leadership._brief_from = time.perf_counter() + 3 * PATIENCE
    here.loop.leadership.waiting.append(None)
    here.loop.lead_briefly(lambda: False, PATIENCE)
    here.leads_alone()
    here.loop.leadership.waiting.pop()


# ---- the helper


class Jobs:
    """The work that messages leave, and the threads that did it."""

    def __init__(self) -> None:
        self.offered: deque[Callable[[], object]] = deque()
        self.done: list[int] = []
        self.begun = threading.Event()
        self.dispersed = 0
        self.is_patient = False
        """The standby that takes over from the helper first waits until that has begun."""

    def do(self) -> None:
        with_whom = threading.get_ident()
        if self.offered:
            work = self.offered.popleft()
            self.begun.set()
            work()
            self.done.append(with_whom)

    def disperse(self) -> None:
        if self.is_patient:
            assert self.begun.wait(PATIENCE)
        self.dispersed += len(self.offered)
        self.offered.clear()


@contextmanager
def stuck() -> Iterator[threading.Event]:
    """An event that work waits for; the end of the test sets it at the latest."""
    release = threading.Event()
    try:
        yield release
    finally:
        release.set()


@pytest.fixture
def jobs(here: Standby, pauses: Callable[..., None]) -> Jobs:
    """The standby waits that long for a helper that begins late, or as long as `long_pauses` says.

    If it takes over before, it has other threads do the work.
    """
    pauses(PATIENCE=max(leadership.PATIENCE, LATE))
    made = Jobs()
    here.handle = lambda message: made.offered.append(message) if callable(message) else None
    here.loop.work(made)
    return made


@pytest.fixture
def begun(jobs: Jobs, pauses: Callable[..., None]) -> None:
    """No work is taken from the helper before it has begun, so pauses can be short."""
    pauses(PATIENCE=SHORT)
    jobs.is_patient = True


def shorten_pauses(here: Standby, pauses: Callable[..., None]) -> None:
    """The standby's pauses are short from now on, once the helper leads: also the one it is in."""
    helper = here.loop._helper
    assert helper is not None
    eventually(lambda: here.loop.leadership.leader == helper.identity)
    pauses(PATIENCE=SHORT)
    here.loop.leadership.recheck()


class ShortWork:
    """A message that leaves short work."""

    def __call__(self) -> None: ...


class Long:
    """A message that leaves work that waits for an event of this process."""

    release: threading.Event

    def __call__(self) -> None:
        Long.release.wait(PATIENCE)


def test_the_helper_receives_and_does_the_work(
    here: Standby, jobs: Jobs, pauses: Callable[..., None]
) -> None:
    pauses(PATIENCE=PATIENCE)  # however late it wakes
    for count in range(1, 20):
        here.tell(ShortWork())
        eventually(lambda: len(jobs.done) == count)  # noqa: B023 (asked in this turn only)
    assert len(set(jobs.done)) == 1
    assert jobs.done[0] not in {here.thread.ident, threading.get_ident()}
    assert jobs.dispersed == 0
    assert {thread for _, thread in here.came[1:]} >= {jobs.done[0]}  # it has received, too


def test_the_standby_leads_a_process_at_rest(
    here: Standby, jobs: Jobs, pauses: Callable[..., None]
) -> None:
    pauses(NAP=0.05)
    here.tell(ShortWork())
    eventually(lambda: len(jobs.done) == 1)
    shorten_pauses(here, pauses)
    eventually(lambda: here.loop.leadership.leader == here.thread.ident)
    here.leads_alone()
    pauses(PATIENCE=LATE)
    here.tell(ShortWork())  # the helper can be called again
    eventually(lambda: len(jobs.done) == 2)
    assert len(set(jobs.done)) == 1


@pytest.mark.usefixtures("begun")
def test_long_work_holds_up_no_message(here: Standby, jobs: Jobs) -> None:
    with stuck() as release:
        Long.release = release
        here.tell(Long())
        eventually(lambda: not jobs.offered and here.came)
        for number in range(5):
            here.tell(number)
            assert here.by(number) == here.thread.ident
        here.tell(ShortWork())  # other threads do this one
        eventually(lambda: jobs.dispersed == 1)
        assert not jobs.done
    eventually(lambda: len(jobs.done) == 1)

    def free_again() -> bool:
        here.tell(ShortWork())  # other threads do it if the helper is not free yet
        return len(jobs.done) > 1

    eventually(free_again)


@pytest.mark.usefixtures("begun")
def test_work_that_came_with_long_work_is_done_by_others(here: Standby, jobs: Jobs) -> None:
    with stuck() as release:
        Long.release = release
        both = threading.Event()

        def leave(message: Any) -> None:
            jobs.offered.append(message)
            jobs.offered.append(ShortWork())
            both.set()

        here.handle = leave
        here.tell(Long())
        eventually(lambda: jobs.dispersed == 1)
        assert not jobs.done


def test_work_while_a_waiter_leads_is_done_by_others(
    here: Standby, jobs: Jobs, pauses: Callable[..., None]
) -> None:
    pauses(PATIENCE=SHORT)  # no helper is called
    with while_led(here, lambda: here.tell(ShortWork())):
        assert here.loop.lead(lambda: jobs.dispersed == 1, PATIENCE)


def test_a_waiter_takes_over_from_the_helper_and_gives_back(
    here: Standby, jobs: Jobs, pauses: Callable[..., None]
) -> None:
    for turn in range(5):
        here.tell(ShortWork())  # later, other threads do it if the helper wakes late
        eventually(lambda: len(jobs.done) + jobs.dispersed == turn + 1)  # noqa: B023 (asked in this turn only)
        if turn == 0:
            shorten_pauses(here, pauses)  # the helper leads
        here.tell(turn)
        assert here.loop.lead(lambda: turn in here.messages(), PATIENCE)  # noqa: B023 (asked in this turn only)
    assert jobs.done


@pytest.mark.usefixtures("begun")
def test_the_end_comes_while_work_goes_on(here: Standby, jobs: Jobs) -> None:
    with stuck() as release:
        Long.release = release
        here.tell(Long())
        eventually(lambda: here.came)
        here.tell("the end")
        here.thread.join(PATIENCE)
        assert not here.thread.is_alive()


@pytest.mark.usefixtures("begun")
def test_the_helper_waits_within_work(here: Standby, jobs: Jobs) -> None:
    """A function waits for a message, and another message brings new work before that."""
    inner: list[bool] = []

    class Waiting:
        def __call__(self) -> None:
            inner.append(here.loop.lead(lambda: "awaited" in here.messages(), PATIENCE))

    waiting = Waiting()
    here.handle = lambda message: (
        jobs.offered.append(waiting)
        if message == "wait"
        else jobs.offered.append(ShortWork())
        if message == "work"
        else None
    )
    here.tell("wait")
    eventually(lambda: here.loop.leadership.leader not in {0, here.thread.ident})
    here.tell("work")
    eventually(lambda: jobs.dispersed == 1)  # not left to a helper that waits
    here.tell("awaited")
    eventually(lambda: inner == [True])
    for number in range(20):
        here.tell(number)
        here.by(number)
