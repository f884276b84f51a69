"""Spans of OpenTelemetry: an endpoint's requests to others, and its work for them.

Each request makes two spans: one of the caller and, as its child, one of the callee around the
function. The caller's span is current while the request is pickled, and travels in the payload's
origin. The callee's span is current while the function runs, so the spans of the function's own
requests are its children. docs/observability.md lists the requests, and their attributes.

The functions that every request runs call `Spans`, as an endpoint's `EndpointHooks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Token
from typing import Any, TypeVar

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode

from ...protocol.ids import CallId, RRefId
from ...protocol.messages import Cargo, Request, target_of
from ...serialization.errors import Failure
from ...serialization.failures import name_of, text_of
from ...serialization.payload import Payload
from ..calls.waiter import Waiter
from ..core.core import Core
from ..core.hooks import EndpointHooks, RequestHooks
from ..hosting.versions import FARREF
from ..serving.server import Started
from ..values.wrapper import unwrapped
from ..wire.messages import WorkerInfo

T = TypeVar("T")

FLUSH = 2000
"""The most milliseconds that an ending process waits for its spans to leave."""

_tracer = trace.get_tracer("farref", FARREF)


def flush() -> None:
    """Wait at most `FLUSH` until spans and metrics have left this process."""
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        force_flush = getattr(provider, "force_flush", None)  # only the SDK's has it
        if force_flush is not None:
            force_flush(FLUSH)


def method_of(what: object) -> str:
    """The name of the function or method *what*; a method may be given as text."""
    what = unwrapped(what)
    if isinstance(what, str):
        return what
    module, name = getattr(what, "__module__", None), getattr(what, "__qualname__", None)
    name = name or type(what).__qualname__
    return f"{module}.{name}" if module else str(name)


def _failed(span: Span, kind: str, text: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR, text)


def _raised(span: Span, error: BaseException) -> None:
    _failed(span, name_of(type(error)), text_of(error))
    span.record_exception(error, {"exception.message": text_of(error)})


@contextmanager
def _inside(there: Context) -> Iterator[None]:
    token = context.attach(there)
    try:
        yield
    finally:
        context.detach(token)


class AskedWithSpan(RequestHooks):
    """A request of this endpoint, with its span. The span ends once: several threads may end it."""

    def __init__(self, there: Context) -> None:
        """The span is that of *there*, which is the current context until `sent`."""
        self._open = [trace.get_current_span(there)]
        headers: dict[str, str] = {}
        propagate.inject(headers, there)
        self.context = tuple(headers.items())
        self._token: Token[Context] | None = context.attach(there)

    def sent(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            context.detach(token)

    def over(self, outcome: object = None) -> None:
        try:
            span = self._open.pop()
        except IndexError:
            return
        if isinstance(outcome, Failure):
            _failed(span, outcome.type_name, outcome.message)
        elif isinstance(outcome, BaseException):
            _raised(span, outcome)
        elif isinstance(outcome, str):
            _failed(span, outcome, "nobody waits for the outcome any more")
        span.end()

    def late(self, error: BaseException) -> None:
        for span in self._open:
            span.record_exception(error)


class Spans(EndpointHooks):
    def __init__(self, core: Core) -> None:
        self._core = core
        self._running: dict[CallId, Context] = {}
        core.closing.append(self._close)

    def _start(
        self, method: str, request: str, kind: SpanKind, parent: Context | None, **more: str
    ) -> Context:
        """Start a span of this endpoint; returns the context in which it is current.

        Its parent is the span in *parent*, or else the current one.
        """
        attributes = {
            "rpc.system.name": "farref",
            "rpc.method": method,
            "farref.request": request,
            "farref.system": self._core.settings.system,
            "farref.endpoint": self._core.me.name,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        span = _tracer.start_span(method, parent, kind, attributes)
        return trace.set_span_in_context(span, parent)

    # ---- requests to others

    def asks(
        self,
        ask: Callable[..., T],
        method: object,
        request: str,
        to: WorkerInfo,
        rref: RRefId | None = None,
    ) -> T:
        more = {} if rref is None else {"farref_rref": str(rref)}
        kind = SpanKind.PRODUCER if request == "tell" else SpanKind.CLIENT
        name = method_of(method)
        there = self._start(name, request, kind, None, server_address=to.name, **more)
        asked = AskedWithSpan(there)
        try:
            made = ask(asked=asked)
        except BaseException as error:
            asked.sent()
            if not self._is_under_way(asked):
                asked.over(error)
            raise
        asked.sent()
        if request in ("create", "tell"):
            asked.over()
        return made

    def _is_under_way(self, asked: AskedWithSpan) -> bool:
        """Whether the reply to *asked* will end it: a signal handler has interrupted the wait."""
        for each in self._core.front.calls.awaited():
            if each.asked is asked:
                if isinstance(each, Waiter):  # whose thread does not wait any more
                    each.calls.future_of(each)
                return True
        return False

    # ---- functions and methods for others

    def begins(self, request: Started) -> Token[Context]:
        there = self._running.get(request.call)  # set if its arguments had to be fetched
        if there is None:
            payload = request.cargo.payload
            method = method_of(getattr(payload, "tag", None) or "")
            kind = type(request).__name__.lower()
            there = self._start(method, kind, SpanKind.SERVER, _sender_of(payload))
            self._running[request.call] = there
        return context.attach(there)

    def pauses(self, token: Token[Context]) -> None:
        context.detach(token)

    def runs(self, request: Started, function: object) -> None:
        span, name = trace.get_current_span(), method_of(function)
        if target_of(request) is None:  # or else the caller knew no more than the method's name
            span.update_name(name)
            span.set_attribute("rpc.method", name)
        span.set_attribute("code.function.name", name)

    def failed(self, request: Request, error: BaseException) -> None:
        there = self._running.get(request.call)
        if there is not None:
            _raised(trace.get_current_span(there), error)

    def ended(self, request: Request) -> None:
        there = self._running.pop(request.call, None)
        if there is not None:
            trace.get_current_span(there).end()

    def _close(self) -> None:
        while self._running:
            span = trace.get_current_span(self._running.popitem()[1])
            _failed(span, "cancelled", "the endpoint ended")
            span.end()

    # ---- handlers

    def handle(self, cargo: Cargo, handler: Callable[..., Any], message: Any, sender: Any) -> Any:
        tag = getattr(cargo.payload, "tag", None)
        asked = isinstance(tag, tuple) and tag[0] == "ask"
        kind, request = (SpanKind.SERVER, "ask") if asked else (SpanKind.CONSUMER, "tell")
        there = self._start(type(message).__name__, request, kind, _sender_of(cargo.payload))
        with _inside(there):
            result = handler(message, sender, cargo.descriptors)
        if result is not None:
            return self._awaited(there, result)
        trace.get_current_span(there).end()
        return None

    async def _awaited(self, there: Context, handler: Any) -> None:
        try:
            with _inside(there):
                await handler
        finally:
            trace.get_current_span(there).end()

    def raised(self, error: BaseException) -> None:
        _raised(trace.get_current_span(), error)


def _sender_of(payload: object) -> Context:
    """The context in which *payload* was sent. The receiving thread may be in another one."""
    origin = payload.origin if isinstance(payload, Payload) else None
    return propagate.extract(dict(origin.context) if origin is not None else {}, Context())
