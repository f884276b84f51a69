"""Links between hosts that lose packets, are cut, and healed."""

from __future__ import annotations

import gc
import socket
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import OwnerDiedError, RRef, WorkerDiedError
from farref.testing import assert_nothing_held, until

from ..actors.helpers import Box
from .network import Network, address

if TYPE_CHECKING:
    from farref import System

    from .conftest import Joining, Starting

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def test_a_short_cut_is_survived(first: Starting, joined: Joining, network: Network) -> None:
    with first() as system, joined("B"):
        system.worker("B", on=address("B"))
        theirs = farref.remote("B", list, ((1,),))
        mine = RRef([2])
        farref.rpc_sync("B", keep, (mine,))
        network.cut("A", "B")
        calls = [theirs.rpc_async().append(number) for number in range(10)]
        assert not until(system, calls[0].done, 2)
        network.heal()
        for call in calls:
            call.result()
        assert theirs.to_here() == [1, *range(10)]
        assert farref.rpc_sync("B", kept) == [2]
        farref.rpc_sync("B", forget)
        del theirs, mine, calls, call
        assert_nothing_held(system)


held: list[RRef[Any]] = []


def keep(ref: RRef[Any]) -> None:
    held.append(ref)


def kept() -> Any:
    return held[0].to_here()


def forget() -> None:
    held.clear()


def test_a_long_cut_ends_the_host(first: Starting, joined: Joining, network: Network) -> None:
    with first(silence=1.0) as system, joined("B") as away:
        system.worker("B", on=address("B"))
        system.worker("C")
        theirs = farref.remote("B", list, ((1,),))
        theirs.to_here()
        box = Box()
        watch = weakref.ref(box)
        farref.rpc_sync("B", keep, (RRef(box),))
        del box
        call = farref.rpc_async("B", time.sleep, (60,))
        network.cut("A", "B")
        with pytest.raises(WorkerDiedError):
            call.result()
        with pytest.raises(OwnerDiedError):
            theirs.to_here()
        gc.collect()
        assert until(system, lambda: watch() is None)
        _, err = away.communicate(timeout=60)
        assert away.returncode == 1
        assert "is cut off" in err
        assert until(system, lambda: not network.processes("B"))
        network.heal()
        assert [str(host) for host in system.hosts()] == [address("A")]
        with joined("B"):
            system.worker("B", on=address("B"))
            assert farref.rpc_sync("B", len, (held,)) == 0
        del theirs, call
        assert_nothing_held(system)


def test_a_cut_between_two_others_kills_nobody(
    first: Starting, joined: Joining, network: Network
) -> None:
    """Both reach the first host; their messages to each other wait."""
    with first(silence=1.0) as system, joined("B"), joined("C"):
        system.worker("B", on=address("B")), system.worker("C", on=address("C"))
        mine = RRef([1])
        network.cut("B", "C")
        call = farref.rpc_async("B", farref.rpc_sync, ("C", RRef.to_here, (mine,)))
        assert not until(system, call.done, 2)
        assert len(system.hosts()) == 3
        network.heal()
        assert call.result() == [1]
        del mine, call
        assert_nothing_held(system)


TCP_RTO_MAX_MS = 44
"""Linux's option, which Python's `socket` does not know."""


def backs_off() -> bool:
    """Whether this kernel waits longer for each retransmission (before Linux 6.15)."""
    with socket.socket() as sock:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, 1000)
        except OSError:
            return True
    return False


ALL = [0.5, 0.95, *(pytest.param(n / 10, marks=pytest.mark.slow) for n in range(1, 10))]
LENGTHS = [0.4] if backs_off() else ALL
"""Of a cut, in parts of `silence`."""


def survive_a_cut(system: System, network: Network, part: float, silence: float) -> None:
    """The link from A to B is cut for this *part* of *silence*, and all hosts stay."""
    system.worker("B1", on=address("B"))
    theirs = farref.remote("B1", list, ((1,),))
    assert theirs.to_here() == [1]
    hosts = system.hosts()
    network.cut("A", "B")
    time.sleep(part * silence)
    network.heal()
    assert not until(system, lambda: system.hosts() != hosts, silence + 4)
    assert theirs.to_here() == [1]


@pytest.mark.parametrize("part", LENGTHS)
@pytest.mark.parametrize("silence", [2.0, pytest.param(5.0, marks=pytest.mark.slow)])
def test_a_cut_shorter_than_silence_loses_nobody(
    first: Starting, joined: Joining, network: Network, part: float, silence: float
) -> None:
    with first(silence=silence) as system, joined("B") as away:
        survive_a_cut(system, network, part, silence)
        assert len(system.hosts()) == 2
        assert away.poll() is None
        assert_nothing_held(system)
