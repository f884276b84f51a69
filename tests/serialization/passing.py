"""One value from its sender to its receiver, both in this process."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from farref.serialization.payload import Payload
from farref.serialization.pickling import loads

from .endpoint import TinyEndpoint


def near() -> bool:
    return True


def packed(value: Any, to_all: Callable[[], bool] = near) -> Payload:
    return TinyEndpoint("A").pack(value, near=to_all)[0]


def arrived(payload: Payload) -> Payload:
    """The payload as the receiver gets it."""
    copy: Payload = pickle.loads(pickle.dumps(payload))
    copy.take()
    return copy


def opened(payload: Payload) -> Any:
    return loads(payload, (), TinyEndpoint("B"))


class Late(BaseException):
    """As of a signal handler with a deadline."""


def interrupted_everywhere(work: Callable[[], object]) -> Iterator[tuple[str, str]]:
    """Run *work* again and again, interrupted at one moment after the other; yields each moment.

    Python runs signal handlers when a function begins, and when one of C has returned.
    """
    passed, number = 1, 0
    while passed >= number:
        number, passed = number + 1, 0
        moment = "", ""

        def interrupt(frame: Any, event: str, function: Any) -> None:
            nonlocal passed, moment
            if event in ("call", "c_return") and function is not sys.setprofile:
                passed += 1
                if passed == number:  # noqa: B023 - it is of this round
                    sys.setprofile(None)
                    moment = getattr(function, "__name__", frame.f_code.co_name), event
                    raise Late

        sys.setprofile(interrupt)
        try:
            work()
        except Late:
            pass
        finally:
            sys.setprofile(None)
        yield moment


@contextmanager
def other_process(do: Callable[[], object]) -> Iterator[tuple[int, Any]]:
    """A forked process, which keeps the result of *do*: its number, and the result as it is sent.

    The result may be the text of an error. The process is killed at the end.
    """
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = do()
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        os.write(into, pickle.dumps(result))
        signal.pause()
        os._exit(1)
    os.close(into)
    try:
        with open(out, "rb") as came:
            yield pid, pickle.load(came)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def in_child(look: Callable[[], object]) -> str:
    """The outcome of *look* in a forked child, as text."""
    with other_process(lambda: repr(look())) as (_, text):
        return str(text)


def limited(module: str, code: str) -> None:
    """Run *code*, with the names of *module*, in a process that may lower its limits below ours."""
    program = f"import os, resource\nimport numpy as np\nfrom {module} import *\n"
    done = subprocess.run(
        [sys.executable, "-c", program + textwrap.dedent(code)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
