"""What many messages in flight to one peer have the next ones do: leave together."""

from __future__ import annotations

from farref.actors.links import CROWD, GATHERED, Links
from farref.protocol.delivery import Packet
from farref.protocol.ids import CallId, WorkerId
from farref.protocol.messages import Cancel

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
