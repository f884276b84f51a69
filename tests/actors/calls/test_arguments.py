"""Values that travel in a call: definitions of ``__main__``, arrays, references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import farref
from farref import RRef

if TYPE_CHECKING:
    from farref import System


def kinds(*args: Any) -> list[str]:
    return [type(each).__name__ for each in args]


def values(refs: list[RRef[Any]]) -> list[Any]:
    return [each.to_here() for each in refs]


def are_one(one: RRef[Any], other: RRef[Any]) -> bool:
    return one is other


def itself(ref: RRef[Any]) -> RRef[Any]:
    return ref


def test_references_among_other_arguments(chain_system: System) -> None:
    theirs, mine = farref.remote("B", int, (7,)), RRef([1])
    alias = farref.remote("C", itself, (theirs,))
    expected = ["int", "RRef", "list", "tuple", "NoneType"]
    for _ in range(3):
        assert farref.rpc_sync("C", kinds, (1, theirs, [mine], (mine,), None)) == expected
        assert farref.rpc_sync("C", kinds, (1, theirs, [mine], None)) == [*expected[:3], "NoneType"]
        assert farref.rpc_sync("C", are_one, (theirs, theirs))
        assert farref.rpc_sync("D", values, ([mine, theirs],)) == [[1], 7]
        assert farref.rpc_sync("D", values, ([alias],)) == [7]
        assert farref.rpc_sync("D", values, ([alias, theirs],)) == [7, 7]


def test_a_message_introduces_an_owner_that_its_receiver_has_not_heard_of(
    own_system: System,
) -> None:
    own_system.worker("B")
    for made in (RRef(8), farref.remote(own_system.worker("C"), int, (8,))):
        for _ in range(3):
            assert farref.rpc_sync("B", values, ([made],)) == [8]
