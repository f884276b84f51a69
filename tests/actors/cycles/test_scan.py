"""What a search takes for garbage, on random heaps of one process."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farref import RRef, System

from ...waiting import eventually
from .rings import Node, objects_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes
SHAPES: list[Any] = [
    lambda other: other,
    lambda other: [other],
    lambda other: (other,),
    lambda other: {"key": other},
    lambda other: lambda: other,
    lambda other: other.links.append,
    lambda other: {id(other): [other, other]},
]
"""How a node holds another one."""
NODES = st.integers(0, 7)
LINKS = st.lists(st.tuples(NODES, NODES, st.sampled_from(SHAPES)), max_size=16)


@pytest.fixture(scope="module")
def program() -> Iterator[System]:
    gc.freeze()  # each search collects garbage
    with System(timeout=60, cycles="off") as made:
        yield made


def reached(links: list[tuple[int, int, Any]], begin: int) -> set[int]:
    """The nodes that node *begin* leads to."""
    found = [begin]
    for node in found:
        found += [to for one, to, _ in links if one == node and to not in found]
    return set(found)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(links=LINKS, target=st.integers(1, 7), outside=st.none() | NODES)
def test_a_value_is_garbage_if_nothing_but_itself_leads_to_its_reference(
    program: System, links: list[tuple[int, int, Any]], target: int, outside: int | None
) -> None:
    """A value has node 0. A node that it leads to has the reference; a variable has another one."""
    nodes = [Node() for _ in range(8)]
    for one, other, shape in links:
        nodes[one].links.append(shape(nodes[other]))
    ref = RRef([nodes[0]])
    nodes[target].links.append(ref)
    name, kept = str(ref.id), nodes[outside] if outside is not None else None
    del ref
    nodes.clear()
    leads = target in reached(links, 0)
    stays = outside is not None and target in reached(links, outside)
    garbage, left = {name} if leads and not stays else set(), {name} if stays else set()
    found = set[str]()

    def search() -> set[str]:
        """The objects that are left. In doubt, a search takes garbage for alive."""
        found.update(objects_of(program.collect()))
        assert found <= {name} - left
        return {row.rref for row in program.references()}

    eventually(lambda: search() == left and found == garbage)
    del kept
    left.clear()
    eventually(lambda: not search())
