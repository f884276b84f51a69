"""Spans of OpenTelemetry: an endpoint's requests to others, and its work for them.

Each request makes two spans: one of the caller and, as its child, one of the callee around the
function. The caller's span is current while the request is pickled, and travels in the payload's
origin. The callee's span is current while the function runs, so the spans of the function's own
requests are its children.

============  ===================================  ================================
request       the caller's span ends               the callee's span
============  ===================================  ================================
call, method  with the reply                       around the function
creation      when it is sent: nobody waits        around the function
fetch         with the value                       none: it runs nothing of the user's
question      with the answer (`System.ask`)       around the handler
message       when it is sent                      around the handler
============  ===================================  ================================

Names and attributes are those of OpenTelemetry's conventions for RPC; the rest begins with
``farref.``. An endpoint that makes spans has a `calls`, `packer` and `server` of its own. So an
endpoint without spans has no extra work.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace
from opentelemetry import context, metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode

from ...protocol.messages import Cargo, target_of
from ...serialization.errors import Failure
from ...serialization.failures import name_of, text_of
from ...serialization.payload import Origin, Payload
from ..calls.calls import Calls
from ..calls.futures import Future
from ..hosting.versions import FARREF
from ..serving.server import Server
from ..values.packing import Pack, Packer
from ..values.wrapper import unwrapped

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable, Iterator

    from ...protocol.ids import CallId, RRefId, WorkerId
    from ...protocol.messages import Call, Fetch, Invoke, Request
    from ..calls.calls import Chain, Invocation
    from ..core.core import Core
    from ..serving.server import Started
    from ..values.box import Box
    from ..values.packing import Share
    from ..wire.messages import WorkerInfo

FLUSH = 2000
"""The most milliseconds that an ending process waits for its spans to leave."""

_tracer = trace.get_tracer("farref", FARREF)
_asking: ContextVar[Span | None] = ContextVar("farref span", default=None)
"""The span of the request that is being made, for its message and its future."""


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


def _end(span: Span) -> None:
    if span.is_recording():  # it has not ended yet
        span.end()


@contextmanager
def _inside(there: Context) -> Iterator[None]:
    token = context.attach(there)
    try:
        yield
    finally:
        context.detach(token)


class Spans:
    """The common part of an endpoint's spans, and the spans around handlers."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def start(
        self, method: str, request: str, kind: SpanKind, came: object = None, **more: str
    ) -> Context:
        """Start a span of this endpoint; returns the context in which it is current.

        Its parent is the span in *came*, the payload of a message.
        """
        origin = came.origin if isinstance(came, Payload) else None
        parent = propagate.extract(dict(origin.context)) if origin is not None else None
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

    def handle(self, cargo: Cargo, handler: Callable[..., Any], message: Any, sender: Any) -> Any:
        """Run *handler* with *message* inside a span, and await the result."""
        tag = getattr(cargo.payload, "tag", None)
        asked = isinstance(tag, tuple) and tag[0] == "ask"
        kind, request = (SpanKind.SERVER, "ask") if asked else (SpanKind.CONSUMER, "tell")
        there = self.start(type(message).__name__, request, kind, cargo.payload)
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
        """A handler that runs in the current span raised *error*."""
        _raised(trace.get_current_span(), error)


class FutureWithSpan(Future[Any]):
    """Ends its call's span when the outcome comes."""

    span: Span | None = None

    @classmethod
    def of(cls, *args: Any, **more: Any) -> FutureWithSpan:
        self = super().of(*args, **more)
        self.span = _asking.get()
        return self

    def finish(
        self,
        since: str = "PENDING",
        *,
        cargo: Cargo | None = None,
        error: BaseException | None = None,
    ) -> None:
        payload = cargo.payload if cargo is not None else None
        if not isinstance(getattr(payload, "tag", None), tuple):
            self._ended(payload or error)
        super().finish(since, cargo=cargo, error=error)

    def _take(self) -> None:
        super()._take()
        self._ended(self._exception)  # an answer is a message like others: it may hold an error

    def cancel(self) -> bool:
        if not self.done():
            self.given_up("cancelled")
        return super().cancel()

    def given_up(self, why: str) -> None:
        """End the span, if the outcome is not there: nobody waits for it any more."""
        span, self.span = self.span, None
        if span is not None:
            _failed(span, why, "nobody waits for the outcome any more")
            span.end()

    def expire(self) -> None:
        self.given_up("timeout")
        super().expire()

    def _late(self, seconds: float, *, ends: bool = False) -> Any:
        error = super()._late(seconds, ends=ends)
        if self.span is not None:
            self.span.record_exception(error)  # the span goes on: the reply may still come
        return error

    def _ended(self, outcome: object) -> None:
        span, self.span = self.span, None
        if span is None:
            return
        if isinstance(outcome, Failure):
            _failed(span, outcome.type_name, outcome.message)
        elif isinstance(outcome, BaseException):
            _raised(span, outcome)
        span.end()


class PackerWithSpans(Packer):
    """Records in each request the span that makes it."""

    def pack(self, value: object, to: WorkerId, tag: object = None, *, call: bool = False) -> Pack:
        pack = super().pack(value, to, tag, call=call)
        if _asking.get() is None:
            return pack
        headers: dict[str, str] = {}
        propagate.inject(headers)
        origin = Origin(context=tuple(headers.items()))

        def cargo(share: Share) -> Cargo:
            made = pack.cargo(share)
            if not isinstance(made.payload, Payload):
                return made
            return Cargo(payload=replace(made.payload, origin=origin), descriptors=made.descriptors)

        return Pack(pack.large, None, cargo)


