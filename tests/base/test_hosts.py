"""Several hosts: two loopback addresses that use only TCP between them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from thespian.actors import ActorExitRequest, ActorSystem

from ..ports import free_port
from ..waiting import eventually
from .kit import (
    KEY,
    PATIENCE,
    Echo,
    Flooder,
    Hoarder,
    OnHostB,
    have_met,
    running,
)

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def hosts(no_socket_left: None) -> Iterator[tuple[ActorSystem, ActorSystem]]:
    """Two systems of one convention on two hosts, the first leading."""
    port_a, port_b = free_port("127.0.0.2"), free_port("127.0.0.3")
    leader = f"127.0.0.2:{port_a}"
    with (
        running(host="127.0.0.2", port=port_a, key=KEY, convention=leader) as a,
        running(
            host="127.0.0.3", port=port_b, key=KEY, convention=leader, capabilities={"B": True}
        ) as b,
    ):
        eventually(lambda: have_met(a))
        yield a, b


def test_a_global_name_of_another_host_is_found_again_and_again(
    hosts: tuple[ActorSystem, ActorSystem],
) -> None:
    a, _ = hosts
    named = [a.createActor(OnHostB, globalName="one of all") for _ in range(3)]
    assert named[0] == named[1] == named[2]
    assert a.ask(named[2], "over there", PATIENCE) == "over there"


def test_dead_letters_across_hosts(hosts: tuple[ActorSystem, ActorSystem]) -> None:
    a, b = hosts
    with a.private() as here, b.private() as there:
        handler = here.createActor(Hoarder)
        assert here.ask(handler, "collect dead letters", PATIENCE) == "ok"
        victim = there.createActor(Echo)
        sender = here.createActor(Flooder)
        assert there.ask(victim, "there", PATIENCE) == "there"
        there.tell(victim, ActorExitRequest())
        eventually(lambda: there.ask(victim, "gone?", 0.5) is None)
        assert here.ask(sender, (victim, 20, ""), PATIENCE) == "sent"
        expected = [(n, "") for n in range(20)]
        eventually(lambda: here.ask(handler, "report", PATIENCE) == expected)


def test_systems_of_one_machine_need_no_tcp() -> None:
    """Their ports only name them. An address says where its Unix socket is, and no port."""
    port_a, port_b = free_port("127.0.0.1"), free_port("127.0.0.1")
    leader = f"localhost:{port_a}"
    with (
        running(port=port_a, convention=leader) as a,
        running(port=port_b, convention=leader, capabilities={"B": True}) as b,
    ):
        echo = b.createActor(Echo)
        assert a.ask(echo, "next door", PATIENCE) == "next door"
        eventually(lambda: have_met(a))
        assert a.ask(a.createActor(OnHostB), "over there", PATIENCE) == "over there"
