"""Answers about an endpoint, even while its functions and handlers are busy.

A question comes as a plain Thespian message, so no fault of a link delays it. A thread of its own
answers it: not the mailbox thread, which must not wait for a long table, and not the pools, which
the user's functions and finalizers may occupy.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ...printable import logger
from ...protocol.effects import Garbage
from ...protocol.errors import WorkerDiedError
from ...protocol.ids import WorkerId
from ...serialization.failures import text_of
from ..base.interrupts import new_future
from ..core.core import Core, Internal
from ..core.delivery import Delivery
from ..core.pool import Pool
from ..core.registrar_client import RegistrarClient
from ..cycles.collector import Collector
from ..recording.tracing import spell
from ..values.objects import Objects
from ..wire.messages import Inspect, Inspected, WorkerInfo
from .counting import Counting

log = logger(__name__)

PATIENCE = 5.0
"""Seconds that an endpoint has to answer."""
COLLECT_PATIENCE, SLACK = 30.0, 5.0
"""Seconds for the searches of `collect` by default, and for their answers."""
LATENCIES = 10.0
"""Seconds for which an endpoint counts latencies after a question for its overview."""
LEAK_AGE = 60.0
"""Seconds after which an unreachable object is suspected."""
MOST = 8
"""Questions that may wait for an answer. A further one is dropped, and its asker times out."""


class Inspector(Internal):
    """Answers for one endpoint, and asks others for it."""

    def __init__(
        self,
        core: Core,
        *,
        registrar_client: RegistrarClient,
        delivery: Delivery,
        objects: Objects,
        counting: Counting,
        collector: Collector,
    ) -> None:
        self.core = core
        self.registrar_client = registrar_client
        self._delivery = delivery
        self._objects = objects
        self._counting = counting
        self._collector = collector
        core.takers[Inspect] = self.asked
        self._pool = Pool(1, f"farref inspector {core.me}", core.threads)

    def inspect(
        self, infos: Iterable[WorkerInfo], seconds: float, **what: Any
    ) -> dict[WorkerId, Inspected | None]:
        """The answer of each of *infos*; None if it did not answer within *seconds*, or died.

        All are asked at the same time. *what* they are asked: see `Inspect`.
        """
        core, end = self.core, time.monotonic() + seconds
        answers: dict[WorkerId, Inspected | None] = {}
        with contextlib.ExitStack() as asking:
            asked = {
                info.id: asking.enter_context(
                    self.registrar_client.posed(Inspect, info, asker=core.address, **what)
                )
                for info in infos
                if info.id != core.me
            }
            for info in infos:
                if info.id == core.me:  # in another thread, to see this thread's variables, too
                    mine = asked[info.id] = new_future()
                    question = Inspect(0, info.address, **what)
                    self.asked(question, mine.set_result)
            for worker, answer in asked.items():
                there = core.port.wait(answer, max(0.0, end - time.monotonic()))
                died = there and isinstance(answer.exception(), WorkerDiedError)
                answers[worker] = answer.result(0) if there and not died else None
        return answers

    def collect(self, seconds: float, *, cuts: bool) -> tuple[Garbage, ...]:
        """Have all endpoints search for garbage for *seconds* at most. Returns each set once."""
        infos = self.registrar_client.workers()
        answers = self.inspect(infos, seconds + SLACK, collect=(seconds, cuts))
        found = {
            frozenset(garbage.objects): garbage
            for answer in answers.values()
            if answer is not None
            for garbage in answer.garbage
        }
        return tuple(sorted(found.values(), key=lambda garbage: garbage.objects))

    def asked(self, question: Inspect, reply: Callable[[Inspected], object] | None = None) -> None:
        """Have *question* answered: to *reply*, or else by a message. Any thread."""
        if self._pool.waits < MOST:
            send = partial(self.core.port.post, question.asker)
            self._pool.submit(self._answer, question, reply or send)

    def _found(self, question: Inspect) -> Inspected:
        """The answer, with ids in full."""
        core, objects = self.core, self._objects
        core.step(list)  # settle the dropped references
        if question.collect is not None:
            seconds, cuts = question.collect
            found = self._collector.collect(seconds, cuts=cuts)
            return Inspected(question.token, garbage=tuple(found))
        if question.about is not None:
            from .holdings import holdings_of  # noqa: PLC0415 - few users inspect
            from .inspection import matches_of, rows_of  # noqa: PLC0415 - as above

            about = question.about
            if isinstance(about, str):
                return Inspected(question.token, matches=matches_of(core, about, spell))
            if question.rows:
                return Inspected(question.token, tuple(rows_of(core, objects, spell, only=about)))
            held = tuple(holdings_of(core, objects, self._delivery, about))
            return Inspected(question.token, holdings=held)
        if question.overview is not None:
            from .overview import overview_of  # noqa: PLC0415 - as above

            overview = overview_of(self._counting, objects, question.overview)
            return Inspected(question.token, counters=overview.counters, overview=overview)
        from .inspection import rows_of  # noqa: PLC0415 - as above

        rows = tuple(rows_of(core, objects, spell)) if question.rows else ()
        stops = tuple(place for (of, _), place in core.debugged.items() if of == core.me)
        return Inspected(question.token, rows, self._counting.read(), stops=stops)

    def close(self) -> None:
        self._pool.close()

    def _answer(self, question: Inspect, reply: Callable[[Inspected], object]) -> None:
        try:
            reply(self._found(question))
        except BaseException as error:  # also an error of the port: the answer may be too long
            text = f"{type(error).__name__}: {text_of(error)}"
            log.warning("%s could not list its references: %s", self.core.me, text)
            reply(Inspected(question.token, error=text))
