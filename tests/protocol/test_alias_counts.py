"""The cost of aliases: exact numbers of control messages, on the machines that run in actors.

`docs/aliases.md` quotes them.
"""

from __future__ import annotations

from typing import Any

import pytest

from farref.protocol.sharing import DISCIPLINES

from .counting import World

FIRST, FURTHER, PLAIN = 9, 12, 2
"""Control messages for the first alias of a chain, for each further one, and for the object."""


def chained(world: World, links: int) -> None:
    """A has B0 run a function that returns B1's result, and so on; A fetches it twice."""
    ref = world.remote("A", "B0")
    for number in range(links):
        task = world.running(f"B{number}")
        made = world.remote(f"B{number}", f"B{number + 1}")
        task.handles.append(made)
        task.alias(made)
    world.running(f"B{links}").end()
    world.fetch("A", ref, direct=True)
    before = world.control.copy()
    world.fetch("A", ref, direct=True)
    assert world.control == before
    alive = {at for at, node in world.endpoints.items() if node.context.owners}
    assert alive == {f"B{links}"}  # the hops are gone while the object lives
    world.drop("A", ref)
    assert world.left() == []


@pytest.mark.parametrize("sharing", DISCIPLINES)
@pytest.mark.parametrize("links", [0, 1, 2, 3, 10, 100])
def test_a_chain_costs_so_much_for_each_alias(links: int, sharing: Any) -> None:
    world = World(sharing)
    chained(world, links)
    aliases = FIRST + FURTHER * (links - 1) if links else 0
    assert world.control.total() == PLAIN + aliases


def test_an_alias_of_what_was_lent_costs_one_question() -> None:
    """A lends B a reference to C's object, and B's task returns it."""
    world = World("lend")
    x = world.made("A", "C")
    ref = world.remote("A", "B", x)
    before = world.control.copy()
    world.running("B").alias(x)
    said = world.control - before
    assert said == {"ForkRequest": 1, "Ack": 1, "ChildAck": 1, "AliasRef": 1, "Canonical": 1}
    world.drop("A", x, ref)
    assert world.left() == []
