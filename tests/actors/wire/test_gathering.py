"""Many messages in flight to one peer make the next ones leave together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thespian.actors import ActorExitRequest

import farref
from farref import RefActor, System
from farref.actors.calls.calls import MAX_BACKLOG_BYTES
from farref.actors.core.links import CROWD, GATHERED, Links
from farref.protocol.delivery import WINDOW, Channel, Packet
from farref.protocol.ids import CallId, WorkerId
from farref.protocol.messages import FLOWS, Cancel, CreditGiven

from ...bases import PROCESSES
from ..helpers import until

if TYPE_CHECKING:
    from thespian.actors import ActorAddress

A, B, C = (WorkerId(name, 1) for name in "ABC")


def message(number: int) -> Cancel:
    return Cancel(call=CallId(A, number))


def crowded() -> Links:
    """Links on which a crowd is in flight to B."""
    links = Links()
    for number in range(CROWD):
        links.send(B, message(number))
        assert left(links, gather=True) == 1
    return links


def left(links: Links, *, gather: bool) -> int:
    packets, _ = links.packets(0.0, gather=gather)
    return sum(len(packet.messages) for _, packet in packets)


def test_they_wait_for_the_mailbox_thread() -> None:
    links = crowded()
    for number in range(3):
        links.send(B, message(number))
        assert links.packets(0.0, gather=True) == ([], True), "somebody must look again"
    assert left(links, gather=False) == 3
    assert left(links, gather=False) == 0


def test_many_leave_at_once() -> None:
    links = crowded()
    sizes = []
    for number in range(2 * GATHERED):
        links.send(B, message(number))
        sizes.append(left(links, gather=True))
    assert [size for size in sizes if size] == [GATHERED, GATHERED]


def test_a_large_one_takes_those_before_it_along() -> None:
    links = crowded()
    links.send(B, message(1))
    assert left(links, gather=True) == 0
    links.send(B, message(2), prompt=True)
    assert left(links, gather=True) == 2
    links.send(B, message(3))
    assert left(links, gather=True) == 0


def test_others_do_not_wait() -> None:
    links = crowded()
    links.send(B, message(1))
    links.send(C, message(1))
    assert left(links, gather=True) == 1


def test_nothing_waits_once_they_are_acknowledged() -> None:
    links = crowded()
    links.receive(B, Packet(0, (), CROWD), 0.0)
    links.send(B, message(1))
    assert left(links, gather=True) == 1


def test_nobody_looks_while_the_window_is_full() -> None:
    links = crowded()
    for number in range(WINDOW - CROWD):
        links.send(B, message(number))
    assert left(links, gather=True) == WINDOW - CROWD
    links.send(B, message(1))
    assert links.packets(0.0, gather=True) == ([], False), "nothing can leave before it is told of"
    links.receive(B, Packet(0, (), 2), 0.0)
    assert left(links, gather=False) == 1


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("sends"),
            st.sampled_from((B, C)),
            st.sampled_from((None, "mail")),
            st.integers(0, 9 << 20),
            st.integers(1, CROWD + 2),
        ),
        st.tuples(st.just("hears"), st.sampled_from((B, C)), st.integers(0, 40)),
    ),
    max_size=30,
)
"""What an endpoint does with two peers."""


@given(STEPS)
def test_who_has_asked_for_no_room_has_half_of_it_left(steps: list[tuple[Any, ...]]) -> None:
    links = Links()
    for number, (what, peer, *more) in enumerate(steps):
        if what == "hears":  # its packet acknowledges all but the last few, and brings a message
            channel = links.channels.get(peer)
            if channel is not None:
                expects = max(channel._next - len(channel.flight), channel._next - more[0])
                brought = message(number), CreditGiven(flow=FLOWS[number % len(FLOWS)])
                links.receive(peer, Packet(channel.handed, brought, expects), number)
                check_load(channel)
            continue
        flow, size, times = more
        for each in map(message, range(times)):
            links.send(peer, each, flow, size)
            links.packets(number, gather=True)
            check_load(links.channels[peer])


def check_load(channel: Channel) -> None:
    loads = [channel.load(flow) for flow in FLOWS]
    messages, size = max(most for most, _ in loads), max(size for _, size in loads)
    assert channel.asking or not channel.waits
    assert channel.asking or messages == channel.backlog <= len(channel.unsent) + WINDOW
    assert channel.asking or size < MAX_BACKLOG_BYTES // 2


def test_none_is_twice_or_out_of_order() -> None:
    """For all senders, for all threads that post, and for any number that wait."""
    links, sent, came = Links(), 0, []
    for number in range(20 * GATHERED):
        links.send(B, message(number), prompt=number % 97 == 0)
        for _, packet in links.packets(0.0, gather=number % 13 != 0)[0]:
            assert packet.first == sent, "its number is that of the next one"
            sent += len(packet.messages)
            came += [each.call.number for each in packet.messages if isinstance(each, Cancel)]
        if number % 31 == 0:
            links.receive(B, Packet(0, (), sent), 0.0)
    assert came == [*range(len(came))]
    assert left(links, gather=False) == 20 * GATHERED - len(came)


# ---- actors


class Heir(RefActor):
    def __init__(self) -> None:
        super().__init__()
        self.got: list[int] = []

    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        self.got.append(message)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, self.got)


class Talker(RefActor):
    """Has more to say than can leave at once, and then exits."""

    def receiveMsg_ActorAddress(self, message: ActorAddress, sender: ActorAddress) -> None:
        self.heir = message
        self.send(message, -1)  # this asks the registrar now; at the end nobody can

    def receiveMsg_ActorExitRequest(self, message: Any, sender: ActorAddress) -> None:
        for number in range(5 * CROWD):
            self.send(self.heir, number)


@pytest.mark.processes
def test_last_words_leave_before_an_actor_exits() -> None:
    """On our own base; Thespian's loses the messages that are unwritten when an actor ends."""
    with System("farrefBase", timeout=20) as system:
        heir, talker = system.create(Heir, "heir"), system.create(Talker, "talker")
        system.tell(talker, heir)
        assert until(system, lambda: system.ask(heir, "all") == [-1])
        system.tell(talker, ActorExitRequest())
        assert until(system, lambda: system.ask(heir, "all") == [-1, *range(5 * CROWD)])


@pytest.mark.parametrize("base", PROCESSES)
def test_calls_in_flight_are_answered_each(base: str) -> None:
    with System(base, timeout=20) as system:
        system.worker("B")
        futures = [farref.rpc_async("B", abs, (-number,)) for number in range(1, 500)]
        assert [future.result(20) for future in futures] == [*range(1, 500)]
