"""The answer to a straight request, for the one thread that has made it and waits for it.

It is a future with no lock, no callbacks and one reader. Whatever is not plain becomes a `Future`:
an answer with references or an error, and a wait that cannot go on here.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from ..core import notices

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable

    from ...protocol.ids import CallId, RRefId
    from ...serialization.payload import Payload
    from ..core.current import CurrentRun
    from ..core.notices import What
    from .futures import Future, Leads


class Answer:
    """The awaited answer. Filled under the endpoint's lock."""

    __slots__ = (
        *("_asker", "_end", "_future_of", "_lead", "_rref", "_timeout", "_what"),
        *("call", "future", "over", "payload", "run"),
    )

    call: CallId
    """The request."""

    def __init__(
        self,
        future_of: Callable[..., Future[Any]],
        lead: Leads,
        run: CurrentRun | None,
        what: What,
        *,
        timeout: float,
        end: float,
        rref: RRefId | None = None,
        asker: weakref.ref[Any] | None = None,
    ) -> None:
        """*lead* is that of the waiting thread. The rest is for the future that it may become."""
        self.run = run
        """The request that the thread runs, if it runs one."""
        self._future_of, self._lead, self._what = future_of, lead, what
        self._timeout, self._end, self._rref, self._asker = timeout, end, rref, asker
        self.over = False
        """Nothing more is to be waited for here."""
        self.payload: Payload | None = None
        """The plain answer, pickled."""
        self.future: Future[Any] | None = None
        """The future that it has become."""

    @property
    def what(self) -> str:
        """The awaited thing in words."""
        return notices.in_words(self._what)

    def came(self, payload: Payload) -> None:
        """The answer is plain."""
        self.payload, self.over = payload, True
        if self._lead.leader != get_ident():
            self._lead.look()

    def become(self) -> Future[Any]:
        """The future for the rest of the wait: the answer is not plain, or may come elsewhere."""
        if self.future is None:
            future = self._future_of(self._what, self._timeout, rref=self._rref)
            future.deadline, future.asker = self._end, self._asker
            self.future = future
        self.over = True
        self._lead.look()
        return self.future
