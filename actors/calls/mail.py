"""Incoming one-way messages: an answer for an `ask` that waits, or a message for the user."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...printable import logger
from ...protocol.effects import Hand
from ..core import notices
from ..core.core import Internal
from ..wire.cargoes import is_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from thespian.actors import ActorAddress

    from ...protocol.ids import WorkerId
    from ...protocol.messages import Cargo, Tell
    from ..core.brief import Later
    from ..core.core import Core
    from .calls import Calls

    Take = Callable[[Cargo, ActorAddress], None]


log = logger(__name__)


def _log_late(me: WorkerId, sender: WorkerId) -> None:
    notices.notice(
        log,
        logging.WARNING,
        f"{me} dropped an answer of {sender}: nobody waits for it. It came late (give `ask` a "
        "longer timeout), or is not the first: `ask(..., answers=n)` returns a list of n answers",
    )


class Mail(Internal):
    """Hands over the one-way messages that come to one endpoint."""

    def __init__(self, core: Core, calls: Calls, take: Take) -> None:
        """*take* gives a message to the user: its cargo, and its sender."""
        self._core = core
        self._calls = calls
        self._take = take
        core.handlers[Hand] = self._hand

    def _hand(self, effect: Hand, later: Later) -> None:
        later.append(lambda: self._hand_over(effect.sender, effect.message))

    def _hand_over(self, sender: WorkerId, message: Tell) -> None:
        """Runs without the lock."""
        core, cargo = self._core, message.cargo
        payload: Any = cargo.payload
        if is_answer(payload):
            future = self._calls.ask_answered(payload.tag[1])
            if future is None:
                core.discards.message(cargo.descriptors)
                core.chores.submit(_log_late, core.me, sender)
            else:
                future.finish(cargo=cargo)
            return
        address = core.address_of(sender)
        if address is None:
            core.discards.message(cargo.descriptors)
            return
        self._take(cargo, address)
