"""Whether a system tells OpenTelemetry what it does, and what each process does for that first.

farref itself uses OpenTelemetry's API alone. The tracer provider and the meter provider of each
process say where spans and metrics go. The program chooses them:

* Those that a program has before it starts a system, by ``opentelemetry-instrument`` or in code,
  are the actors' too, as their processes are forked from it.
* ``System(telemetry=function)`` has *function* called in each process of the system, once, after it
  was forked. It makes providers that know their process, or exporters that survive no fork.

An actor's process ends without Python's exit handlers, so it flushes its providers itself.

`spans` and `instruments` do the work. They import OpenTelemetry, and nobody imports them before a
system asks for it.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import cloudpickle

from ...serialization.failures import details_of
from ..calls.calls import Calls
from ..serving.server import Server
from ..values.packing import Packer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.core import Core
    from ..looking.counting import Counting
    from .spans import Spans

log = logging.getLogger(__name__)

VARIABLE = "FARREF_TELEMETRY"
"""The environment variable that asks for it."""
MISSING = "OpenTelemetry is not installed: pip install 'farref[otel]'"

_prepared: set[tuple[int, bytes]] = set()
"""The functions called, each with its process. One may have several actors (`simpleSystemBase`)."""
_complained: set[int] = set()
"""Processes that have logged that OpenTelemetry is missing."""


def asked_for(telemetry: bool | Callable[[], object] | None) -> bytes | None:
    """What `Settings.telemetry` is for `System`'s argument.

    Raises:
        TypeError: it is no such thing.
        ModuleNotFoundError: OpenTelemetry is not installed.
    """
    if telemetry is None:
        telemetry = os.environ.get(VARIABLE, "") not in ("", "0")
    if telemetry is False:
        return None
    if telemetry is not True and not callable(telemetry):
        raise TypeError(f"telemetry is True, False, None or a function, not {telemetry!r}")
    if find_spec("opentelemetry") is None:
        raise ModuleNotFoundError(MISSING, name="opentelemetry")
    return b"" if telemetry is True else bytes(cloudpickle.dumps(telemetry))


class Kinds(NamedTuple):
    """Of which classes an endpoint has its parts: those that make spans, or the plain ones."""

    packer: type[Packer] = Packer
    calls: type[Calls] = Calls
    server: type[Server] = Server
    spans: Spans | None = None


def kinds_for(core: Core) -> Kinds:
    """The parts of an endpoint that tells what it does, if its system is to."""
    if core.settings.telemetry is None:
        return Kinds()
    try:
        from . import spans  # noqa: PLC0415 - OpenTelemetry is an extra
    except ModuleNotFoundError:  # another program, or host, than the one that asked for it
        if os.getpid() not in _complained:
            _complained.add(os.getpid())
            log.warning("%s makes no spans: %s", core.me, MISSING)
        return Kinds()
    return Kinds(
        spans.PackerWithSpans, spans.CallsWithSpans, spans.ServerWithSpans, spans.Spans(core)
    )


def observe(counting: Counting) -> None:
    """Have the process's meter provider read these counters."""
    from . import instruments  # noqa: PLC0415 - OpenTelemetry is an extra

    instruments.observe(counting)


def prepare(pickled: bytes | None, function: object = None) -> None:
    """Call the system's function in this process, once. Raises what that raises.

    *function* is the function itself, in the program that has it. One that is unpickled has other
    globals.
    """
    key = os.getpid(), pickled or b""
    if pickled and key not in _prepared:
        _prepared.add(key)
        made = function if callable(function) else cloudpickle.loads(pickled)
        made()


def try_to_prepare(pickled: bytes | None, name: str) -> None:
    """The same in an actor, which works without it too."""
    try:
        prepare(pickled)
    except Exception as error:
        text = details_of(error)
        log.error("%s makes no spans, as the system's function raised:\n%s", name, text)  # noqa: TRY400 - as text


def flush() -> None:
    """This process ends: have what it told go out, if it told anything."""
    spans = sys.modules.get(f"{__package__}.spans")
    if spans is not None:
        spans.flush()
