"""Spans and metrics by OpenTelemetry's SDK, in the program and in the processes of actors."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import FetchTimeoutError, RefActor, SerializationError, System, WorkerDiedError
from farref.actors.core.current import frame
from farref.testing import until

from ..helpers import hold
from ..scripts import run
from .keeping import exporters, forget, readers, remember

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

DUTIES_UNCHECKED = "it counts functions"

pytest.importorskip("opentelemetry.sdk")
pytestmark = pytest.mark.processes


EndedSpan = SimpleNamespace


def plain(span: ReadableSpan) -> EndedSpan:
    """The parts of a span that the tests check."""
    told = json.loads(span.to_json())
    more = told["attributes"]
    return EndedSpan(
        name=told["name"],
        kind=told["kind"].removeprefix("SpanKind."),
        endpoint=more.get("farref.endpoint"),
        request=more.get("farref.request"),
        trace=told["context"]["trace_id"],
        id=told["context"]["span_id"],
        parent=told["parent_id"],
        error=more.get("error.type"),
        text=told["status"].get("description"),
        events=[event["attributes"].get("exception.type") for event in told["events"]],
        attributes=more,
    )


def ended() -> list[EndedSpan]:
    """The spans that have ended in this process. The span of a call of this has not."""
    return [plain(span) for span in exporters[os.getpid()].get_finished_spans()]


@pytest.fixture
def system() -> Iterator[System]:
    with System(telemetry=remember) as started:
        started.worker("B"), started.worker("C")
        yield started
    forget()


def gathered(*workers: str) -> list[EndedSpan]:
    """All spans so far, without those of gathering them."""
    found = [told for name in workers for told in farref.rpc_sync(name, ended)] + ended()
    return [told for told in found if not told.name.endswith((".ended", ".forget"))]


def only(spans: list[EndedSpan], **wanted: str) -> EndedSpan:
    found = [s for s in spans if all(getattr(s, key) == each for key, each in wanted.items())]
    assert len(found) == 1, (wanted, spans)
    return found[0]


# ---- functions for the workers


def outer(number: int) -> int:
    return int(farref.rpc_sync("C", inner, (number,)))


async def outer_async(number: int) -> int:
    return int(await farref.rpc_async("C", inner, (number,)))


def inner(number: int) -> int:
    if number < 0:
        raise ValueError("below zero")
    return number + 1


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Asked:
    def __init__(self, number: int) -> None:
        self.number = number


class Answerer(RefActor):
    async def receiveMsg_Asked(self, message: Asked, sender: Any) -> None:
        self.send(sender, await farref.rpc_async("C", inner, (message.number,)))

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        raise ValueError(message)

    def receiveMsg_int(self, _: int, sender: Any) -> None:
        self.send(sender, ended())

    def receiveMsg_list(self, message: list[object], sender: Any) -> None:
        for each in message:
            self.send(sender, each)


# ---- the tests


@pytest.mark.parametrize("function", [outer, outer_async], ids=["plain", "async"])
def test_one_tree_over_three_processes(system: System, function: Any) -> None:
    assert farref.rpc_sync("B", function, (1,)) == 2
    spans = gathered("B", "C")
    here = only(spans, endpoint="program")
    at_b = only(spans, endpoint="B", kind="SERVER")
    b_asks = only(spans, endpoint="B", kind="CLIENT")
    at_c = only(spans, endpoint="C")
    assert len(spans) == 4
    assert here.parent is None
    assert (at_b.parent, b_asks.parent, at_c.parent) == (here.id, at_b.id, b_asks.id)
    assert {span.trace for span in spans} == {here.trace}
    name = f"{__name__}.{function.__name__}"
    assert (here.name, at_b.name) == (name, name)
    assert (b_asks.name, at_c.name) == (f"{__name__}.inner", f"{__name__}.inner")
    assert (here.kind, at_c.kind) == ("CLIENT", "SERVER")
    assert [span.error for span in spans] == [None] * 4
    assert here.attributes["rpc.system.name"] == "farref"
    assert here.attributes["rpc.method"] == at_b.attributes["rpc.method"] == name
    assert here.attributes["server.address"] == "B"
    assert here.attributes["farref.system"] == system.name


@pytest.mark.parametrize("function", [outer, outer_async], ids=["plain", "async"])
def test_an_error_is_recorded_all_the_way(system: System, function: Any) -> None:
    with pytest.raises(ValueError, match="below zero"):
        farref.rpc_sync("B", function, (-1,))
    spans = gathered("B", "C")
    assert len(spans) == 4
    assert {span.error for span in spans} == {"ValueError"}
    assert {span.text for span in spans} == {"below zero"}
    assert only(spans, endpoint="C").events == ["ValueError"]


def test_creations_methods_and_fetches(system: System) -> None:
    from opentelemetry import trace

    with trace.get_tracer("test").start_as_current_span("mine"):
        ref = farref.remote("B", list, ("ab",))
        ref.rpc_sync().append("c")
        assert ref.to_here() == ["a", "b", "c"]
        sizes = ref.remote().count("a")
        assert sizes.to_here() == 1
    spans = gathered("B")
    mine = only(spans, name="mine")
    create = only(spans, request="create", endpoint="program", name="builtins.list")
    assert create.kind == "CLIENT"
    assert only(spans, request="create", endpoint="B", name="builtins.list").parent == create.id
    append = only(spans, request="invoke", endpoint="program")
    there = only(spans, request="invoke", endpoint="B")
    assert (append.name, there.name, there.parent) == ("append", "append", append.id)
    assert there.attributes["code.function.name"] == "list.append"
    assert append.attributes["farref.rref"] == str(ref.id)
    counted = only(spans, request="create", endpoint="program", name="count")
    assert only(spans, request="create", endpoint="B", name="count").parent == counted.id
    fetches = [span for span in spans if span.request == "fetch"]
    assert [(span.endpoint, span.kind) for span in fetches] == [("program", "CLIENT")] * 2
    asked_here = [s for s in spans if s.endpoint == "program" and s.name != "mine"]
    assert {span.parent for span in asked_here} == {mine.id}
    assert {span.trace for span in spans} == {mine.trace}


def test_questions_and_messages(system: System) -> None:
    actor = system.create(Answerer, "D")
    assert system.ask(actor, Asked(1)) == 2
    with pytest.raises(ValueError, match="on purpose"):
        system.ask(actor, "on purpose")
    system.tell(actor, "nobody is told")
    assert system.ask(actor, [1, 2], answers=2) == [1, 2]
    at_d = system.ask(actor, 0)
    spans = at_d + gathered("C")
    question = only(spans, name="Asked", endpoint="program")
    handler = only(spans, name="Asked", endpoint="D")
    assert only(spans, name="list", endpoint="program").error is None
    assert (question.kind, handler.kind, handler.parent) == ("CLIENT", "SERVER", question.id)
    asks = only(spans, endpoint="D", request="call")
    assert asks.parent == handler.id
    assert only(spans, endpoint="C").parent == asks.id
    failed = only(spans, name="str", endpoint="program", request="ask")
    assert (
        failed.error == only(spans, name="str", endpoint="D", request="ask").error == "ValueError"
    )
    sent = only(spans, name="str", endpoint="program", request="tell")
    came = only(spans, name="str", endpoint="D", request="tell")
    assert (sent.kind, came.kind, came.parent) == ("PRODUCER", "CONSUMER", sent.id)
    assert (sent.error, came.error) == (None, "ValueError")


def test_a_call_that_nobody_answers(system: System) -> None:
    future = farref.rpc_async("B", time.sleep, (2,))
    with pytest.raises(FetchTimeoutError):
        future.result(0.05)
    assert not ended()
    assert future.cancel(interrupt=True)
    span = only(ended(), name="time.sleep")
    assert (span.error, span.events) == ("cancelled", ["farref.protocol.errors.FetchTimeoutError"])


FAILING: dict[str, tuple[Any, type[Exception], str]] = {
    "timeout": (
        lambda: farref.rpc_sync("B", time.sleep, (2,), timeout=0.05),
        FetchTimeoutError,
        "time.sleep",
    ),
    "farref.protocol.errors.SerializationError": (
        lambda: farref.rpc_sync("B", inner, (threading.Lock(),)),
        SerializationError,
        f"{__name__}.inner",
    ),
    "farref.protocol.errors.WorkerDiedError": (
        lambda: farref.rpc_sync("B", killed),
        WorkerDiedError,
        f"{__name__}.killed",
    ),
}
"""By the error of the span: a call that gets no answer, what it raises, and its function."""


@pytest.mark.parametrize("error", FAILING)
def test_a_call_that_gets_no_answer_has_an_error(error: str, system: System) -> None:
    call, raises, function = FAILING[error]
    with pytest.raises(raises):
        call()
    assert only(ended(), name=function).error == error


def test_a_call_whose_future_is_dropped(system: System) -> None:
    farref.rpc_async("B", inner, (1,))
    assert until(system, ended)
    assert only(ended(), name=f"{__name__}.inner").error is None


def test_a_call_that_the_end_of_the_system_overtakes(system: System) -> None:
    with System(telemetry=remember) as second:
        second.worker("E")
        future = farref.rpc_async("E", time.sleep, (60,))
        second.shutdown(graceful=False)
    assert future.done()
    assert only(ended(), name="time.sleep").error == "farref.protocol.errors.SystemDownError"


def test_a_wait_that_a_signal_interrupts(system: System, gate: Path) -> None:
    """It cancels the call, and that ends the span."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    farref.rpc_sync("B", int)
    forget()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            farref.rpc_sync("B", hold, (gate,))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert only(ended(), name=f"{hold.__module__}.hold").error == "cancelled"
    gate.touch()


