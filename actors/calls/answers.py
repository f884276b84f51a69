"""The answer to a straight request, for the one thread that has made it and waits for it.

It is a future with no lock, no callbacks and one reader. Whatever is not plain becomes a `Future`:
an answer with references or an error, and a wait that cannot go on here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..core import notices

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable

    from ...protocol.ids import CallId, RRefId
    from ...serialization.payload import Payload
    from ..core.current import CurrentRun
    from ..core.notices import What
    from .futures import Future, Leads


class Answer(msgspec.Struct, eq=False):
    """The awaited answer. Filled under the endpoint's lock."""

    future_of: Callable[..., Future[Any]]
    lead: Leads
    """That of the waiting thread."""
    run: CurrentRun | None
    """The request that the thread runs, if it runs one."""
    awaited: What
    timeout: float
    """This, `awaited`, `rref`, `asker` and `end` are for the future that it may become."""
    rref: RRefId | None = None
    asker: weakref.ref[Any] | None = None
    call: CallId | None = None
    """The request, as soon as it is made."""
    end: float = 0.0
    over: bool = False
    """Nothing more is to be waited for here."""
    payload: Payload | None = None
    """The plain answer, pickled. The thread that leads takes it: this one, or one that leads for it
    while a signal handler waits. So nobody has to be woken."""
    future: Future[Any] | None = None
    """The future that it has become."""

    @property
    def what(self) -> str:
        """The awaited thing in words."""
        return notices.in_words(self.awaited)

    def become(self) -> Future[Any]:
        """The future for the rest of the wait: the answer is not plain, or may come elsewhere."""
        if self.future is None:
            future = self.future_of(self.awaited, self.timeout, rref=self.rref)
            future.deadline, future.asker = self.end, self.asker
            future.fetches = self.rref is not None
            self.future = future
        self.over = True
        self.lead.look()
        return self.future
