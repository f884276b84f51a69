"""Whether a system reports to OpenTelemetry, and the preparation of each process for that.

farref itself uses OpenTelemetry's API alone. The tracer provider and the meter provider of each
process decide where spans and metrics go. The program chooses the providers:

* If a program has providers before it starts a system, by ``opentelemetry-instrument`` or in code,
  the actors have them too, as their processes are forked from it.
* ``System(telemetry=function)`` has *function* called in each process of the system, once, after
  it was forked. The function can make providers that know their process, or exporters that survive
  no fork.

An actor's process ends without Python's exit handlers, so it flushes its providers itself.

`spans` and `instruments` do the work. They import OpenTelemetry, and no module imports them before
a system asks for it.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from importlib.util import find_spec

from ...printable import logger
from ...serialization.by_value import dumps
from ...serialization.failures import details_of
from ..core.core import Core
from ..core.hooks import EndpointHooks
from ..inspect.counting import Counting

log = logger(__name__)

VARIABLE = "FARREF_TELEMETRY"
"""The environment variable that asks for telemetry."""
MISSING = "OpenTelemetry is not installed: pip install 'farref[otel]'"

_prepared: set[tuple[int, bytes]] = set()
"""The functions called, each with its process. One process may have several actors
(`simpleSystemBase`)."""
_complained: set[int] = set()
"""Processes that have logged that OpenTelemetry is missing."""


def asked_for(telemetry: bool | Callable[[], object] | None) -> bytes | None:
    """The value of `Settings.telemetry` for `System`'s argument.

    Raises:
        TypeError: *telemetry* is neither a function nor a bool nor None.
        ModuleNotFoundError: OpenTelemetry is not installed.
    """
    if telemetry is None:
        telemetry = os.environ.get(VARIABLE, "") not in ("", "0")
    if telemetry is False:
        return None
    if telemetry is not True and not callable(telemetry):
        raise TypeError(f"telemetry must be True, False, None or a function, not {telemetry!r}")
    if find_spec("opentelemetry") is None:
        raise ModuleNotFoundError(MISSING, name="opentelemetry")
    return b"" if telemetry is True else dumps(telemetry)


def hooks_for(core: Core) -> EndpointHooks | None:
    """The hooks of the endpoint of *core*, if its system asks for spans."""
    if core.settings.telemetry is None:
        return None
    try:
        from .spans import Spans  # noqa: PLC0415 - OpenTelemetry is an extra
    except ModuleNotFoundError:  # another program or host asked for it
        if os.getpid() not in _complained:
            _complained.add(os.getpid())
            log.warning("%s makes no spans: %s", core.me, MISSING)
        return None
    return Spans(core)


def observe(counting: Counting) -> None:
    """Have the process's meter provider read these counters."""
    from . import instruments  # noqa: PLC0415 - OpenTelemetry is an extra

    instruments.observe(counting)


def prepare(pickled: bytes | None, function: object = None) -> None:
    """Call the system's function in this process, once. Raises the function's error.

    *function* is the function itself, in the program that has it. One that is unpickled has other
    globals.
    """
    key = os.getpid(), pickled or b""
    if pickled and key not in _prepared:
        _prepared.add(key)
        made = function if callable(function) else pickle.loads(pickled)  # noqa: S301 - the program's
        made()


def try_to_prepare(pickled: bytes | None, name: str) -> None:
    """The same in an actor, which works without telemetry too."""
    try:
        prepare(pickled)
    except Exception as error:
        text = details_of(error)
        log.error("%s makes no spans, as the system's function raised:\n%s", name, text)


def flush() -> None:
    """This process ends: send its spans and metrics, if it has any."""
    spans = sys.modules.get(f"{__package__}.spans")
    if spans is not None:
        spans.flush()
