"""The parts of farref that each part may import; no circles of imports; one name for each class."""

import ast
import re
from collections import Counter
from collections.abc import Iterable

import pytest

from .imports import FACADE, LAYERS, ROOT, Import, all_imports, circle, files, graph, imports_of

ACTORS = ROOT / "actors"
ROOMS = sorted(file.parent.name for file in ACTORS.glob("*/__init__.py"))

# The parts that each layer may import. The rooms of `actors` say it themselves.
ALLOWED = {
    "protocol": {"protocol"},
    "serialization": {"serialization", "protocol", "features"},
    "actors": {"actors", "serialization", "protocol", "features", "plurals", "printable"},
}

# Time, ids and randomness are arguments of the machines. So this is a list of pure modules, not of
# impure ones: a new name here needs the question "does it look at the world?".
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


def foreign(layer: str, module: str) -> bool:
    """Whether *layer* may not import *module*."""
    top, _, rest = module.partition(".")
    return top == "farref" and rest.partition(".")[0] not in ALLOWED[layer]


def allowed(room: str) -> list[str]:
    """The rooms and parts that *room* may import, as its `__init__` says."""
    text = ast.get_docstring(ast.parse((ACTORS / room / "__init__.py").read_text("utf-8"))) or ""
    said = re.search(r"^Imports (.+?)\.$", text, re.MULTILINE | re.DOTALL)
    assert said is not None, f"{room} does not say what it may import"
    return re.findall(r"`(\w+)`", said[1])


def imported(room: str) -> set[str]:
    """The other rooms and parts that modules of *room* import."""
    modules = {module for found in graph(all_imports(ACTORS / room)).values() for module in found}
    names = {module.removeprefix("farref.").removeprefix("actors.") for module in modules}
    return {name.partition(".")[0] for name in names} - {room}


# --- Circles ------------------------------------------------------------------------------


def test_no_modules_import_each_other_in_a_circle() -> None:
    edges = graph(all_imports(FACADE, *(ROOT / layer for layer in LAYERS)))
    assert len(edges) > 200
    assert circle(edges) == []


def test_the_check_for_circles_sees_types_and_late_imports() -> None:
    texts = {
        "wire/codec.py": "if TYPE_CHECKING:\n    from ..core.port import Port",
        "core/port.py": "def late() -> None:\n    from ..wire import codec",
    }
    edges = graph(each for file, text in texts.items() for each in imports_of(text, ACTORS / file))
    codec, port = "farref.actors.wire.codec", "farref.actors.core.port"
    assert set(circle(edges)) == {codec, port}


# --- Rooms --------------------------------------------------------------------------------


def test_every_module_of_the_actors_is_in_a_room() -> None:
    assert [file.name for file in ACTORS.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_it_says(room: str) -> None:
    assert imported(room) == set(allowed(room))


def test_rooms_import_lower_ones_only() -> None:
    text = ast.get_docstring(ast.parse((ACTORS / "__init__.py").read_text("utf-8"))) or ""
    order = re.findall(r"^(\w+)  ", text, re.MULTILINE)
    assert sorted(order) == ROOMS
    below = ["features", "plurals", "printable", "protocol", "serialization"]
    for number, room in enumerate(order):
        assert set(allowed(room)) <= {*below, *order[:number]}, room


def test_the_protocols_modules_import_only_those_above_them_in_its_list() -> None:
    folder = ROOT / "protocol"
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    order = re.findall(r"^    (\w+)  ", text, re.MULTILINE)
    assert sorted(order) == sorted(
        {file.stem for file in folder.iterdir()} - {"__init__", "__pycache__"}
    )
    for module, found in graph(all_imports(folder)).items():
        parts = [name.split(".")[2:] for name in (module, *found) if name.count(".") >= 2]
        here, *others = (part[0] for part in parts)
        assert set(others) <= {here, *order[: order.index(here)]}, module


# --- Names --------------------------------------------------------------------------------


def doubles(texts: Iterable[str]) -> list[str]:
    """The names that several classes have, in modules of these texts."""
    nodes = [node for text in texts for node in ast.parse(text).body]
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert names, "there are classes"
    return [name for name, count in names.items() if count > 1]


def test_no_two_classes_share_a_name() -> None:
    product = files(ROOT / "src", *(ROOT / layer for layer in ALLOWED))
    assert doubles(file.read_text(encoding="utf-8") for file in product) == []


def test_the_check_for_names_sees_doubles() -> None:
    texts = [
        "class Loan:\n    class Part: ...",
        "class _Row: ...\nclass Part: ...",
        "class _Row: ...",
    ]
    assert doubles(texts) == ["_Row"]


# --- Layers -------------------------------------------------------------------------------


def test_protocol_is_sans_io() -> None:
    imports = [found for found in all_imports(ROOT / "protocol") if not found.relative]
    assert [str(i) for i in imports if i.module.split(".")[0] not in PURE_MODULES] == []


def test_serialization_knows_no_actors() -> None:
    imports = all_imports(ROOT / "serialization")
    assert [str(found) for found in imports if found.module.startswith("thespian")] == []


@pytest.mark.parametrize("layer", sorted(ALLOWED))
def test_layers_import_downwards_only_and_relatively(layer: str) -> None:
    imports = all_imports(ROOT / layer)
    assert [str(found) for found in imports if foreign(layer, found.module)] == []
    ours = [found for found in imports if f"{found.module}.".startswith("farref.")]
    assert [str(found) for found in ours if not found.relative] == []


def test_nothing_imports_a_layer_as_a_top_level_package() -> None:
    folders = (*(ROOT / layer for layer in LAYERS), ROOT / "src", ROOT / "tests")
    assert [str(found) for found in all_imports(*folders) if top_level(found)] == []


def top_level(found: Import) -> bool:
    return not found.relative and found.module.split(".")[0] in (*LAYERS, "tests")


@pytest.mark.parametrize(
    ("file", "line", "wrong"),
    [
        ("protocol/owner.py", "from ..actors import system", True),
        ("protocol/owner.py", "from .. import serialization", True),
        ("protocol/owner.py", "import farref.actors.api.system", True),
        ("protocol/owner.py", "from .. import System", True),
        ("protocol/owner.py", "from .ids import ForkId", False),
        ("serialization/pickler.py", "from farref import actors", True),
        ("serialization/pickler.py", "from ..protocol.ids import ForkId", False),
        ("actors/api/system.py", "from ...examples import wordcount", True),
        ("actors/api/system.py", "from farref import System", True),
        ("actors/api/system.py", "from ..core import core", False),
    ],
)
def test_the_layer_check_sees(file: str, line: str, *, wrong: bool) -> None:
    (found,) = imports_of(line, ROOT / file)
    assert foreign(file.partition("/")[0], found.module) is wrong


@pytest.mark.parametrize("line", ["import actors", "from protocol.ids import ForkId"])
def test_the_top_level_check_sees(line: str) -> None:
    (found,) = imports_of(line, ACTORS / "api" / "system.py")
    assert top_level(found)
