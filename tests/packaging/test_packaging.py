"""What is installed, under which names, and which layer may import which."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

import farref
from farref.actors.versions import FARREF

ROOT = Path(__file__).resolve().parents[2]
FACADE = ROOT / "src" / "farref"
LAYERS = ("actors", "examples", "protocol", "serialization")

# Which parts of farref each layer may import; "" is the façade itself.
ALLOWED_PARTS = {
    "protocol": {"protocol"},
    "serialization": {"serialization", "protocol", "features"},
    "actors": {"actors", "actors/base", "serialization", "protocol", "features"},
    "actors/base": {"actors/base", "protocol", "features"},
    "examples": {"", "actors/base", *LAYERS},
}

# Time, ids and randomness are arguments of the machines. So this is a list of what is pure, not
# of what is impure: a new name here needs the question "does it look at the world?".
PURE_MODULES = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "msgspec",  # its codec: bytes in, messages out
    "operator",
    "re",
    "types",
    "typing",
}

PUBLIC_NAMES = [
    "ActorRendezvous",
    "AliasCycleError",
    "AwaitableStore",
    "Counters",
    "FarrefError",
    "FetchTimeoutError",
    "ForeignReferenceError",
    "Future",
    "GivenUpError",
    "Group",
    "GroupMember",
    "HostInfo",
    "NotAnEndpointError",
    "OutOfBandPickleError",
    "OverloadedError",
    "OwnerDiedError",
    "ProtocolError",
    "RRef",
    "Reason",
    "RefActor",
    "RefLostError",
    "ReferenceInfo",
    "ReferenceLostError",
    "RemoteError",
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerRegistry",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousTimeoutError",
    "RendezvousTimeouts",
    "SelfWaitError",
    "SenderDiedError",
    "SerializationError",
    "SharedMemoryFullError",
    "Snapshot",
    "Store",
    "System",
    "SystemDownError",
    "VersionError",
    "Worker",
    "WorkerDiedError",
    "WorkerInfo",
    "WorkerNotFoundError",
    "WouldBlockError",
    "counters",
    "get",
    "get_worker_info",
    "references",
    "remote",
    "rendezvous",
    "rendezvous_handler_registry",
    "rpc_async",
    "rpc_sync",
    "wait",
]


@dataclass(frozen=True)
class Import:
    """One imported module, by its absolute name, as a layer's file spells it."""

    file: Path
    line: int
    module: str
    relative: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"

    @property
    def part(self) -> str | None:
        """The part of farref that is imported, None for anything else."""
        if self.module != "farref" and not self.module.startswith("farref."):
            return None
        names = self.module.split(".")[1:]
        if names[:2] == ["actors", "base"]:
            return "actors/base"
        return names[0] if names and names[0] in {*LAYERS, "features"} else ""


def imports_of(source: str, file: Path) -> Iterator[Import]:
    """Every import in *source*, wherever it stands; `TYPE_CHECKING` is no excuse."""
    package = ("farref", *file.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, relative=False)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else ())))
            # `from farref import protocol` and `from .. import protocol` name parts too.
            names = (
                [alias.name for alias in node.names]
                if module in ("farref", "farref.actors")
                else []
            )
            parts = [n for n in names if n in LAYERS or (module, n) == ("farref.actors", "base")]
            for part in parts:
                yield Import(file, node.lineno, f"{module}.{part}", bool(node.level))
            if len(parts) < len(names) or not names:
                yield Import(file, node.lineno, module, bool(node.level))


def layer_of(file: Path) -> str:
    parts = file.relative_to(ROOT).parts
    return "actors/base" if parts[:2] == ("actors", "base") else parts[0]


def all_imports(*layers: str) -> list[Import]:
    return [
        found
        for layer in layers
        for file in sorted((ROOT / layer).rglob("*.py"))
        for found in imports_of(file.read_text(encoding="utf-8"), file)
    ]


def foreign_parts(imports: list[Import]) -> list[str]:
    return [
        str(found)
        for found in imports
        if found.part is not None and found.part not in ALLOWED_PARTS[layer_of(found.file)]
    ]


def top_level(imports: list[Import]) -> list[str]:
    return [
        str(found)
        for found in imports
        if not found.relative and found.module.split(".")[0] in (*LAYERS, "tests")
    ]


# --- The façade ---------------------------------------------------------------------------


def test_public_names_are_pinned() -> None:
    assert farref.__all__ == PUBLIC_NAMES


def test_every_public_name_exists() -> None:
    assert [name for name in farref.__all__ if not hasattr(farref, name)] == []


def test_the_code_knows_its_version() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == FARREF


