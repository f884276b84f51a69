"""A module that is edited while the system runs: workers that start later have the new code."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from farref import rpc_sync

from ...bases import PROCESSES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farref import System

NAMES = ("edited_by_test", "edited_user", "edited_package", "edited_package.part", "edited_other")
CODE = """
import farref

def version():
    return {version}

class Worker(farref.RefActor):
    def receiveMessage(self, message, sender):
        self.send(sender, {version})
"""


def write(folder: Path, version: int) -> None:
    padding = "#" * version  # Python compares the sizes: the time on disk may not differ
    (folder / "edited_by_test.py").write_text(CODE.format(version=version) + padding)
    (folder / "edited_package" / "part.py").write_text(f"VERSION = {version}\n{padding}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the program's modules, which it has imported."""
    (tmp_path / "edited_package").mkdir()
    (tmp_path / "edited_package" / "__init__.py").write_text("")
    write(tmp_path, 1)
    (tmp_path / "edited_user.py").write_text("from edited_by_test import version\n")
    (tmp_path / "edited_other.py").write_text("from time import time\nMADE = time()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in NAMES:
        importlib.import_module(name)
    yield tmp_path
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture(params=PROCESSES)
def system(folder: Path, request: pytest.FixtureRequest) -> Iterator[System]:
    """A system that begins with these modules."""
    from farref import System

    with System(request.param, timeout=20) as system:
        yield system


def versions() -> tuple[Any, ...]:
    """What this process has of the modules."""
    from edited_package import part  # type: ignore[import-not-found]  # the fixture wrote it

    user, other = (importlib.import_module(name) for name in ("edited_user", "edited_other"))
    direct = importlib.import_module("edited_by_test")
    return direct.version(), user.version(), part.VERSION, other.MADE


def test_later_workers_have_the_new_code(system: System, folder: Path) -> None:
    module: Any = sys.modules["edited_by_test"]
    made = sys.modules["edited_other"].MADE
    system.worker("before")
    assert rpc_sync("before", versions) == (1, 1, 1, made)
    assert system.ask(system.create(module.Worker), "?") == 1
    write(folder, 2)
    system.worker("after")
    assert rpc_sync("after", versions) == (2, 2, 2, made), "what did not change stays"
    assert rpc_sync("after", module.version) == 2
    assert system.ask(system.create(module.Worker), "?") == 2
    assert rpc_sync("before", versions) == (1, 1, 1, made), "a running worker keeps its code"
    assert module.version() == 1, "so does the program"
    for version in (3, 4):  # the registrar has imported it again
        write(folder, version)
        assert system.ask(system.create(module.Worker), "?") == version
    system.worker("last")
    assert rpc_sync("last", versions) == (4, 4, 4, made)