class CallsWithSpans(Calls):
    """Makes a span for each request of one endpoint.

    *waits* is without effect here: the span's block ends when the request has left, and then the
    thread waits as for any future.
    """

    future = FutureWithSpan

    def remote(self, to: WorkerInfo, what: Invocation, target: RRefId | None = None) -> Any:
        if _asking.get() is not None:  # `remote_method` has made one
            return super().remote(to, what, target)
        with self._span(method_of(what[0]), "create", to, ends=True):
            return super().remote(to, what, target)

    def remote_method(self, rref: RRefId, what: Invocation) -> Any:
        with self._span(method_of(what[0]), "create", self._asked(rref), rref, ends=True):
            return super().remote_method(rref, what)

    def call(
        self,
        to: WorkerInfo,
        what: Invocation,
        timeout: float | None,
        chain: Chain,
        *,
        waits: bool = False,  # noqa: ARG002 - see above
    ) -> Future[Any]:
        with self._span(method_of(what[0]), "call", to):
            return super().call(to, what, timeout, chain)

    def invoke(
        self,
        rref: RRefId,
        what: Invocation,
        timeout: float | None,
        chain: Chain,
        *,
        waits: bool = False,  # noqa: ARG002 - see above
    ) -> Future[Any]:
        with self._span(method_of(what[0]), "invoke", self._asked(rref), rref):
            return super().invoke(rref, what, timeout, chain)

    def fetch(
        self,
        rref: RRefId,
        timeout: float | None,
        chain: Chain,
        *,
        copy: bool = True,
        direct: bool = False,
        follow: bool = True,
        waits: bool = False,  # noqa: ARG002 - see above
        asker: weakref.ref[Any] | None = None,
    ) -> Future[Any]:
        """No span for a wait for the value, which is a fetch without *copy*."""
        ask = partial(
            super().fetch, rref, timeout, chain, direct=direct, follow=follow, asker=asker
        )
        if not copy:
            return ask(copy=False)
        with self._span("to_here", "fetch", self._asked(rref), rref):
            return ask()

    def tell(self, to: WorkerInfo, message: object, tag: tuple[str, int] | None = None) -> None:
        """No span for an answer or a question: their request has one."""
        if tag is not None:
            super().tell(to, message, tag)
            return
        with self._span(type(message).__name__, "tell", to, kind=SpanKind.PRODUCER, ends=True):
            super().tell(to, message)

    def ask(
        self, to: WorkerInfo, message: object, timeout: float, answers: int = 1
    ) -> list[Future[Any]]:
        """The span ends with the last answer."""
        with self._span(type(message).__name__, "ask", to):
            *first, last = super().ask(to, message, timeout, answers)
        for each in cast("list[FutureWithSpan]", first):
            each.span = None
        return [*first, last]

    def _asked(self, rref: RRefId) -> WorkerInfo:
        self._core.check_open()  # first: deaths with the system are no news
        return self._core.owner(rref)

    @contextmanager
    def _span(
        self,
        method: str,
        request: str,
        to: WorkerInfo,
        rref: RRefId | None = None,
        *,
        kind: SpanKind = SpanKind.CLIENT,
        ends: bool = False,
    ) -> Iterator[Span]:
        """The span of a request that is made inside. It *ends* with the block or the future."""
        more = {} if rref is None else {"farref_rref": str(rref)}
        there = Spans(self._core).start(method, request, kind, server_address=to.name, **more)
        span = trace.get_current_span(there)
        token = _asking.set(span)
        try:
            with _inside(there):
                yield span
        except BaseException as error:
            _raised(span, error)
            _end(span)
            raise
        finally:
            _asking.reset(token)
        if ends:
            _end(span)


class ServerWithSpans(Server):
    """Makes a span around each function that others call."""

    def __init__(self, core: Core, **parts: Any) -> None:
        super().__init__(core, **parts)
        self._running: dict[CallId, Context] = {}
        core.closing.append(self._end)

    def _end(self) -> None:
        """The endpoint closes."""
        while self._running:
            span = trace.get_current_span(self._running.popitem()[1])
            _failed(span, "cancelled", "the endpoint ended")
            span.end()

    def call(self, request: Started, chain: Chain, invocation: Callable[[], Invocation]) -> Box:
        there = self._running.get(request.call)  # set if its arguments had to be fetched
        if there is None:
            payload = request.cargo.payload
            method = method_of(getattr(payload, "tag", None) or "")
            name = type(request).__name__.lower()
            there = Spans(self._core).start(method, name, SpanKind.SERVER, payload)
            self._running[request.call] = there
        with _inside(there):
            return super().call(request, chain, invocation)

    def _open(self, request: Started) -> Invocation:
        what = super()._open(request)
        span, name = trace.get_current_span(), method_of(what[0])
        if target_of(request) is None:  # or else the caller knew no more than the method's name
            span.update_name(name)
            span.set_attribute("rpc.method", name)
        span.set_attribute("code.function.name", name)
        return what

    def _await(self, request: Started, box: Box, chain: Chain) -> None:
        with _inside(self._running[request.call]):  # the coroutine's task inherits it
            super()._await(request, box, chain)

    def failure(self, error: BaseException, request: Request) -> Failure:
        there = self._running.get(request.call)
        if there is not None:
            _raised(trace.get_current_span(there), error)
        return super().failure(error, request)

    # The span ends before the reply leaves: a caller that has the reply finds it ended.

    def _pack(self, request: Call | Invoke | Fetch, box: Box) -> Pack:
        pack = super()._pack(request, box)
        self._over(request)
        return pack

    def _make(self, request: Request, box: Box) -> bool:
        serial = super()._make(request, box)
        self._over(request)
        return serial

    def _over(self, request: Request) -> None:
        there = self._running.pop(request.call, None)
        if there is not None:
            trace.get_current_span(there).end()
