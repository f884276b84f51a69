"""Messages that come in bulk have the same effect as one by one, in every state of a program.

A receiver may get several messages of one kind from one sender as one `Bulk`. So wherever several
are in flight, all of them are given to copies of the receiver: to one in one go, to the other one
after the other. A message that the receiver refuses is among them, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from farref.protocol.borrowing import batched
from farref.protocol.bulk import KINDS
from farref.protocol.context import Context
from farref.protocol.effects import Effect
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import WorkerId
from farref.protocol.messages import InBulk

from .explorer import Mistake
from .state import clone, freeze
from .world import InFlight

RULE = "messages in bulk have the effect of single ones"


def by_sender(flying: Iterable[InFlight]) -> dict[tuple[WorkerId, WorkerId, type], list[InBulk]]:
    """The messages in flight that may come in bulk, by receiver, sender and kind."""
    found: dict[tuple[WorkerId, WorkerId, type], list[InBulk]] = {}
    for sender, to, message in flying:
        if type(message) in KINDS:
            found.setdefault((to, sender, type(message)), []).append(message)  # type: ignore[arg-type]  # it is one
    return found


def flaw(context: Context, sender: WorkerId, messages: list[InBulk]) -> Mistake | None:
    """A difference between *messages* of *sender* one by one and in one go; the first one twice."""
    messages = [messages[0], *messages]
    single, bulk = clone(context), clone(context)
    effects: list[Effect] = []
    refused = 0
    for each in messages:
        try:
            effects += single.take(sender, each)
        except ProtocolError:
            refused += 1
    found, errors = bulk.take_all(sender, messages)
    if freeze(single) != freeze(bulk):
        return Mistake(RULE, f"the tables differ after {messages}")
    if sorted(map(repr, batched(effects))) != sorted(map(repr, found)):
        return Mistake(RULE, f"{messages} have the effects {found}, not {effects}")
    if len(errors) != refused:
        return Mistake(RULE, f"{len(errors)} of {messages} are refused, not {refused}")
    return None
