"""A new worker has the variables, the folder and the search path of the program at that moment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import CreationError, System
from farref.testing import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System() as system:
        yield system


def surroundings() -> tuple[dict[str, str], str, list[str]]:
    return dict(os.environ), str(Path.cwd()), sys.path


class Actor(farref.RefActor):
    def receiveMsg_str(self, _message: str, sender: Any) -> None:
        self.send(sender, surroundings())


def of_a_child(name: str) -> tuple[dict[str, str], str, list[str]]:
    os.environ["FROM_A"] = "1"
    farref.worker(name)
    found: tuple[dict[str, str], str, list[str]] = farref.rpc_sync(name, surroundings)
    return found


def test_they_are_those_of_the_moment(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "blue")
    monkeypatch.setenv("SHAPE", "round")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    system.worker("A")
    assert farref.rpc_sync("A", surroundings) == surroundings()
    assert system.ask(system.create(Actor), "which?") == surroundings()
    monkeypatch.delenv("SHAPE")
    (tmp_path / "inside").mkdir()
    system.worker("B", env={"COLOUR": "red", "SIZE": "big", "HOME": None}, cwd=tmp_path / "inside")
    environ, folder, path = farref.rpc_sync("B", surroundings)
    expected = {**os.environ, "COLOUR": "red", "SIZE": "big"}
    expected.pop("HOME", None)
    assert (environ, folder, path) == (expected, str(tmp_path / "inside"), sys.path)
    assert os.environ["COLOUR"] == "blue"
    # A worker that creates another one passes on what it has itself.
    assert farref.rpc_sync("A", of_a_child, ("C",))[0]["FROM_A"] == "1"


def test_a_folder_that_is_not_there(system: System, tmp_path: Path) -> None:
    with pytest.raises(CreationError, match=r"cannot run there: .*nowhere"):
        system.worker("D", cwd=tmp_path / "nowhere")
    assert until(system, lambda: "D" not in {info.name for info in system.workers()})


def test_what_is_no_text(system: System) -> None:
    with pytest.raises(TypeError, match="env must have texts"):
        system.worker("E", env={"LEVEL": 3})  # type: ignore[dict-item]  # wrong on purpose


def test_in_one_process_there_is_one_of_each() -> None:
    with System("simpleSystemBase") as system, pytest.raises(ValueError, match="the program's own"):
        system.worker("F", env={"A": "b"})
