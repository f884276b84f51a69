"""Queues are bounded, waiting is fair, and nobody waits for ever."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from thespian.actors import PoisonMessage

from farref.actors.base import Limits, PeerStalled

from ..stopping import stop
from ..waiting import eventually
from .kit import PATIENCE, Duelist, Echo, Flooder, Hoarder, running

pytestmark = pytest.mark.processes

SMALL = Limits(
    max_queued_bytes=100_000,
    max_queued_messages=50,
    max_backlog_bytes=100_000,
    max_backlog_messages=50,
)


def test_two_that_flood_each_other_from_their_handlers_both_finish() -> None:
    with running(limits=SMALL) as system:
        one, other = system.createActor(Duelist), system.createActor(Duelist)
        system.tell(one, ("fight", other, 3_000, "x" * 2_000))
        system.tell(other, ("fight", one, 3_000, "x" * 2_000))
        assert system.listen(PATIENCE) is True
        assert system.listen(PATIENCE) is True


def test_a_sender_waits_for_a_slow_receiver_and_nothing_is_lost() -> None:
    with running(limits=SMALL) as system:
        slow = system.createActor(Hoarder)
        system.tell(slow, ("delay", 0.001))
        sender = system.createActor(Flooder)
        assert system.ask(sender, (slow, 1_500, "x" * 1_000), 2 * PATIENCE) == "sent"
        eventually(lambda: len(system.ask(slow, "report", PATIENCE)) == 1_500)
        got = system.ask(slow, "report", PATIENCE)
        assert [number for number, _ in got] == list(range(1_500))


def test_a_stopped_receiver_stalls_its_sender_with_an_error() -> None:
    limits = Limits(max_queued_bytes=100_000, max_queued_messages=50, stall_timeout=0.5)
    with running(limits=limits) as system:
        victim = system.createActor(Echo)
        pid = system.ask(victim, "pid", PATIENCE)
        stop(pid)
        try:
            sender = system.createActor(Flooder)
            # The handler is run again after the error, stalls again, and is poisoned.
            answer = system.ask(sender, (victim, 10_000, "x" * 10_000), PATIENCE)
            assert isinstance(answer, PoisonMessage)
            assert "PeerStalled" in answer.details
            with pytest.raises(PeerStalled, match="has taken nothing"):
                system.tell(victim, bytes(50_000_000))
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_large_message_does_not_stall_small_ones() -> None:
    with running() as system:
        large, small = system.createActor(Echo), system.createActor(Echo)
        with system.private() as one, system.private() as other:
            done = threading.Event()

            def carry() -> None:
                assert len(one.ask(large, bytes(200_000_000), 3 * PATIENCE)) == 200_000_000
                done.set()

            carrier = threading.Thread(target=carry)
            carrier.start()
            turns = 0
            while not done.is_set():
                assert other.ask(small, turns, PATIENCE) == turns
                turns += 1
            carrier.join(PATIENCE)
            assert turns > 3


def test_a_flood_does_not_starve_another_peer() -> None:
    with running() as system:
        target = system.createActor(Hoarder)
        flooder = system.createActor(Flooder)
        with system.private() as flooding, system.private() as polite:

            def come() -> int:
                return len(polite.ask(target, "report", PATIENCE))

            for flood in range(1, 6):
                flooding.tell(flooder, (target, 30_000, "x"))
                first = come()
                assert flooding.listen(PATIENCE) == "sent"
                eventually(lambda: come() == flood * 30_000)  # noqa: B023 (asked in this turn only)
                if first < flood * 30_000:
                    return  # answered in the middle of the flood
            pytest.fail("it was answered only when all of a flood had come")
