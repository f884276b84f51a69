"""The hooks of an endpoint: `telemetry` sets them. The functions of the path call them, if any.

A hook may run the user's code, so none is called under the endpoint's lock, or in a step of the
protocol, except `EndpointHooks.failed` for a request that was refused, and has not begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ...protocol.ids import RRefId
from ...protocol.messages import Call, Cargo, Create, Invoke, Request
from ..wire.messages import WorkerInfo

T = TypeVar("T")


class RequestHooks(Protocol):
    """A request that this endpoint makes. It is over once; what is told later has no effect."""

    context: tuple[tuple[str, str], ...]
    """For the request's `Origin`."""

    def sent(self) -> None:
        """It has left, and the thread that has made it may do work for others while it waits."""

    def over(self, outcome: object = None) -> None:
        """The outcome is there: an error, a `Failure`, or anything else for a value.

        Or nobody waits for it any more: the reason, in one word.
        """

    def late(self, error: BaseException) -> None:
        """A wait has ended with *error*, but the outcome may still come."""


class EndpointHooks(Protocol):
    """Told of the requests that one endpoint makes, and of its work for others."""

    def asks(
        self,
        ask: Callable[..., T],
        method: object,
        request: str,
        to: WorkerInfo,
        rref: RRefId | None = None,
    ) -> T:
        """Have *ask* pack and send a request for *method*; returns its result.

        *ask* gets the `RequestHooks` as its keyword *asked*. *request* is the kind of the request.
        """

    def begins(self, request: Call | Create | Invoke) -> Any:
        """Work for *request* begins, or goes on, in this thread or task. Returns a token."""

    def pauses(self, token: Any) -> None:
        """The work that *token* stands for goes on elsewhere, or has ended."""

    def runs(self, request: Call | Create | Invoke, function: object) -> None:
        """*function*, which came with *request*, is about to run."""

    def failed(self, request: Request, error: BaseException) -> None:
        """*error* becomes the answer to *request*."""

    def ended(self, request: Request) -> None:
        """The answer to *request* is about to leave, if its function has run."""

    def handle(self, cargo: Cargo, handler: Callable[..., Any], message: Any, sender: Any) -> Any:
        """Run *handler* with *message*, which came in *cargo*; returns its result."""

    def raised(self, error: BaseException) -> None:
        """The handler that runs in this thread or task has raised *error*."""