def test_importing_and_asking_for_versions_reads_no_metadata() -> None:
    program = (
        "import sys; before = set(sys.modules); import farref.actors.versions as versions; "
        "versions.mine(); print({'importlib.metadata', 'email'} & (set(sys.modules) - before))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "set()"


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_are_importable_below_farref_only(layer: str) -> None:
    module = importlib.import_module(f"farref.{layer}")
    assert module.__name__ == f"farref.{layer}"


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
import pytest

@pytest.mark.farref(base="simpleSystemBase", name="mine")
def test_it(farref_system):
    farref_system.worker("B")
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
    ("test", "line"),
    [(USES, ""), (USES, LINE), (USES_NOT, "")],
    ids=["found", "named too", "not used"],
)
def test_pytest_finds_the_fixture(installed: Path, tmp_path: Path, test: str, line: str) -> None:
    run = run_pytest(tmp_path, test, line, PYTHONPATH=str(installed))
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def test_the_wheel_names_the_plug_in(installed: Path) -> None:
    (names,) = installed.glob("farref-*.dist-info/entry_points.txt")
    assert "[pytest11]\nfarref = pytest_farref\n" in names.read_text()


def test_the_line_in_conftest_is_enough(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, USES, LINE, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def run_pytest(
    folder: Path, test: str, conftest: str, **env: str
) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_one.py").write_text(test)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--strict-markers",
            "-W",
            "error",
            "-p",
            "no:cacheprovider",
        ],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


# --- The layers ---------------------------------------------------------------------------


def test_protocol_is_sans_io() -> None:
    impure = [
        str(found)
        for found in all_imports("protocol")
        if found.part is None and found.module.split(".")[0] not in PURE_MODULES
    ]
    assert impure == []


def test_the_protocols_modules_import_only_those_above_them_in_its_list() -> None:
    folder = ROOT / "protocol"
    listed = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    order = re.findall(r"^    (\w+)  ", listed, re.MULTILINE)
    there = {file.stem for file in folder.iterdir()} - {"__init__", "__pycache__"}
    assert sorted(order) == sorted(there)
    above = {name: set(order[:place]) for place, name in enumerate(order)}
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno} imports {other}"
        for file in folder.rglob("*.py")
        for inside in [file.relative_to(folder).with_suffix("").parts]
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level == len(inside)
        for other in ([node.module] if node.module else [each.name for each in node.names])
        if other not in above[inside[0]]
    ]
    assert not wrong


def test_serialization_knows_no_actors() -> None:
    assert [str(i) for i in all_imports("serialization") if i.module.startswith("thespian")] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_downwards_only(layer: str) -> None:
    assert foreign_parts(all_imports(layer)) == []


@pytest.mark.parametrize("layer", sorted(set(LAYERS) - {"examples"}))
def test_inside_the_package_imports_are_relative(layer: str) -> None:
    absolute = [i for i in all_imports(layer) if i.part is not None and not i.relative]
    assert [str(found) for found in absolute] == []


def test_nothing_imports_a_layer_as_a_top_level_package() -> None:
    assert top_level(all_imports(*LAYERS, "src", "tests")) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("protocol/owner.py", "from ..actors import mailbox"),
        ("protocol/owner.py", "from .. import serialization"),
        ("protocol/owner.py", "import farref.actors.mailbox"),
        ("protocol/owner.py", "from .. import System"),
        ("serialization/pickler.py", "from farref import actors"),
        ("actors/mailbox.py", "from ..examples import wordcount"),
        ("actors/mailbox.py", "from farref import System"),
        ("actors/base/transport.py", "from ..mailbox import Mailbox"),
        ("actors/base/transport.py", "from ...serialization import pickler"),
    ],
)
def test_the_layer_check_sees(file: str, line: str) -> None:
    assert foreign_parts(list(imports_of(line, ROOT / file))) != []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("protocol/owner.py", "from .ids import ForkId"),
        ("serialization/pickler.py", "from ..protocol.ids import ForkId"),
        ("actors/mailbox.py", "from . import base"),
        ("actors/mailbox.py", "from .base.transport import Transport"),
        ("actors/base/transport.py", "from . import frames"),
        ("examples/wordcount.py", "from farref import System"),
    ],
)
def test_the_layer_check_allows(file: str, line: str) -> None:
    assert foreign_parts(list(imports_of(line, ROOT / file))) == []


@pytest.mark.parametrize("line", ["import actors", "from protocol.ids import ForkId"])
def test_the_top_level_check_sees(line: str) -> None:
    assert top_level(list(imports_of(line, ROOT / "actors" / "mailbox.py"))) != []
