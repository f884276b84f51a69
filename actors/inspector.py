"""Answering those who look at an endpoint, whatever its functions and handlers are doing.

A question comes as a plain Thespian message, so no fault of a link delays it, and is answered by a
thread that is there for that alone: not in the mailbox thread, which must not wait for a long
table, and not in the pools, which the user's functions and finalizers may occupy.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from ..serialization.failures import text_of
from .holdings import holdings_of
from .inspection import rows_of
from .pool import Pool
from .tracing import spell
from .wire import Inspect, Inspected

if TYPE_CHECKING:
    from collections.abc import Callable

    from .endpoint import Endpoint

log = logging.getLogger(__name__)

MOST = 8
"""Questions that wait for an answer; a further one is dropped, and its asker stops waiting."""


class Inspector:
    """Answers for one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._pool = Pool(1, f"farref inspector {endpoint.me}")

    def asked(self, question: Inspect, reply: Callable[[Inspected], object] | None = None) -> None:
        """Have *question* answered, by a message unless *reply* takes the answer. Any thread."""
        if self._pool.waits < MOST:
            send = partial(self._endpoint.port.post, question.asker)
            self._pool.submit(self._answer, question, reply or send)

    def _found(self, question: Inspect) -> Inspected:
        """The answer, with ids in full."""
        endpoint = self._endpoint
        endpoint.step(list)  # settle what has been let go of
        if question.about is not None:
            held = tuple(holdings_of(endpoint, question.about))
            return Inspected(question.token, holdings=held)
        rows = tuple(rows_of(endpoint, spell)) if question.rows else ()
        return Inspected(question.token, rows, endpoint.delivery.tally.read(endpoint))

    def close(self) -> None:
        """Answer nobody any more."""
        self._pool.close()

    def _answer(self, question: Inspect, reply: Callable[[Inspected], object]) -> None:
        try:
            reply(self._found(question))
        except BaseException as error:  # also one of the port, whose messages may be short
            text = f"{type(error).__name__}: {text_of(error)}"
            log.warning("%s could not say what it holds: %s", self._endpoint.me, text)
            reply(Inspected(question.token, error=text))
