"""Large values on three hosts: shared on each, in frames between them, through any relay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef
from farref.testing import assert_nothing_held

from ..actors.calls.test_values import (
    READ_ONLY,
    SIZE,
    keep_value,
    let_go,
    look,
    sevens,
    total,
    total_of,
)
from ..actors.helpers import hold
from ..bases import HOSTS
from .network import address

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Joining, Starting

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


class Looker:
    """Tells whether its values are mapped."""

    def look(self, array: Any) -> tuple[int, tuple[int, int]]:
        return total(array), look()

    def make(self) -> Any:
        return sevens()


def of_another(name: str, gate: Path) -> RRef[Any]:
    """Another worker's object, once the *gate* is open; until then its asker asks us."""
    hold(gate)
    return farref.remote(name, Looker)


def open_at(worker: str, gate: Path) -> None:
    """Open *gate* once what this program has sent to *worker* has come there."""
    farref.rpc_sync(worker, gate.touch)


def see(ref: RRef[Any]) -> tuple[int, bool]:
    """The value's sum, and whether it is mapped."""
    value = ref.to_here()
    with pytest.raises(ValueError, match=READ_ONLY):
        value[0] = 1
    return total(value), look()[1] > 0


@pytest.mark.parametrize("base", HOSTS)
def test_hosts(first: Starting, joined: Joining, base: str) -> None:
    with first(base) as system, joined("B", base=base):
        for name in ("A1", "A2", "B1", "B2"):
            system.worker(name, on=address(name[0]))
        ref = farref.remote("B1", sevens, frozen=True)
        assert farref.rpc_sync("B2", see, (ref,)) == (7 * SIZE, True)
        assert farref.rpc_sync("A1", see, (ref,)) == (7 * SIZE, False)
        plain = farref.remote("A1", sevens)
        for name in ("A2", "B1"):
            assert farref.rpc_sync(name, total_of, (plain,)) == 7 * SIZE
            assert farref.rpc_sync(name, total, (sevens(),)) == 7 * SIZE
        farref.rpc_sync("B2", keep_value, (ref,))
        assert farref.rpc_sync("B2", look) == (0, 1)
        farref.rpc_sync("B2", let_go)
        del ref, plain
        assert_nothing_held(system)


def test_what_is_relayed_goes_on_in_frames(
    first: Starting, joined: Joining, tmp_path: Path
) -> None:
    """The sender shares with the alias's owner, which knows the hosts that cannot map it."""
    with first() as system, joined("B"):
        for name in ("A1", "A2", "B1", "B2"):
            system.worker(name, on=address(name[0]))
        # From here to A1, near, and on to B1: the request.
        gates = [tmp_path / name for name in "abc"]
        alias = farref.remote("A1", of_another, ("B1", gates[0]))
        asked = [alias.rpc_async().look(sevens()) for _ in range(2)]
        open_at("A1", gates[0])
        assert [each.result() for each in asked] == [(7 * SIZE, (0, 0))] * 2
        # From B2 to B1, near, and on to here: the reply.
        alias = farref.remote("B1", of_another, ("B2", gates[1]))
        asked = [alias.rpc_async().make() for _ in range(2)]
        open_at("B1", gates[1])
        assert [total(each.result()) for each in asked] == [7 * SIZE] * 2
        assert look() == (0, 0)
        # From here to A1, and on to A2: it stays shared, once A1 knows that A2 is near.
        assert farref.rpc_sync("A1", farref.rpc_sync, ("A2", total, (sevens(),))) == 7 * SIZE
        alias = farref.remote("A1", of_another, ("A2", gates[2]))
        near = alias.rpc_async().look(sevens())
        open_at("A1", gates[2])
        assert near.result() == (7 * SIZE, (0, 1))
        del alias, asked, near
        assert_nothing_held(system)
