"""References between three hosts: in calls by every discipline, in messages, and in values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress

import farref
from farref import RefActor, RRef
from farref.protocol.sharing import DISCIPLINES
from farref.testing import (
    Faults,
    assert_nothing_held,
    counts,
    delay,
    drop,
    duplicate,
    reorder,
)

from ..bases import STOCK_HOSTS
from .network import Network, address

if TYPE_CHECKING:
    from farref import System

    from .conftest import Joining, Starting

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def value_of(ref: RRef[Any]) -> Any:
    return ref.to_here()


def value_by(name: str, ref: RRef[Any]) -> Any:
    """Lend a lent reference on."""
    return farref.rpc_sync(name, value_of, (ref,))


held: list[Any] = []


def keep(*refs: Any) -> None:
    held.extend(refs)


def values_kept() -> list[Any]:
    values = [ref.to_here() for ref in held]
    held.clear()
    return values


def wrap(ref: RRef[Any]) -> RRef[dict[str, Any]]:
    """An object of this host that contains a reference to another host's object."""
    return RRef({"inner": ref})


def unwrap(ref: RRef[dict[str, Any]]) -> Any:
    return ref.to_here()["inner"].to_here()


class Passer(RefActor):
    """Passes its messages on, and adds the value that it reads."""

    async def receiveMsg_tuple(self, message: Any, sender: ActorAddress) -> None:
        ref, seen, stops, asker = message
        seen = [*seen, (farref.get_worker_info().name, await ref)]
        asker = asker or sender
        if stops:
            self.send(stops[0], (ref, seen, stops[1:], asker))
        else:
            self.send(asker, (ref, seen))


def calls(system: System, one: str, other: str) -> None:
    for ref, right in ((farref.remote(one, list, ((1,),)), [1]), (RRef([2]), [2])):
        assert farref.rpc_sync(other, value_of, (ref,)) == right
        assert farref.rpc_sync(other, value_by, (one, ref)) == right
        farref.rpc_sync(one, keep, (ref,))
        farref.rpc_sync(other, keep, (ref, ref))
        outer = farref.rpc_sync(other, wrap, (ref,))
        assert farref.rpc_sync(one, unwrap, (outer,)) == right
        assert unwrap(outer) == right
        del ref, outer
    # A task whose result is another host's object: an alias of it.
    alias = farref.remote(one, farref.remote, (other, list, ((3,),)))
    assert farref.rpc_sync(other, value_of, (alias,)) == [3]
    assert alias.to_here() == [3]
    assert alias.rpc_sync().pop() == 3
    del alias
    assert farref.rpc_sync(one, values_kept) == [[1], [2]]
    assert farref.rpc_sync(other, values_kept) == [[1], [1], [2], [2]]


def messages(system: System, *hosts: str) -> None:
    passers = [system.create(Passer, name=f"on {host}", on=address(host)) for host in hosts]
    ref = farref.remote(f"{hosts[-1]}1", list, ((3,),))
    again, seen = system.ask(passers[0], (ref, [], passers[1:], None))
    assert again == ref
    assert seen == [(f"on {host}", [3]) for host in hosts]


@pytest.mark.parametrize("sharing", DISCIPLINES)
def test_three_hosts(first: Starting, joined: Joining, sharing: Any) -> None:
    with first(sharing=sharing) as system, joined("B"), joined("C"):
        for host in "ABC":
            assert system.worker(f"{host}1", on=address(host)).address.addressDetails.host == (
                address(host)
            )
        for one, other in (("B1", "C1"), ("C1", "A1"), ("A1", "B1")):
            calls(system, one, other)
        messages(system, "B", "C", "A")
        assert_nothing_held(system)


@pytest.mark.parametrize("base", STOCK_HOSTS)
def test_thespians_own_base(first: Starting, joined: Joining, base: str) -> None:
    with first(base) as system, joined("B", base=base):
        system.worker("A1"), system.worker("B1", on=address("B"))
        calls(system, "A1", "B1")
        messages(system, "B", "A")
        assert_nothing_held(system)


def test_lossy_links(first: Starting, joined: Joining, network: Network) -> None:
    """The kernel retransmits; only time is lost."""
    with first() as system, joined("B"), joined("C"):
        system.worker("B1", on=address("B")), system.worker("C1", on=address("C"))
        network.lose(10)
        total = farref.remote("B1", list)
        for number in range(30):
            total.rpc_async().append(number)
        calls(system, "B1", "C1")
        assert total.to_here() == list(range(30))
        network.heal()
        del total
        assert_nothing_held(system)


def test_packets_lost_late_twice_and_overtaken(first: Starting, joined: Joining) -> None:
    """The layer of `farref.testing` does this; every host gets it with the system's settings."""
    faults = Faults(
        drop(0.02), delay(0.2, seconds=(0.01, 0.05)), duplicate(0.1), reorder(0.1), seed=5
    )
    with first(faults=faults) as system, joined("B"), joined("C"):
        system.worker("B1", on=address("B")), system.worker("C1", on=address("C"))
        total = farref.remote("B1", list)
        for number in range(30):
            total.rpc_async().append(number)
        calls(system, "B1", "C1")
        assert total.to_here() == list(range(30))
        seen = counts(system)
        assert all(sum((c.delayed, c.duplicated)) for c in (seen["B1"], seen["C1"]))
        del total
        assert_nothing_held(system)
