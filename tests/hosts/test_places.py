"""The choice of a host for a worker."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from thespian.actors import Actor, ActorAddress, requireCapability

import farref
from farref import CreationError, FetchTimeoutError, NameTakenError, RefActor, RRef, System
from farref.testing import until

from ..bases import HOSTS, LINKS, about
from .network import address

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Joining, Starting

pytestmark = pytest.mark.processes


def place_of(system: System, worker: ActorAddress) -> str:
    return str(worker.addressDetails.host)


@requireCapability("gpu")
class Demanding(RefActor):
    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        child = self.createActor(Child)
        self.send(sender, child)


class Child(RefActor):
    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, farref.get_worker_info().address)


@requireCapability("nobody has it")
class Impossible(RefActor):
    pass


def test_by_address_and_by_capabilities(first: Starting, joined: Joining) -> None:
    options = ("--capability", "zone=east", "--capability", "gpu")
    with first(capabilities={"zone": "west"}) as system, joined("B", *options), joined("C"):
        for on, host in (
            (None, "A"),
            (address("A"), "A"),
            (address("B"), "B"),
            ({"zone": "west"}, "A"),
            ({"gpu": True}, "B"),
            ({"gpu": True, "zone": "east"}, "B"),
            (address("C"), "C"),
        ):
            worker = system.worker(f"W{len(system.workers())}", on=on)
            assert place_of(system, worker.address) == address(host), on
        others: dict[str, Any] = {"farref member": True}  # of two hosts, the less loaded one
        places = [system.worker(f"M{number}", on=others).address for number in range(5)]
        assert {place_of(system, worker) for worker in places} == {address("B"), address("C")}
        hosts = system.hosts()
        assert [str(host) for host in hosts] == [address("A"), address("B"), address("C")]
        assert hosts[1].capabilities["zone"] == "east"


def test_by_what_a_class_requires(first: Starting, joined: Joining) -> None:
    """Thespian's way; it works for a class inside this function, too."""

    @requireCapability("gpu")
    class Local(Child):
        pass

    with first() as system, joined("B", "--capability", "gpu"):
        system.worker("B", on={"gpu": True})
        demanding = system.create(Demanding)
        assert place_of(system, demanding) == address("B")
        child = system.ask(demanding, "make a child")
        assert place_of(system, system.ask(child, "where are you?")) == address("B")
        assert place_of(system, system.create(Local)) == address("B")
        assert place_of(system, system.create(Child)) == address("A")
        with pytest.raises(CreationError, match="requirements of Impossible"):
            system.create(Impossible)
        with pytest.raises(CreationError, match="requirements of Demanding"):
            system.create(Demanding, on=address("A"))
        with pytest.raises(NameTakenError, match="'B' could not be created: the name is taken"):
            system.worker("B", on=address("B"))
        made = farref.rpc_sync("B", farref.worker, ("made by B",))
        assert place_of(system, made.address) == address("B"), "on the host of its creator"
        with pytest.raises(CreationError, match="requirements of Greeter"):
            system.create(Greeter, args=("hello",))


@requireCapability("nobody has it")
class Greeter(RefActor):
    def __init__(self, greeting: str) -> None:
        self.greeting = greeting


class Plain(Actor):
    """Creates an endpoint without knowing that it is one."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, ActorAddress):
            self.asker = message
            self.send(self.createActor(Tagging), "where are you?")
        elif isinstance(message, tuple):
            self.send(self.asker, message[0])


class Grandparent(RefActor):
    def receiveMsg_ActorAddress(self, message: ActorAddress, sender: ActorAddress) -> None:
        self.send(self.createActor(Plain), message)


class Tagging(RefActor):
    async def receiveMsg_RRef(self, message: RRef[Any], sender: ActorAddress) -> None:
        self.send(sender, await message)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.send(sender, (farref.get_worker_info().address,))


@pytest.mark.parametrize("base", HOSTS)
def test_actors_of_plain_actors_find_the_registrar(
    first: Starting, joined: Joining, base: str
) -> None:
    with first(base) as system, joined("B", base=base):
        for _ in range(2):
            grandparent = system.create(Grandparent, on=address("B"))
            me = system.endpoint.core.address
            system.tell(grandparent, me)
            child = system.listen()
            assert child in [info.address for info in system.workers()]
            assert system.ask(child, RRef([1])) == [1]


def test_a_trace_is_written_on_each_host(first: Starting, joined: Joining, tmp_path: Path) -> None:
    """Each host writes into a folder of that name, which the other host does not have yet."""
    folder = tmp_path / "trace"
    with first(trace=folder) as system, joined("B"):
        shutil.rmtree(folder)
        system.worker("B", on=address("B"))
        assert until(system, lambda: list(folder.glob("B-*")))  # it may not have settled in yet


def in_a_hurry(system: System) -> None:
    """From now on the program gives up its waits soon."""
    system.endpoint.core.settings = replace(system.endpoint.core.settings, timeout=0.3)


def test_hosts_that_are_not_there(first: Starting) -> None:
    with first() as system:
        in_a_hurry(system)
        with pytest.raises(FetchTimeoutError, match=r"10\.77\.3\.1 joined.*hosts are: 10\.77\.1"):
            system.worker("B", on=address("C"))
        with pytest.raises(FetchTimeoutError, match="gpu"):
            system.worker("B", on={"gpu": True})
        with pytest.raises(ValueError, match="cannot resolve"):
            system.worker("B", on="no such host")
        wrong: Any = 7
        with pytest.raises(TypeError, match="address or a dict"):
            system.worker("B", on=wrong)


@pytest.mark.parametrize("base", LINKS)
def test_one_host_has_capabilities_too(base: str) -> None:
    with System(base, capabilities={"gpu": True}) as system:
        assert [host.address for host in system.hosts()] == [""]
        if about(base).processes:
            system.worker("B", on={"gpu": True})
        in_a_hurry(system)
        with pytest.raises(FetchTimeoutError, match="this host"):
            system.worker("C", on={"gpu": False})
