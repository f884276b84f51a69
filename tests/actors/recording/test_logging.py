"""What farref logs, and where it goes: nothing of it anywhere, unless the program wants it."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import farref
from farref import System, SystemDownError
from farref.testing import until

if TYPE_CHECKING:
    from farref import RRef

ROOT = Path(__file__).parents[3]

SAYING = """
import logging, sys
import farref
def say():
    for name in ("app", "Thespian.Admin", "farref.actors.x"):
        for level in ("info", "warning", "error"):
            getattr(logging.getLogger(name), level)(f"{level} of {name}")
    if sys.argv[1] == "farrefBase":  # or else a module's logger is that of the forked program
        from farref.actors.serving import log
        assert logging.getLogger(log.name) is log
        log.warning(f"warning of {log.name}")
        log.info(f"info of {log.name}")
with farref.System(sys.argv[1]) as system:
    system.worker("B")
    farref.rpc_sync("B", say)
    sys.stdin.read()
logging.getLogger("farref.actors.x").error("of the program's own")
"""


def said(tmp_path: Path, base: str, number: int, **env: str) -> list[str]:
    """What a program without any configuration of logging has on its standard error.

    It goes on until there are *number* lines, but not for ever.
    """
    program, errors = tmp_path / "program.py", tmp_path / "errors"
    program.write_text(SAYING)

    def lines() -> list[str]:
        return re.findall(r"^\w+ [\w.]+: (\w+ of [\w.]+)$", errors.read_text(), re.MULTILINE)

    with (
        errors.open("w") as file,
        subprocess.Popen(
            [sys.executable, str(program), base],
            stdin=subprocess.PIPE,
            stderr=file,
            env={**os.environ, "TMPDIR": str(tmp_path), **env},
        ) as run,
    ):
        end = time.monotonic() + 30
        while len(lines()) < number and run.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        run.communicate(timeout=30)
    assert run.returncode == 0, errors.read_text()
    return lines()


@pytest.mark.processes
@pytest.mark.parametrize("base", ["farrefBase", "multiprocTCPBase"])
def test_actors_are_heard_from_warning_on_and_thespian_from_error_on(
    tmp_path: Path, base: str
) -> None:
    modules = ["warning of farref.actors.serving"]
    expected = [
        "error of Thespian.Admin",
        "error of app",
        "error of farref.actors.x",
        "warning of app",
        "warning of farref.actors.x",
        *(modules if base == "farrefBase" else ()),
    ]
    assert sorted(said(tmp_path, base, len(expected))) == sorted(expected)
    assert not list(tmp_path.glob("thespian.log*"))


@pytest.mark.processes
def test_another_level_by_the_environment(tmp_path: Path) -> None:
    heard = said(tmp_path, "farrefBase", 11, FARREF_LOG="info")
    assert len(heard) == 11
    assert "info of Thespian.Admin" in heard


@pytest.mark.processes
def test_an_unknown_level_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARREF_LOG", "loud")
    with pytest.raises(SystemDownError, match="FARREF_LOG=LOUD is no level of logging"):
        System()


def test_every_logger_is_below_farref() -> None:
    named = re.compile(r"getLogger\((.*?)\)")
    found = [
        (path.relative_to(ROOT), name)
        for folder in ("actors", "protocol", "serialization", "src/farref/elastic")
        for path in (ROOT / folder).rglob("*.py")
        for name in named.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 10
    assert {name for _, name in found} == {"__name__"}
    assert farref.actors.endpoint.log.name == "farref.actors.endpoint"


def test_a_program_without_logging_hears_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("farref")
    assert any(isinstance(handler, logging.NullHandler) for handler in log.handlers)
    assert log.level == logging.NOTSET
    logging.getLogger("farref.nobody").error("nobody asked")
    assert "nobody asked" not in capfd.readouterr().err


def boom() -> RRef[int]:
    raise ValueError("on purpose")


def free_badly(_value: object) -> None:
    raise ValueError("on purpose")


def test_what_cannot_be_told_to_anybody_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """An exception that reaches its caller is not logged; one that has no caller is."""
    with System("simpleSystemBase") as system:
        system.worker("B")
        with pytest.raises(ValueError, match="on purpose"):
            farref.rpc_sync("B", boom)
        assert not caplog.records
        farref.RRef([], on_delete=free_badly)
        assert until(system, lambda: caplog.records)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("farref.actors.serving", "ERROR")
    assert "on_delete of program/1 raised" in record.getMessage()
