"""The thread that runs the loop: the resident, a waiting guest, or the aide for short work."""

from __future__ import annotations

import inspect
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from thespian.actors import ActorSystem

from farref.actors.base import lead
from farref.actors.base.envelopes import Received
from farref.actors.base.poller import Poller
from farref.actors.base.transport import Transport

from ..waiting import eventually
from .kit import PATIENCE, running

pytestmark = pytest.mark.processes

A_WHILE = 0.05
"""Seconds: many times as long as the resident leaves the lead to others."""
LATE = 2.0
"""Seconds: on a busy machine, a thread may begin that late."""
SHORT = 0.01
"""Seconds: a pause of the resident that a test waits for."""
ROUNDING = 1e-9
"""Seconds: sums of pauses are not exact."""


class Residence:
    """A transport with a resident; it records the messages and threads of its handler."""

    def __init__(self, system: ActorSystem, context: Any) -> None:
        self.system = system
        self.transport: Transport = context._systemBase.transport
        self.loop = self.transport.loop
        self.came: list[tuple[Any, int]] = []
        self.returned: list[Any] = []
        self.handle: Callable[[Any], object] = lambda _: None
        self.resident = threading.Thread(target=self._run)
        self.resident.start()

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


@pytest.fixture
def here() -> Iterator[Residence]:
    with running() as system, system.private() as context:
        endpoint = Residence(system, context)
        yield endpoint
        endpoint.transport.abort_run()
        endpoint.resident.join(PATIENCE)
        assert not endpoint.resident.is_alive()


def while_led(here: Residence, work: Callable[[], object]) -> threading.Thread:
    """Have another thread do *work*, once the calling one leads."""
    guest = threading.get_ident()

    def do() -> None:
        eventually(lambda: here.loop.lead_of.leader == guest)
        work()

    thread = threading.Thread(target=do)
    thread.start()
    return thread


def test_a_guest_is_given_what_it_waits_for(here: Residence) -> None:
    here.tell("before")
    assert here.by("before") == here.resident.ident
    telling = while_led(here, lambda: here.tell("for the guest"))
    assert here.loop.lead(lambda: "for the guest" in here.messages(), PATIENCE)
    assert here.by("for the guest") == threading.get_ident()
    telling.join()
    here.tell("after")  # and no thread leads
    assert here.by("after") == here.resident.ident


def test_a_guest_that_waits_in_vain(here: Residence) -> None:
    assert not here.loop.lead(lambda: False, A_WHILE)
    here.tell("after")
    assert here.by("after") == here.resident.ident


def test_a_guest_looks_when_it_is_told_to(here: Residence) -> None:
    done = threading.Event()

    def finish() -> None:
        done.set()
        here.loop.lead_of.look()

    finishing = while_led(here, finish)
    assert here.loop.lead(done.is_set, PATIENCE)
    finishing.join()


def test_a_nudge_has_the_leader_take_a_turn_whoever_leads(here: Residence) -> None:
    by: list[int] = []
    here.loop.nudge()  # before anybody takes turns: it counts, too
    here.loop.take_turns(lambda: by.append(threading.get_ident()))
    eventually(lambda: by == [here.resident.ident])
    here.loop.nudge()
    eventually(lambda: len(by) == 2)
    nudging = while_led(here, here.loop.nudge)
    assert here.loop.lead(lambda: len(by) == 3, PATIENCE)
    nudging.join()
    assert by[2] == threading.get_ident()


def test_a_nudge_by_the_leader_itself_counts_also_in_its_last_moment_before_sleep(
    here: Residence,
) -> None:
    """A finalizer may run anywhere in it."""
    by: list[int] = []
    here.loop.take_turns(lambda: by.append(threading.get_ident()))
    eventually(lambda: by == [here.resident.ident])
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


