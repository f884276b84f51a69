"""Ranks: members keep theirs, and newcomers fill the gaps in natural order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..ids import WorkerId

_DIGITS = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts ``node2`` before ``node10``."""
    # Digits sort by their value's length and text: no number is too long for that.
    parts = _DIGITS.split(name)
    return tuple(
        (len(part.lstrip("0")), part.lstrip("0")) if place % 2 else (-1, part)
        for place, part in enumerate(parts)
    )


def ranked(orders: Mapping[WorkerId, int | None], before: Sequence[WorkerId]) -> list[WorkerId]:
    """The nodes of *orders* by rank. *before*: the members of the previous round, by rank.

    A node that was there keeps its rank, unless the group has become too small for it. A node with
    the name of a node that is gone counts as its successor. Next come the nodes that lost their
    rank, then the newcomers, first by the order they ask for, then by name.
    """
    size = len(orders)
    claims = {node: rank for rank, node in enumerate(before) if node in orders}
    heirs = {node.name: rank for rank, node in enumerate(before) if node not in orders}
    for node in sorted(orders, key=lambda each: each.incarnation):
        if node not in claims and node.name in heirs:
            claims[node] = heirs.pop(node.name)
    places: list[WorkerId | None] = [None] * size
    for node, rank in claims.items():
        if rank < size:
            places[rank] = node
    kept = {node for node in places if node is not None}
    moved = sorted((rank, node) for node, rank in claims.items() if node not in kept)
    new = [node for node in orders if node not in claims]

    def place(node: WorkerId) -> tuple[bool, int, tuple[tuple[int, str], ...], WorkerId]:
        order = orders[node]
        return order is None, order or 0, natural(node.name), node

    rest = iter([*(node for _, node in moved), *sorted(new, key=place)])
    return [next(rest) if node is None else node for node in places]
