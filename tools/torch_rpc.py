"""Run PyTorch's own tests of `torch.distributed.rpc` against `farref.rpc`: ``make torch-rpc``.

The tests come from the installed torch (``torch/testing/_internal/distributed/rpc/rpc_test.py``).
Their ``import torch.distributed.rpc`` finds a module with the names of `farref.rpc`, and
``torch.futures.wait_all`` and ``collect_all`` are those of `farref.rpc`. Any other name of
PyTorch's is there, too, so that the file can be imported. Its use raises `PrivateName`.

Each method runs in four processes, as in PyTorch. They are forked from this one, so torch is
imported once. The tool compares each outcome with `torch_rpc.json`, which has the reasons of those
that do not pass. ``--page`` prints the table of docs/howto/port-pytorch.md.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import types
import unittest
from collections import Counter
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

RANKS = 4
LIMIT = 100.0
"""Seconds for one method."""
LINGER = 15.0
"""Seconds in which the other ranks end when one has failed."""
MODULE = "torch.distributed.rpc"
SUITE = "torch.testing._internal.distributed.rpc.rpc_test"
CLASSES = ("RpcTest", "TensorPipeAgentRpcTest")
LIST = Path(__file__).with_name("torch_rpc.json")
PASSES = "passes"
BY_LUCK = "test_dynamic_and_static_init_rpc_together"
"""It passes if the last rank comes before the processes of the others have ended."""


class PrivateName(RuntimeError):
    """A test used a name that `farref.rpc` does not have."""


class Absent:
    """Stands for such a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: object, **__: object) -> Any:
        raise PrivateName(self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self()

    __enter__ = __exit__ = __getitem__ = __call__


def facade(name: str, source: object) -> Any:
    """A module *name* with the names of *source*; all other names are `Absent`."""
    made: Any = types.ModuleType(name)

    def find(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(source, attribute, None) or Absent(f"{name}.{attribute}")

    made.__getattr__ = find
    sys.modules[name] = made
    return made


def suite() -> dict[str, type[unittest.TestCase]]:
    """The class of each method, with `farref.rpc` in the place of PyTorch's module."""
    if importlib.util.find_spec("expecttest") is None:  # torch imports it for tests of other parts
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    torch: Any = importlib.import_module("torch")
    real: Any = importlib.import_module(MODULE)
    importlib.import_module("torch.testing._internal.common_distributed")
    common: Any = importlib.import_module("torch.testing._internal.common_utils")
    ours: Any = importlib.import_module("farref.rpc")

    module = facade(MODULE, ours)
    for name in ("api", "internal", "backend_registry", "constants"):
        setattr(module, name, facade(f"{MODULE}.{name}", ours))
    module.internal.RPCExecMode = real.internal.RPCExecMode  # an enum, for the tests' own use
    module.functions = sys.modules[f"{MODULE}.functions"] = ours.functions
    torch.distributed.rpc = module
    torch.futures.wait_all, torch.futures.collect_all = ours.wait_all, ours.collect_all
    tests: Any = importlib.import_module(SUITE)

    class Fixture(tests.RpcAgentTestFixture):  # type: ignore[misc]
        rpc_backend = ours.BackendType.TENSORPIPE

        @property
        def rpc_backend_options(self) -> Any:
            return ours.TensorPipeRpcBackendOptions(init_method=self.init_method)

        def get_shutdown_error_regex(self) -> str:
            return ".*"

        def get_timeout_error_regex(self) -> str:
            return "within|gave no|not done|did not"

    found: dict[str, type[unittest.TestCase]] = {}
    for each in CLASSES:
        base = getattr(tests, each)
        made = type(each, (base, Fixture, common.TestCase), {})
        found.update({name: made for name in dir(base) if name.startswith("test_")})
    return found


def run(kind: type[unittest.TestCase], name: str) -> tuple[str, str]:
    """Run method *name*. Returns the outcome, and its reason: that of the first rank that fails."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ranks: dict[Any, Any] = {}
        for rank in range(RANKS):
            mine, theirs = context.Pipe(duplex=False)
            given = kind, name, rank, f"{folder}/meeting", theirs
            ranks[mine] = context.Process(target=run_rank, args=given)
            ranks[mine].start()
            theirs.close()
        late = time.monotonic() + LIMIT
        said = PASSES, ""
        waiting: list[Any] = list(ranks)
        while waiting and (ready := wait(waiting, max(0.0, late - time.monotonic()))):
            end: Any
            for end in ready:
                waiting.remove(end)
                try:
                    outcome: tuple[str, str] = end.recv()
                except EOFError:
                    outcome = "fails", "a process died"
                if said[0] == PASSES and outcome[0] != PASSES:
                    said = outcome
                    late = time.monotonic() + LINGER
        for each in ranks.values():
            each.join(max(0.1, late - time.monotonic()))
            if each.is_alive():
                each.kill()
                each.join()
                said = said if said[0] != PASSES else ("hangs", f"not done within {LIMIT:g} s")
    return said


def run_rank(kind: type[unittest.TestCase], name: str, rank: int, meeting: str, end: Any) -> None:
    """Run method *name* as *rank*, in a process of its own."""
    logging.disable()
    test: Any = kind(name)
    test.rank, test.file_name = rank, meeting
    outcome = PASSES, ""
    try:
        getattr(test, name)()
    except unittest.SkipTest as skipped:
        outcome = "skipped", str(skipped)
    except BaseException as error:
        outcome = "private" if is_private(error) else "fails", traceback.format_exc()
    end.send(outcome)
    end.close()


def is_private(error: BaseException | None) -> bool:
    """Whether a name that is not there is the cause."""
    if error is None:
        return False
    return (
        isinstance(error, PrivateName)
        or "PrivateName" in str(error)
        or "'_transports'" in str(error)
        or is_private(error.__cause__ or error.__context__)
    )


def expected() -> dict[str, str]:
    """For each method that does not pass, the reason."""
    groups: dict[str, list[str]] = json.loads(LIST.read_text())["reasons"]
    return {name: reason for reason, names in groups.items() for name in names}


def page() -> str:
    """The table of the porting page."""
    total: int = json.loads(LIST.read_text())["methods"]
    reasons = Counter(expected().values())
    rows = [("pass", total - sum(reasons.values())), *reasons.items()]
    lines = [f"| {total} methods | |", "|---|--:|", *(f"| {text} | {n} |" for text, n in rows)]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="methods; by default all")
    parser.add_argument("--page", action="store_true", help="print the table of the porting page")
    parser.add_argument("--why", action="store_true", help="print tracebacks")
    chosen = parser.parse_args()
    if chosen.page:
        sys.stdout.write(page() + "\n")
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
    methods, reasons = suite(), expected()
    done: dict[str, tuple[str, str]] = {}
    for name in chosen.names or sorted(methods):
        began = time.monotonic()
        outcome, why = done[name] = run(methods[name], name)
        last = why if chosen.why else "".join(why.splitlines()[-1:])[:200]
        seconds = time.monotonic() - began
        sys.stdout.write(f"{outcome:8} {name} ({seconds:.1f} s) {last}\n")
        sys.stdout.flush()
    surprises = [
        f"{name}: {outcome}, and expected: {reasons.get(name, PASSES)}"
        for name, (outcome, _) in done.items()
        if (outcome == PASSES) != (name not in reasons) and name != BY_LUCK
    ]
    counts = ", ".join(
        f"{n} {outcome}" for outcome, n in Counter(o for o, _ in done.values()).items()
    )
    sys.stdout.write("\n".join([*surprises, counts, ""]))
    return bool(surprises)


if __name__ == "__main__":
    sys.exit(main())
