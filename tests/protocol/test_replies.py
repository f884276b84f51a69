"""Replies that are not the object's own answer say nothing of the object."""

from __future__ import annotations

import pytest

from farref.protocol.context import Context
from farref.protocol.effects import Send
from farref.protocol.ids import WorkerId
from farref.protocol.messages import Cargo, Reply

A, B = WorkerId("A", 1), WorkerId("B", 2)


def is_known_after(mark: str) -> bool:
    """Whether A takes its object at B for no alias after the reply to a fetch, marked *mark*."""
    a, b = Context(A), Context(B)
    rref, (send,) = a.create(B, Cargo())
    assert isinstance(send, Send)
    for effect in b.take(A, send.message):
        if isinstance(effect, Send):
            a.take(B, effect.message)
    call, _ = a.fetch(rref, direct=True)
    reply = Reply(call=call, cargo=Cargo(), relayed=mark == "relayed", refused=mark == "refused")
    a.take(B, reply)
    return a.users[rref].canonical


@pytest.mark.parametrize(("mark", "known"), [("", True), ("relayed", False), ("refused", False)])
def test_only_the_objects_own_answer_shows_that_it_is_no_alias(mark: str, known: bool) -> None:
    assert is_known_after(mark) is known
