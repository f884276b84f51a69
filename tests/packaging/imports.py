"""The imports between farref's modules, wherever they stand: `TYPE_CHECKING` is no excuse."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FACADE = ROOT / "src" / "farref"
LAYERS = ("actors", "examples", "protocol", "serialization")
"""Folders at the top of the repository that are parts of farref."""


@dataclass(frozen=True)
class Import:
    """One name or module that a file imports, by its absolute name."""

    file: Path
    line: int
    module: str
    relative: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def name_of(file: Path) -> str:
    """The name of the module in *file*."""
    parts = [*file.relative_to(ROOT).with_suffix("").parts]
    parts = parts[1:] if parts[0] == "src" else ["farref", *parts] if parts[0] in LAYERS else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str, file: Path) -> Iterator[Import]:
    """Every import in *source*, the text of *file*; an import of several names yields each."""
    here = name_of(file).split(".")
    package = here if file.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, relative=False)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = [*base, *([node.module] if node.module else [])]
            for alias in node.names:
                yield Import(file, node.lineno, ".".join([*start, alias.name]), bool(node.level))


def files(*folders: Path) -> list[Path]:
    """The modules in *folders*; links to folders are not followed."""
    return [file for folder in folders for file in sorted(folder.rglob("*.py"))]


def all_imports(*folders: Path) -> list[Import]:
    """Every import in *folders*."""
    return [
        found
        for file in files(*folders)
        for found in imports_of(file.read_text(encoding="utf-8"), file)
    ]


def graph(imports: Iterable[Import]) -> dict[str, set[str]]:
    """For each module, the modules of farref that it imports."""
    known = {name_of(file) for file in files(FACADE, *(ROOT / layer for layer in LAYERS))}
    found: dict[str, set[str]] = {}
    for each in imports:
        module = each.module if each.module in known else each.module.rpartition(".")[0]
        mine = found.setdefault(name_of(each.file), set())
        if module in known and module != name_of(each.file):
            mine.add(module)
    return found


def circle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """Modules that import each other in a circle, the first one again at the end; or nothing."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
