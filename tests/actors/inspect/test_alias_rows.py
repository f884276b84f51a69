"""`references()` shows aliases: at their owners, at their targets, and at their users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import farref
from farref import RRef

from ..helpers import hold, list_references, until

if TYPE_CHECKING:
    from pathlib import Path

    from farref import ReferenceInfo, System


def rows_at(name: str) -> dict[str, ReferenceInfo]:
    return {row.rref: row for row in farref.rpc_sync(name, list_references)}


def rows() -> dict[str, ReferenceInfo]:
    """The program's."""
    return {row.rref: row for row in farref.references()}


def through_c(gate: Path) -> RRef[Any]:
    """Runs on B: its result is an alias of an object of C's, which waits for *gate*."""
    return farref.remote("C", hold, args=(gate, "value"))


def test_an_alias_that_waits(gate: Path, system: System) -> None:
    ref = farref.remote("B", through_c, args=(gate,))
    name = str(ref.id)
    assert until(system, lambda: rows_at("B")[name].state == "alias")
    mine = rows_at("B")[name]
    assert (mine.role, mine.canonical, mine.aliases, mine.type) == ("alias", None, {}, None)
    target = mine.target
    assert target is not None
    held = rows_at("B")[target]
    assert (held.role, held.handles, held.names) == ("user", 1, {})  # the alias's own
    assert until(system, lambda: (row := rows_at("C").get(target)) and row.aliases)
    there = rows_at("C")[target]
    assert there.aliases == {name: str(farref.get_worker_info("B").id)}
    assert (there.state, there.target, there.canonical) == ("created", None, None)
    row = rows()[name]
    assert (row.role, row.canonical, row.names) == ("user", None, {})
    gate.touch()
    assert ref.to_here() == "value"


def test_an_alias_that_is_known(gate: Path, system: System) -> None:
    gate.touch()
    ref = farref.remote("B", through_c, args=(gate,))
    again = farref.rpc_sync("C", same, args=([ref],))[0]
    assert ref.to_here() == "value"
    canonical, name = str(ref.canonical()), str(ref.id)
    assert canonical != name
    assert until(system, lambda: name not in rows())  # the hop is dropped
    row = rows()[canonical]
    assert (row.handles, row.names, row.canonical) == (2, {name: 2}, canonical)
    assert again == ref
    del again
    assert until(system, lambda: rows()[canonical].names == {name: 1})
    assert until(system, lambda: set(rows_at("B")) <= {canonical})  # the alias is freed
    assert until(system, lambda: not rows_at("C")[canonical].aliases)
    there = rows_at("C")[canonical]
    assert (there.state, there.canonical, there.target) == ("resolved", canonical, None)


def same(refs: list[RRef[Any]]) -> list[RRef[Any]]:
    return refs


def bare(refs: list[RRef[Any]]) -> RRef[Any]:
    return refs[0]


def test_the_reverse_map_of_a_tree(system: System) -> None:
    """Two aliases of B's object, one at B itself, and one of an alias at C."""
    root = farref.remote("B", str, args=("root",))
    one, other = (farref.remote(to, bare, args=([root],)) for to in "BC")
    leaf = farref.remote("C", bare, args=([one],))
    names = {str(each.id): each for each in (one, other, leaf)}

    def known() -> bool:
        return set(rows_at("B")[str(root.id)].aliases) == set(names)

    assert until(system, known)
    at_b, at_c = rows_at("B"), rows_at("C")
    assert at_b[str(one.id)].target == at_c[str(other.id)].target == str(root.id)
    assert at_c[str(leaf.id)].target == str(one.id)
    for name, table in ((one, at_b), (other, at_c), (leaf, at_c)):
        row = table[str(name.id)]
        assert (row.state, row.canonical) == ("alias", str(root.id))
    assert at_b[str(root.id)].canonical == str(root.id)
    assert at_c[str(root.id)].names == {str(one.id): 1}  # the target of leaf
    assert farref.get([one, other, leaf]) == ["root"] * 3


def test_an_object_of_the_program(system: System) -> None:
    mine = RRef("mine")
    alias = farref.remote("B", bare, args=([mine],))
    assert alias.to_here() == "mine"
    row = rows()[str(mine.id)]
    assert row.state == "resolved"
    assert row.names == {str(alias.id): 1}
    assert row.handles == 2