def test_a_second_guest_waits_beside_the_first(here: Residence) -> None:
    first, second = threading.Event(), threading.Event()
    results: list[bool] = []
    here.handle = lambda message: (first if message == 1 else second).set()

    def wait() -> None:
        results.append(here.loop.lead(first.is_set, PATIENCE))

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: not here.loop.is_runner() and here.loop.lead_of.leader)
    eventually(lambda: here.loop.lead_of.leader == waiting.ident)
    assert not here.loop.lead(second.is_set, PATIENCE)  # at once
    with here.loop.beside():
        here.tell(1)
        waiting.join(PATIENCE)
        assert results == [True]
        here.tell(2)
        assert second.wait(PATIENCE)
        assert here.by(2) == here.resident.ident
        assert not here.loop.lead(first.is_set, PATIENCE)  # it would leave the other alone


def test_many_threads_wait_at_once(here: Residence) -> None:
    """Each waiting thread gets its message: the lead passes from thread to thread."""
    came: dict[Any, threading.Event] = {
        (n, k): threading.Event() for n in range(6) for k in range(99)
    }
    here.handle = lambda message: came[message].set() if message in came else None
    failures: list[tuple[int, int]] = []

    def wait(number: int) -> None:
        for turn in range(99):
            event = came[number, turn]
            here.tell((number, turn))
            if not here.loop.lead(event.is_set, PATIENCE):
                with here.loop.beside():
                    if not event.wait(PATIENCE):
                        failures.append((number, turn))

    threads = [threading.Thread(target=wait, args=(n,)) for n in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(3 * PATIENCE)
    assert not failures
    assert not any(each.is_alive() for each in threads)


def test_the_end_comes_while_a_guest_leads(here: Residence) -> None:
    telling = while_led(here, lambda: here.tell("the end"))
    assert not here.loop.lead(lambda: False, PATIENCE)
    telling.join()
    here.resident.join(PATIENCE)
    assert not here.resident.is_alive()  # the resident returns the guest's result
    assert len(here.returned) == 1
    assert not here.loop.lead(lambda: True, PATIENCE)  # no resident is left to lead for


def test_the_run_is_aborted_while_a_guest_leads(here: Residence) -> None:
    aborting = while_led(here, here.transport.abort_run)
    assert not here.loop.lead(lambda: False, PATIENCE)
    aborting.join()
    here.resident.join(PATIENCE)
    assert not here.resident.is_alive()


def test_what_a_handler_raises_is_the_residents(here: Residence) -> None:
    def fail(_: object) -> None:
        raise ValueError("a handler of ours")

    here.handle = fail
    telling = while_led(here, lambda: here.tell("bad"))
    assert not here.loop.lead(lambda: False, PATIENCE)
    telling.join()
    here.resident.join(PATIENCE)
    assert [str(each) for each in here.returned] == ["a handler of ours"]


def test_an_interrupt_of_a_guest_is_its_own(here: Residence) -> None:
    def interrupt(message: object) -> None:
        if message == "interrupt":
            raise KeyboardInterrupt

    here.handle = interrupt
    telling = while_led(here, lambda: here.tell("interrupt"))
    with pytest.raises(KeyboardInterrupt):
        here.loop.lead(lambda: False, PATIENCE)
    telling.join()
    here.tell("after")
    assert here.by("after") == here.resident.ident


def test_a_guest_deep_in_a_recursion_leaves_it_to_others(here: Residence) -> None:
    """A handler without room on its stack fails, and loses its message."""

    def dive(levels: int) -> bool:
        return dive(levels - 1) if levels else here.loop.lead(lambda: True, PATIENCE)

    room = sys.getrecursionlimit() - len(inspect.stack(0))
    assert not dive(room - 100)
    assert dive(room // 4)


def test_what_a_finalizer_sends_just_before_the_sleep(
    here: Residence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector runs at any point, also between the last look and the sleep."""
    left = ["of a finalizer"]
    sleep = Poller.wait

    def collecting(poller: Poller, timeout: float | None) -> list[int]:
        if poller is here.loop.poller and left:
            here.loop.deliver_local(Received(here.transport.myAddress, left.pop()))
        return sleep(poller, timeout)

    time.sleep(3 * A_WHILE)  # until nothing is due
    monkeypatch.setattr(Poller, "wait", collecting)
    here.loop.lead_of.look()
    assert here.by("of a finalizer") == here.resident.ident


class Stream:
    """Time that is counted: the resident's pauses. One guest leads after the other meanwhile.

    It is the clock of `lead`, and the condition on which the resident waits. So nothing depends on
    the speed of the machine. All of it happens in the thread that runs `Lead.stand_by`.
    """

    def __init__(self, led: lead.Lead, apart: float, until: float) -> None:
        """A guest comes every *apart* seconds."""
        self.now = 0.0
        self.looks = 0
        self._led = led
        self._apart = apart
        self._until = until
        """The last guest leaves then."""
        self._next = apart
        self._woken = False
        led._changed = self  # type: ignore[assignment]  # what the resident uses of it
        assert led.enter(yields=False)

    def clock(self) -> float:
        return self.now

    def over(self) -> bool:
        """The resident looks: the condition for which `stand_by` ends."""
        self.looks += 1
        return False

    def notify_all(self) -> None:
        """A guest that leaves wakes the resident."""
        self._woken = True

    def wait(self, seconds: float) -> bool:
        """The resident pauses. A next guest is faster than the resident, which wakes."""
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
    """The resident stands by while guests come, and leads when no more do."""
    led = lead.Lead(lambda: None)
    with led.beside():  # else it leads before the first guest comes
        pass
    stream = Stream(led, apart, until)
    monkeypatch.setattr(lead, "perf_counter", stream.clock)
    assert led.stand_by(stream.over, None), "no guest comes any more, so it leads"
    assert led.leader == threading.get_ident()
    return stream


def test_the_resident_looks_less_often_while_guests_keep_coming(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once in the longest pause, after some that double. It leads soon after the last guest."""
    until = 100 * lead.LONGEST_PATIENCE
    stream = streamed(monkeypatch, lead.DENSE / 4, until)
    doubled = math.ceil(math.log2(lead.LONGEST_PATIENCE / lead.PATIENCE))
    assert stream.looks <= 100 + doubled + 3
    assert stream.now <= until + lead.LONGEST_PATIENCE + lead.PATIENCE + ROUNDING


def test_the_resident_looks_often_while_guests_come_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks when each has led for a while, and when it has left. It leads soon afterwards."""
    guests = 50
    until = guests * 2 * lead.DENSE
    stream = streamed(monkeypatch, 2 * lead.DENSE, until)
    assert stream.looks >= 2 * guests
    assert stream.now <= until + 2 * lead.PATIENCE + ROUNDING


# ---- visitors


class Visiting(threading.Thread):
    """A thread that visits until it is told to end, or has to leave."""

    def __init__(self, here: Residence) -> None:
        super().__init__()
        self.loop = here.loop
        self.over = threading.Event()
        self.led: bool | None = None
        self.start()
        eventually(lambda: self.loop.lead_of.leader == self.ident)

    def run(self) -> None:
        self.loop.lead_of.waiting.append(None)
        self.led = self.loop.lead(self.over.is_set, PATIENCE, visits=True)
        self.loop.lead_of.waiting.pop()

    def end(self) -> bool:
        """Whether it has led until its wait was over."""
        self.over.set()
        self.loop.lead_of.look()
        self.join(PATIENCE)
        assert self.led is not None
        return self.led


@pytest.fixture
def long_pauses(here: Residence, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The resident's pauses are longer than any test.

    Once another thread has led, it leads when it is told to. It also leads when it is woken, if no
    thread has led since it last looked.
    """
    eventually(lambda: here.loop.lead_of.leader == here.resident.ident)
    monkeypatch.setattr(lead, "PATIENCE", 3 * PATIENCE)
    monkeypatch.setattr(lead, "NAP", 3 * PATIENCE)
    yield
    here.loop.lead_of.crowd()


def test_a_visitor_receives_as_other_guests_do(here: Residence) -> None:
    telling = while_led(here, lambda: here.tell("for the visitor"))
    assert here.loop.lead(lambda: "for the visitor" in here.messages(), PATIENCE, visits=True)
    assert here.by("for the visitor") == threading.get_ident()
    telling.join()


@pytest.mark.usefixtures("long_pauses")
def test_a_visitor_leaves_short_work_to_the_aide(here: Residence, jobs: Jobs) -> None:
    visiting = Visiting(here)
    here.tell(ShortWork())
    visiting.join(PATIENCE)
    assert visiting.led is False
    eventually(lambda: jobs.done)
    assert not jobs.dispersed
    assert here.loop._aide is not None
    assert jobs.done == [here.loop._aide.identity]


@pytest.mark.usefixtures("long_pauses")
def test_no_visitor_comes_soon_after_one_that_left_early(
    here: Residence, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lead, "VISIT_PAUSE", 3 * PATIENCE)
    visiting = Visiting(here)
    here.tell(ShortWork())
    visiting.join(PATIENCE)
    assert not here.loop.lead(lambda: True, PATIENCE, visits=True)
    assert here.loop.lead(lambda: True, PATIENCE), "another guest may"
    here.loop.lead_of._visits_from = 0.0  # the pause is over
    assert here.loop.lead(lambda: True, PATIENCE, visits=True)


@pytest.mark.usefixtures("long_pauses")
def test_a_guest_takes_over_from_a_visitor(here: Residence) -> None:
    visiting = Visiting(here)
    assert here.loop.lead(lambda: not visiting.is_alive(), PATIENCE)
    assert visiting.led is False


@pytest.mark.usefixtures("long_pauses")
def test_a_second_thread_that_waits_ends_a_visit(here: Residence) -> None:
    """And the resident takes over, although it is not its time."""
    visiting = Visiting(here)
    here.loop.lead_of.waiting.append(None)
    looks: list[None] = []
    here.loop.visit(lambda: looks.append(None), PATIENCE)
    assert not looks, "it does not lead itself"
    visiting.join(PATIENCE)
    assert visiting.led is False
    here.tell("for both")
    assert here.by("for both") == here.resident.ident
    here.loop.visit(lambda: False, PATIENCE)  # at once, also when there is nothing to do
    here.loop.lead_of.waiting.pop()


@pytest.mark.usefixtures("long_pauses")
def test_a_thread_that_waits_while_nobody_leads(here: Residence) -> None:
    """A visitor has just left, and will wait again, or so the resident thinks."""
    assert Visiting(here).end()
    here.loop.lead_of.waiting += [None, None]
    here.loop.visit(lambda: False, PATIENCE)
    here.tell("for one of them")
    assert here.by("for one of them") == here.resident.ident


@pytest.fixture
def a_row(here: Residence, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many visits have followed each other, and so does the next one."""
    monkeypatch.setattr(lead, "VISIT_GAP", 3 * PATIENCE)
    here.loop.lead_of._visit_over = time.perf_counter()
    here.loop.lead_of._row = lead.MANY


@pytest.mark.usefixtures("long_pauses", "a_row")
def test_many_visits_that_follow_each_other_leave_the_resident_alone(here: Residence) -> None:
    for _ in range(3):
        assert here.loop.lead(lambda: True, PATIENCE, visits=True)
        time.sleep(A_WHILE)
        assert here.loop.lead_of.leader == 0
    here.loop.lead_of.offer()  # the function has ended
    here.tell("after")
    assert here.by("after") == here.resident.ident


@pytest.mark.usefixtures("long_pauses", "a_row")
@pytest.mark.parametrize("why", ["few", "a gap"])
def test_the_resident_takes_over_between_visits(
    here: Residence, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Else messages would wait for a next visit, and there may be none."""
    if why == "few":
        here.loop.lead_of._row = lead.MANY - 2
    else:
        monkeypatch.setattr(lead, "VISIT_GAP", 0.0)
    assert Visiting(here).end()
    here.tell("after")
    assert here.by("after") == here.resident.ident


@pytest.mark.usefixtures("long_pauses", "a_row")
def test_the_resident_takes_over_from_a_visitor_that_leaves_early(here: Residence) -> None:
    assert not here.loop.lead(lambda: False, A_WHILE, visits=True)
    here.tell("after")
    assert here.by("after") == here.resident.ident


@pytest.mark.usefixtures("long_pauses", "a_row")
def test_the_resident_takes_over_if_another_thread_waits(here: Residence) -> None:
    visiting = Visiting(here)
    here.loop.lead_of.waiting.append(None)
    assert visiting.end()
    here.tell("after")
    assert here.by("after") == here.resident.ident
    here.loop.lead_of.waiting.pop()


@pytest.mark.usefixtures("long_pauses", "a_row")
def test_work_that_comes_with_the_end_of_a_visit_is_not_left_lying(
    here: Residence, jobs: Jobs
) -> None:
    """The same look at the sockets brings both."""
    over = threading.Event()

    def take(message: Any) -> None:
        jobs.offered.append(message)
        over.set()

    here.handle = take
    telling = while_led(here, lambda: here.tell(ShortWork()))
    assert here.loop.lead(over.is_set, PATIENCE, visits=True)
    telling.join()
    eventually(lambda: len(jobs.done) == 1)


@pytest.mark.usefixtures("long_pauses", "a_row")
def test_a_thread_that_may_not_visit_has_the_resident_lead(
    here: Residence, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here.loop.lead(lambda: True, PATIENCE, visits=True)
    here.loop.lead_of._visits_from = time.perf_counter() + 3 * PATIENCE
    here.loop.lead_of.waiting.append(None)
    here.loop.visit(lambda: False, PATIENCE)
    here.tell("after")
    assert here.by("after") == here.resident.ident
    here.loop.lead_of.waiting.pop()


# ---- the aide


class Jobs:
    """The work that messages leave, and the threads that did it."""

    def __init__(self) -> None:
        self.offered: deque[Callable[[], object]] = deque()
        self.done: list[int] = []
        self.begun = threading.Event()
        self.dispersed = 0

    def do(self) -> None:
        with_whom = threading.get_ident()
        if self.offered:
            work = self.offered.popleft()
            self.begun.set()
            work()
            self.done.append(with_whom)

    def disperse(self) -> None:
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
def jobs(here: Residence, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The resident waits that long for an aide that begins late, or as long as `long_pauses` says.

    If it takes over before, it has other threads do the work.
    """
    monkeypatch.setattr(lead, "PATIENCE", max(lead.PATIENCE, LATE))
    made = Jobs()
    here.handle = lambda message: made.offered.append(message) if callable(message) else None
    here.loop.work(made)
    return made


@pytest.fixture
def begun(here: Residence, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resident leads until the aide has begun the work, however late that is.

    So its pauses can be short, and each is in the time of the work.
    """
    monkeypatch.setattr(lead, "PATIENCE", SHORT)
    aide = here.loop._aide
    assert aide is not None
    relieve = aide.relieve

    def and_wait() -> bool:
        jobs.begun.clear()
        return relieve() and jobs.begun.wait(PATIENCE)

    monkeypatch.setattr(aide, "relieve", and_wait)


def shorten_pauses(here: Residence, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resident's pauses are short from now on, once the aide leads: also the one it is in."""
    aide = here.loop._aide
    assert aide is not None
    eventually(lambda: here.loop.lead_of.leader == aide.identity)
    monkeypatch.setattr(lead, "PATIENCE", SHORT)
    here.loop.lead_of.tell()


class ShortWork:
    """A message that leaves short work."""

    def __call__(self) -> None: ...


class Long:
    """A message that leaves work that waits for an event of this process."""

    release: threading.Event

    def __call__(self) -> None:
        Long.release.wait(PATIENCE)


def test_the_aide_receives_and_does_the_work(
    here: Residence, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lead, "PATIENCE", PATIENCE)  # however late it wakes
    for count in range(1, 20):
        here.tell(ShortWork())
        eventually(lambda: len(jobs.done) == count)  # noqa: B023 (asked in this turn only)
    assert len(set(jobs.done)) == 1
    assert jobs.done[0] not in {here.resident.ident, threading.get_ident()}
    assert jobs.dispersed == 0
    assert {thread for _, thread in here.came[1:]} >= {jobs.done[0]}  # it has received, too


def test_the_resident_leads_a_process_at_rest(
    here: Residence, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lead, "NAP", 0.05)
    here.tell(ShortWork())
    eventually(lambda: len(jobs.done) == 1)
    shorten_pauses(here, monkeypatch)
    eventually(lambda: here.loop.lead_of.leader == here.resident.ident)
    here.tell("after")
    assert here.by("after") == here.resident.ident
    monkeypatch.setattr(lead, "PATIENCE", LATE)
    here.tell(ShortWork())  # the aide can be called again
    eventually(lambda: len(jobs.done) == 2)
    assert len(set(jobs.done)) == 1


@pytest.mark.usefixtures("begun")
def test_long_work_holds_up_no_message(here: Residence, jobs: Jobs) -> None:
    with stuck() as release:
        Long.release = release
        here.tell(Long())
        eventually(lambda: not jobs.offered and here.came)
        for number in range(5):
            here.tell(number)
            assert here.by(number) == here.resident.ident
        here.tell(ShortWork())  # other threads do this one
        eventually(lambda: jobs.dispersed == 1)
        assert not jobs.done
    eventually(lambda: len(jobs.done) == 1)

    def free_again() -> bool:
        here.tell(ShortWork())  # other threads do it if the aide is not free yet
        return len(jobs.done) > 1

    eventually(free_again)


@pytest.mark.usefixtures("begun")
def test_work_that_came_with_long_work_is_done_by_others(here: Residence, jobs: Jobs) -> None:
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


def test_work_while_a_guest_leads_is_done_by_others(
    here: Residence, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lead, "PATIENCE", SHORT)  # no aide is called
    telling = while_led(here, lambda: here.tell(ShortWork()))
    assert here.loop.lead(lambda: jobs.dispersed == 1, PATIENCE)
    telling.join()


def test_a_guest_takes_over_from_the_aide_and_gives_back(
    here: Residence, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turn in range(5):
        here.tell(ShortWork())  # later, other threads do it if the aide wakes late
        eventually(lambda: len(jobs.done) + jobs.dispersed == turn + 1)  # noqa: B023 (asked in this turn only)
        if turn == 0:
            shorten_pauses(here, monkeypatch)  # the aide leads
        here.tell(turn)
        assert here.loop.lead(lambda: turn in here.messages(), PATIENCE)  # noqa: B023 (asked in this turn only)
    assert jobs.done


@pytest.mark.usefixtures("begun")
def test_the_end_comes_while_work_goes_on(here: Residence, jobs: Jobs) -> None:
    with stuck() as release:
        Long.release = release
        here.tell(Long())
        eventually(lambda: here.came)
        here.tell("the end")
        here.resident.join(PATIENCE)
        assert not here.resident.is_alive()


@pytest.mark.usefixtures("begun")
def test_the_aide_waits_within_work(here: Residence, jobs: Jobs) -> None:
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
    eventually(lambda: here.loop.lead_of.leader not in {0, here.resident.ident})
    here.tell("work")
    eventually(lambda: jobs.dispersed == 1)  # not left to an aide that waits
    here.tell("awaited")
    eventually(lambda: inner == [True])
    time.sleep(A_WHILE)
    here.tell("after")
    here.by("after")
