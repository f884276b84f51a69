"""A host with other versions is refused at the door, with both versions, and nothing hangs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..bases import HOSTS, about
from .network import address

if TYPE_CHECKING:
    from farref import System

    from .conftest import Starting
    from .network import Network

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[2]
OLDER = """
from farref.actors.hosting import versions
older = {**versions.mine(), "farref": "0.0.9"}
versions.mine = lambda: older
"""
"""Makes this farref report an older version."""
COMPILED = ("cffi", "cryptography", "msgspec", "psutil", "pycparser")
"""Packages that another Python needs its own copy of, and those they need."""
SAYS_SO = "try:\n    farref.System.{}\nexcept farref.VersionError as error:\n    print(error)"
COMMAND = "from farref.cli import app\napp({})"


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """A Python of another minor version, and the environment in which it has farref.

    Compiled packages are installed for it; the rest is shared with this Python.
    """
    others = [each for each in ("3.12", "3.13", "3.11") if sys.version_info[:2] != minor(each)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    built = [str(path) for each in others for path in pyenv.glob(f"{each}.*/bin/python")]
    found = [*filter(None, (shutil.which(f"python{each}") for each in others)), *built]
    folder = tmp_path_factory.mktemp("other")
    (folder / "farref").symlink_to(ROOT / "src" / "farref")
    for name in ("cloudpickle", "farref", "thespian"):
        for file in metadata.files(name) or ():
            if file.suffix == ".py" or file.parent.suffix == ".dist-info":
                copy = folder / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), copy)
    for python in found:
        pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
        install = [*pip, "--target", str(folder), *COMPILED]
        if subprocess.run(install, capture_output=True, check=False, timeout=120).returncode == 0:
            return python, {**os.environ, "PYTHONPATH": str(folder)}
    pytest.skip(f"{', '.join(COMPILED)} could not be installed on another Python; tried {found}")


def minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def said(command: list[str], code: str, environment: dict[str, str]) -> str:
    """The output of the program *code*, whether it ends well or not."""
    done = subprocess.run(
        [*command, "-c", f"import farref\n{code}"],
        capture_output=True,
        check=False,
        cwd="/",
        env={**environment, "COLUMNS": "1000"},
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def undisturbed(system: System) -> bool:
    """Whether the system goes on, without another host."""
    system.worker("B")
    return [host.address for host in system.hosts()] == [address("A")]


@pytest.mark.parametrize("base", HOSTS)
def test_another_farref(first: Starting, network: Network, key: Path, base: str) -> None:
    secret = str(key) if about(base).own else None
    keyed = ["--key", str(key)] if secret else []
    with first(base) as system:
        doors = {
            SAYS_SO.format(f"join({address('A')!r}, key={secret!r}, base={base!r})"): "B",
            COMMAND.format(["join", address("A"), "--base", base, *keyed]): "B",
            SAYS_SO.format(f"attach({system.name!r})"): "A",
            COMMAND.format(["refs", system.name]): "A",
            COMMAND.format(["trace", system.name]): "A",
        }
        for door, host in doors.items():
            command = [*network.command(host), sys.executable]
            text = said(command, OLDER + door, dict(os.environ))
            assert f"farref {metadata.version('farref')}" in text, door
            assert "farref 0.0.9" in text
            assert "install the same farref on both" in text
        assert undisturbed(system)


@pytest.mark.parametrize("base", HOSTS)
def test_another_python(
    first: Starting,
    network: Network,
    key: Path,
    other_python: tuple[str, dict[str, str]],
    base: str,
) -> None:
    python, environment = other_python
    secret = str(key) if about(base).own else None
    with first(base) as system:
        doors = {
            SAYS_SO.format(f"join({address('A')!r}, key={secret!r}, base={base!r})"): "B",
            SAYS_SO.format(f"attach({system.name!r})"): "A",
        }
        for door, host in doors.items():
            text = said([*network.command(host), python], door, environment)
            assert f"Python {'.'.join(map(str, sys.version_info[:2]))} (" in text, door
            assert "install the same Python on both" in text
        assert undisturbed(system)
