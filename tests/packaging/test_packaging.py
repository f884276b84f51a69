"""The contents of the installed package, and their names."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import farref

from ..commands.kit import farref as command
from .imports import FACADE, LAYERS, ROOT

# --- The façade ---------------------------------------------------------------------------


def test_the_reference_has_the_public_names_and_no_others() -> None:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    named = set(re.findall(r"^::: farref\.(\w+)$", text, re.MULTILINE))
    named = {name for name in named if not (FACADE / name).is_dir()}
    raised = {each.__name__ for each in family(farref.FarrefError)}
    assert set(farref.__all__) == named | raised


def family(error: type[BaseException]) -> Iterator[type[BaseException]]:
    """*error* and all errors below it, of the same module."""
    yield error
    for each in error.__subclasses__():
        if each.__module__ == error.__module__:
            yield from family(each)


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def test_the_code_knows_its_version() -> None:
    assert command("--version").stdout == f"farref {project()['version']}\n"


def test_all_openings_are_one_sentence() -> None:
    """Of an index of packages, of both first pages, and of the command."""
    sentence = project()["description"]
    for page in ("README.md", "docs/index.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert text.startswith(f"# farref **{sentence}** ")
    help_text = " ".join(command("--help").stdout.split())
    assert f"[ARGS]... {sentence} " in help_text


def test_the_classifiers_say_what_is_tested() -> None:
    known = project()["classifiers"]
    versions = re.search(r"^PYTHONS .*", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert versions is not None
    minors = [each.rpartition(" ")[2] for each in known if ":: 3." in each]
    assert minors == re.findall(r"python(3\.\d+)", versions[0])
    assert [each for each in known if each.startswith("Operating")] == [
        "Operating System :: POSIX :: Linux"
    ]
    assert "Typing :: Typed" in known
    assert project()["license"] == "MIT"  # an SPDX expression: no classifier may say it again


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_is_linked_into_the_source_tree(layer: str) -> None:
    link = FACADE / layer
    assert link.is_symlink()
    assert link.readlink() == Path("../..") / layer
    assert (link / "__init__.py").is_file()


def test_a_program_outside_the_repository_sees_one_package(tmp_path: Path) -> None:
    program = (
        "import importlib.util as u\n"
        f"print([n for n in {(*LAYERS, 'tests', 'src', 'farref')!r} if u.find_spec(n)])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "['farref']"


# --- The wheel ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # -P: `python -m` would put the repository, and so `actors` etc., on the path.
    subprocess.run(
        [sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names)), "a file is in the wheel twice"
    return set(names)


def test_wheel_installs_nothing_beside_farref_and_its_plug_in(wheel_names: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel_names}
    parts = tops - {top for top in tops if top.endswith(".dist-info")}
    assert parts == {"farref", "pytest_farref.py"}


def test_wheel_has_every_module_once(wheel_names: set[str]) -> None:
    real = [(FACADE, file) for file in walk(FACADE)]
    real += [(ROOT, file) for layer in LAYERS for file in walk(ROOT / layer)]
    expected = {"farref/" + file.relative_to(base).as_posix() for base, file in real}
    assert {name for name in wheel_names if name.startswith("farref/")} == expected
    assert "farref/py.typed" in wheel_names


def walk(folder: Path) -> Iterator[Path]:
    """The real files under *folder*: no links, no caches."""
    for here, _, names in os.walk(folder, followlinks=False):
        if not here.endswith("__pycache__"):
            yield from (Path(here, name) for name in names)


# --- pytest's plug-in, as the wheel installs it -------------------------------------------

USES = """
import farref, pytest

@pytest.fixture
def ref(farref_system):
    farref_system.worker("B")
    return farref.remote("B", list)  # pytest keeps it for the test, also when that is over

@pytest.mark.farref(base="simpleSystemBase", name="mine")
def test_it(farref_system, ref):
    assert ref.to_here() == []
    assert farref_system.name == "mine"
"""
USES_NOT = """
import sys

def test_it():
    assert "pytest_farref" in sys.modules
    assert not [name for name in sys.modules if name.split(".")[0] in ("farref", "thespian")]
"""
LINE = "pytest_plugins = ['farref.testing.fixtures']\n"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked as an installer does it."""
    site = tmp_path_factory.mktemp("site")
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@pytest.mark.parametrize(
    ("test", "line", "env"),
    [
        *((USES, "", {}), (USES, LINE, {}), (USES_NOT, "", {})),
        (USES, LINE, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
    ],
    ids=["found", "named too", "not used", "named alone"],
)
def test_pytest_finds_the_fixture(
    installed: Path, tmp_path: Path, test: str, line: str, env: dict[str, str]
) -> None:
    (tmp_path / "conftest.py").write_text(line)
    (tmp_path / "test_one.py").write_text(test)
    options = ("--strict-markers", "-W", "error", "-p", "no:cacheprovider")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def test_the_wheel_names_the_plug_in(installed: Path) -> None:
    (names,) = installed.glob("farref-*.dist-info/entry_points.txt")
    assert "[pytest11]\nfarref = pytest_farref\n" in names.read_text()
