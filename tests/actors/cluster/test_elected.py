"""The rules of an elected registrar in situations that the explorer's store cannot be in."""

from __future__ import annotations

import pytest

from farref.actors.wire.messages import (
    Died,
    Down,
    EndpointLeave,
    EndSystem,
    HostJoined,
    Make,
    Spawn,
    Spawned,
    Unmade,
)

from .terms import Term, host_id


def order(on: str | None = None) -> Spawn:
    return Spawn(7, b"class", "w", None, 1, on)


@pytest.fixture
def two() -> Term:
    """Two hosts, a and b, and an endpoint on a."""
    registrar = Term(own="a")
    registrar.host("a")
    registrar.host("b")
    registrar.endpoint("e", host="a")
    return registrar


def test_a_host_of_which_the_store_knows_nothing_any_more(two: Term) -> None:
    """Somebody has deleted the facts: each host ends, and is told the reason."""
    after = Term(2, {})
    after.host("b", joined=True)
    lost = "the registry has lost the facts of this system"
    assert after.to("b", Died) == [Died((host_id("b"),), lost)]
    assert not after.to("b", HostJoined)
    same = Term(2, two.facts)
    same.host("b", joined=True)
    assert same.to("b", HostJoined)


def test_a_host_does_not_fit_and_the_order_has_not_come_again(two: Term) -> None:
    """The refusal comes before the order is repeated, and no host is left out."""
    two.ask("a", order(), "e")
    assert len(two.to("a", Make)) == 1
    after = Term(2, two.facts)
    (me,) = after.elected._creating
    after.ask("a", Unmade(me, "no", unfit=True))
    assert not after.to("a", Spawned)
    last = Term(3, after.facts)  # and this one has to know it, too
    last.ask("a", order(), "e")
    assert not last.to("a", Make)
    assert [make.me for make in last.to("b", Make)] == [me]


def test_an_order_on_a_host_that_is_gone(two: Term) -> None:
    """The store took the host's end, and the registrar died before the next change."""
    two.ask("a", order(on="b"), "e")
    del two.facts["hosts/b"]
    after = Term(2, two.facts)
    (spawned,) = after.to("a", Spawned)
    assert (spawned.info, spawned.reason) == (None, "its host, b, is gone")
    assert not after.elected._creating


def test_the_end_of_the_system(two: Term) -> None:
    """All hosts are told. That of the registrar leaves last; then nothing is left."""
    two.ask("b", EndSystem())
    assert two.to("a", Down)
    assert two.to("b", Down)
    two.ask("a", EndpointLeave(host_id("a")))
    assert not [died for died in two.to("a", Died) if died.workers[0].name == "a"]
    two.host("c")  # it comes just now, and has to wait
    assert not two.to("c", HostJoined)
    two.ask("b", EndpointLeave(host_id("b")))
    assert [died for died in two.to("a", Died) if died.workers[0].name == "a"]
    assert two.to("c", HostJoined)
    assert [host.info.address for host in two.elected._hosts.values()] == ["c"]
    assert not two.to("c", Down)


def test_the_end_of_a_system_with_a_host_that_is_silent(two: Term) -> None:
    two.ask("a", EndSystem())
    two.ask("a", EndpointLeave(host_id("a")))
    for _ in range(30):
        two.elected._detector.heard(host_id("a"))
        two.ticks(1)
    assert two.elected.empty


def test_the_registrar_dies_while_the_system_ends(two: Term) -> None:
    """The next one goes on with the end."""
    two.ask("a", EndSystem())
    after = Term(2, two.facts, own="b")
    assert after.to("a", Down)
    assert after.to("b", Down)
    after.ask("b", EndpointLeave(host_id("b")))
    assert list(after.elected._hosts) == ["a", "b"]
    after.ticks(30)
    assert after.elected.empty
    assert "numbers/ended" not in after.facts