def test_a_request_of_code_that_pickles_an_argument(system: System) -> None:
    """It is a child of the request that is pickled, and none of another one is."""
    farref.rpc_sync("B", inner, (Counted(),))
    spans = gathered("B")
    outermost = only(spans, name=f"{__name__}.inner", endpoint="program")
    asks = only(spans, name="builtins.abs", endpoint="program")
    assert (outermost.parent, asks.parent) == (None, outermost.id)
    assert only(spans, name="builtins.abs", endpoint="B").parent == asks.id


class Counted:
    """Becomes a number that another worker has found."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (farref.rpc_sync("B", abs, (-1,)),)


def watch() -> None:
    """Note each span that begins or ends in a step of this process's endpoint."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    core = frame().core

    class Watching(SpanProcessor):
        def on_start(self, span: object, parent_context: object = None) -> None:
            steps.append(core.lock._is_owned())  # type: ignore[attr-defined]  # of any `RLock`

        def on_end(self, span: object) -> None:
            steps.append(core.lock._is_owned())  # type: ignore[attr-defined]  # as above

    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    provider.add_span_processor(Watching())


steps: list[bool] = []


def seen() -> list[bool]:
    return steps


def test_no_span_begins_or_ends_in_a_step(system: System) -> None:
    """A processor may wait, and may call farref."""
    watch()
    farref.rpc_sync("B", watch)
    actor = system.create(Answerer, "D")
    ref, mine = farref.remote("B", list, ("ab",)), farref.RRef(1)
    for _ in range(10):
        assert ref.rpc_sync().count("a") == 1
        assert ref.to_here() == ["a", "b"]
        assert farref.rpc_sync("B", type, (mine,)) is farref.RRef
        assert farref.rpc_async("B", outer_async, (1,)).result() == 2
        assert farref.remote("B", inner, (1,)).to_here() == 2
        assert system.ask(actor, [1]) == 1
        with pytest.raises(ValueError, match="below zero"):
            farref.rpc_sync("B", inner, (-1,))
    future = farref.rpc_async("B", time.sleep, (2,), timeout=0.05)
    farref.rpc_async("B", time.sleep, (2,)).cancel()
    with pytest.raises(FetchTimeoutError):
        future.result()
    for found in (steps, farref.rpc_sync("B", seen)):
        assert not any(found)
        assert len(found) > 100


