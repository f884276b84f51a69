"""The orderly end of a program: it waits for the work that it has asked for.

The program waits for its unanswered calls, each at most until the call's own timeout, and for the
objects that others are making for it. A creation has no answer, so the program asks the owners, at
growing intervals. What a function asks others for is that function's matter, unless it returns a
reference to it, and the program keeps the alias. Callbacks of futures (`then`) count as well.
One-way messages do not: an actor handles the messages that came before its exit.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from ...printable import printable
from ...protocol.errors import OverloadedError
from ...protocol.ids import RRefId
from ..base.interrupts import new_future
from ..calls.futures import Future
from ..core import sites
from ..shells.endpoint import Endpoint
from ..wire.messages import StillMaking, Unfinished, WorkerInfo

Made = tuple[RRefId | None, WorkerInfo]
"""An object that is being made, and its owner; None: the owner has not answered."""

LATE = 2.0
"""Seconds after which a program at a terminal says why it does not end."""
SHORT, LONG = 0.002, 0.25
"""Seconds between two questions to the owners: the first time, and at most."""
ANSWER = 2.0
"""Seconds that an owner may take to answer. If it takes longer, it is asked again."""
PARTING = 1.0
"""Seconds that an owner has at least to name what is given up. Only a stopped one takes so long."""
NAMED = 10
"""The most pieces of work that are named."""


class Ending:
    def __init__(self, endpoint: Endpoint, *, last: bool) -> None:
        """*last*: the system ends with this program."""
        self._endpoint = endpoint
        self._core = endpoint.core
        self._unasked = endpoint.unasked
        self._last = last

    def wait(self, seconds: float) -> list[str]:
        """Wait for the work, *seconds* at most. Returns the pieces that were given up, in words."""
        end = time.monotonic() + seconds
        pause = SHORT
        calls: set[Future[Any]] = set()
        making: list[Made] = []
        with Progress() as progress:
            while not self._core.closed:
                self._core.do_soon()
                unanswered = self._unasked.unanswered()
                calls.update(unanswered)
                left = end - time.monotonic()
                # Calls that end may make objects: ask for the objects after that.
                if unanswered and left > 0:
                    making = []
                elif left > 0 or not making:  # at the end the last answers will do
                    making = self._making(max(min(left, ANSWER), PARTING))
                if left <= 0 or not (unanswered or making or not self._core.callbacks.done()):
                    return self._words(calls, making)
                progress.tell(partial(self._words, calls, making))
                if unanswered:
                    self._core.port.wait(unanswered[0], min(left, LONG))
                else:
                    self._core.port.wait(new_future(), min(left, pause))
                    pause = min(2 * pause, LONG)
        return []

    def _making(self, seconds: float) -> list[Made]:
        """The objects that are being made for this program. Owners have *seconds* to answer."""
        core, unasked = self._core, self._unasked
        owners = unasked.owners()
        making: list[Made] = []
        answers: list[tuple[WorkerInfo, StillMaking | None]] = []
        with contextlib.ExitStack() as asking:
            what = {"asker": core.address, "me": core.me, "last": self._last}
            end = time.monotonic() + seconds
            asked = []
            for to in owners:
                if to.id != core.me:
                    question = self._endpoint.registrar_client.posed(Unfinished, to, **what)
                    try:
                        asked.append((to, asking.enter_context(question)))
                    except OverloadedError:  # for want of descriptors: its answer is not known
                        answers.append((to, None))
            for to, answer in asked:
                there = core.port.wait(answer, max(0.0, end - time.monotonic()))
                if there and answer.exception(0) is not None:
                    continue  # it has died, and the object with it
                answers.append((to, answer.result(0) if there else None))
        here = unasked.making(0, core.me, last=self._last)
        answers += [(to, here) for to in owners if to.id == core.me]
        for to, said in answers:
            if said is None:
                making.append((None, to))
            else:
                unasked.log_creations(said.errors)
                making += [(rref, to) for rref in said.rrefs]
        if not making and unasked.arriving() and owners:
            making.append((None, owners[-1]))
        return making

    def _words(self, calls: Iterable[Future[Any]], making: list[Made]) -> list[str]:
        words = [
            f"{each.what} (called at {sites.said(each.place)})" if each.place else each.what
            for each in calls
            if not each.done()
        ]
        words += self._unasked.calls(making)
        if self._core.callbacks:
            words.append(f"{len(self._core.callbacks)} callbacks of futures")
        return words


def named(words: list[str]) -> str:
    """The first *words*, and the number of the others."""
    more = len(words) - NAMED
    return "; ".join(words[:NAMED]) + (f"; and {more} more" if more > 0 else "")


class Progress:
    """A line at the terminal, while a wait takes long. Nothing without a terminal."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._status: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def tell(self, words: Any) -> None:
        """Show the result of *words*, if it is late."""
        if time.monotonic() < self._begun + LATE or not sys.stderr or not sys.stderr.isatty():
            return
        from rich.console import Console  # noqa: PLC0415 - most programs end in time
        from rich.markup import escape  # noqa: PLC0415 - the same

        text = escape(printable(f"farref waits for {named(words())} (Ctrl-C ends the system now)"))
        if self._status is None:
            self._status = Console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)