def test_metrics_are_read_in_each_process(system: System) -> None:
    assert farref.rpc_sync("B", outer, (1,)) == 2
    at_b, here = farref.rpc_sync("B", metrics_now), metrics_now()
    assert at_b["farref.requests.served", "B"] >= 2
    assert at_b["farref.messages.sent", "B"] >= 1
    assert here["farref.messages.sent", "program"] >= 2
    assert {endpoint for _, endpoint in here} == {"program"}  # each process reports its own
    assert {endpoint for _, endpoint in at_b} == {"B"}
    with System(telemetry=remember) as second:  # its worker inherits the program of the first
        second.worker("E")
        assert {endpoint for _, endpoint in farref.rpc_sync("E", metrics_now)} == {"E"}


def metrics_now() -> dict[tuple[str, str], float]:
    data = readers[-1].get_metrics_data()
    found: dict[tuple[str, str], float] = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    key = metric.name, point.attributes["farref.endpoint"]
                    found[key] = found.get(key, 0) + point.value
    return found


# ---- turning it on


PLAIN = """
import sys, farref
def frames():
    calls = []
    sys.setprofile(lambda frame, what, _: calls.append(frame.f_code) if what == "call" else None)
    farref.rpc_sync("B", pow, (2, 3))
    sys.setprofile(None)
    return [code.co_filename for code in calls]
def imported():
    return [name for name in sys.modules if name.startswith("opentelemetry")]
with farref.System() as system:
    system.worker("B")
    ref = farref.remote("B", list)
    ref.to_here()
    frames()
    assert not [name for name in frames() if "telemetry" in name or "spans" in name]
    print(imported(), farref.rpc_sync("B", imported))
"""


def test_off_it_is_not_there(tmp_path: Path) -> None:
    """No import, and none of its code in a call."""
    assert run(tmp_path, PLAIN) == "[] []\n"


AUTOMATIC = """
import farref
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
provider = TracerProvider()
provider.add_span_processor(
    BatchSpanProcessor(ConsoleSpanExporter(formatter=lambda span: f"<{span.kind.name}>"))
)
trace.set_tracer_provider(provider)
with farref.System() as system:
    system.worker("B")
    farref.rpc_sync("B", pow, (2, 3))
"""


def test_a_provider_that_was_there_before_is_the_actors_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `opentelemetry-instrument`; and an actor's process flushes it at its end."""
    monkeypatch.setenv("FARREF_TELEMETRY", "1")
    said = run(tmp_path, AUTOMATIC)
    assert "<CLIENT>" in said
    assert "<SERVER>" in said


def broken() -> None:
    raise RuntimeError("no collector")


def test_a_function_that_raises_ends_the_start() -> None:
    with pytest.raises(RuntimeError, match="no collector"):
        System(telemetry=broken)


def in_workers_only() -> None:
    if os.getpid() != PROGRAM:
        raise RuntimeError("no collector")


PROGRAM = os.getpid()


def test_an_actor_works_without_it(caplog: pytest.LogCaptureFixture) -> None:
    with System(telemetry=in_workers_only) as system:
        system.worker("B")
        assert farref.rpc_sync("B", pow, (2, 3)) == 8
        assert until(system, lambda: "no collector" in caplog.text)


def test_what_is_no_way_to_turn_it_on() -> None:
    with pytest.raises(TypeError, match="telemetry must be True"):
        System(telemetry="yes")  # type: ignore[arg-type]  # the point of the test


def test_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'farref\[otel\]'"):
        System(telemetry=True)
