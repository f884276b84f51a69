"""Counting the words of many files with many processes, checked against one process.

The text never passes through this program. Each *mapper* reads its own chunk of files and
owns the text; counting it makes one partial count per *reducer*, which the mapper owns too.
The program only passes references on: every reducer gets those of its share of the words and
fetches them from the mappers directly. When the program drops its references, all of it is
freed. The same files are then counted in this process alone, and the results compared.
"""

import json
import os
import re
import sys
import sysconfig
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import farref
from farref import FarrefError, Future, RRef, System
from farref.protocol.sharing import Sharing

SENTENCE = "A real program: counts the words of the standard library, and checks the result."
WORD = re.compile(r"[^\W\d_]+")
TEXTS = {".html", ".md", ".py", ".pyi", ".rst", ".txt"}
CHUNK = 1_500_000
"""Bytes of text that one chunk has, about."""
Parts = list[RRef[Counter[str]]]
T = TypeVar("T")


class InputError(Exception):
    """The files to count cannot be had."""


# ---- what runs on the workers


def read_text(paths: list[str]) -> list[str]:
    """On a mapper: the text of one chunk, which that mapper owns from now on."""
    return [Path(path).read_text(encoding="utf-8", errors="replace") for path in paths]


def count(chunk: RRef[list[str]], reducers: int) -> Parts:
    """On the mapper that owns *chunk*: one partial count for each reducer."""
    farref.wait([chunk])  # until it has been read
    parts: list[Counter[str]] = [Counter() for _ in range(reducers)]
    for word, number in count_words(chunk.local_value()).items():
        parts[zlib.crc32(word.encode()) % reducers][word] = number
    return [RRef(part) for part in parts]


def add_up(parts: Parts) -> Counter[str]:
    """On a reducer: fetch the partial counts from the mappers, and add them."""
    return sum(farref.get(parts), Counter())


def count_words(texts: Iterable[str]) -> Counter[str]:
    """The words of *texts*, in lower case."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(WORD.findall(text.lower()))
    return words


# ---- the program


def count_in_parallel(
    system: System, chunks: list[list[str]], workers: int, progress: Progress
) -> Counter[str]:
    """The words of all *chunks*, counted by *workers* mappers and as many reducers."""
    names = [f"worker-{number}" for number in range(1, workers + 1)]
    for name in names:
        system.worker(name)
    counted = []
    for number, paths in enumerate(chunks):
        mapper = names[number % workers]
        chunk = farref.remote(mapper, read_text, args=(paths,))
        counted.append(farref.rpc_async(mapper, count, args=(chunk, workers)))
    # Of each chunk the parts, one per reducer; of each reducer the parts of every chunk.
    shares = zip(*watch(counted, "map", progress), strict=True)
    added = [
        farref.rpc_async(name, add_up, args=(list(share),))
        for name, share in zip(names, shares, strict=True)
    ]
    return sum(watch(added, "reduce", progress), Counter())


def watch(futures: list[Future[T]], what: str, progress: Progress) -> list[T]:
    """Wait for all *futures* beside a bar; their results."""
    bar = progress.add_task(what, total=len(futures))
    for future in futures:
        future.add_done_callback(lambda _: progress.advance(bar))
    return [future.result() for future in futures]


def texts_of_python() -> list[Path]:
    """The standard library's sources and texts on this machine, and Python's own docs."""
    library = Path(sysconfig.get_path("stdlib"))
    docs = Path(sys.base_prefix, "share", "doc", f"python{sysconfig.get_python_version()}")
    skip = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
    return list(_walk(library, skip)) + list(_walk(docs, skip))


def _walk(folder: Path, skip: set[str]) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - skip)
        yield from (Path(here, name) for name in sorted(files) if Path(name).suffix in TEXTS)


def select(paths: list[Path]) -> list[tuple[Path, int]]:
    """The files to count with their sizes in bytes. Raises `InputError`."""
    files: list[Path] = [] if paths else texts_of_python()
    for path in paths:
        files += _walk(path, {"__pycache__"}) if path.is_dir() else [path]
    sized = []
    for file in dict.fromkeys(files):
        try:
            with file.open("rb"):
                sized.append((file, file.stat().st_size))
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    if not sized:
        where = ", ".join(map(str, paths)) or "the standard library"
        raise InputError(f"no text files in {where} (of {', '.join(sorted(TEXTS))})")
    return sized


def cut(files: list[tuple[Path, int]], workers: int) -> list[list[str]]:
    """Chunks of about equal size, at least one per worker if there are as many files."""
    target = min(CHUNK, sum(size for _, size in files) // workers + 1)
    chunks: list[list[str]] = [[]]
    room = target
    for file, size in files:
        if room <= 0:
            chunks.append([])
            room = target
        chunks[-1].append(str(file))
        room -= size
    return chunks


def run(
    paths: list[Path] | None = None,
    workers: int | None = None,
    *,
    as_json: bool = False,
    top: int = 10,
    base: str | None = None,
    sharing: Sharing = "lend",
) -> int:
    """Count, compare, and say so; the exit code."""
    files = select(paths or [])
    workers = workers or min(4, os.cpu_count() or 2)
    chunks = cut(files, workers)
    say = Console(stderr=as_json)
    columns = (TextColumn("{task.description:6}"), BarColumn(), TaskProgressColumn())
    begin = time.perf_counter()
    with Progress(*columns, TimeElapsedColumn(), console=say, transient=False) as progress:
        with System(base, sharing=sharing) as system:
            words = count_in_parallel(system, chunks, workers, progress)
        parallel = time.perf_counter() - begin
        bar = progress.add_task("check", total=len(chunks))
        begin, plain = time.perf_counter(), Counter[str]()
        for chunk in chunks:
            plain.update(count_words(read_text(chunk)))
            progress.advance(bar)
    result = {
        "files": len(files),
        "bytes": sum(size for _, size in files),
        "chunks": len(chunks),
        "workers": workers,
        "words": words.total(),
        "distinct": len(words),
        "seconds": round(parallel, 3),
        "seconds_one_process": round(time.perf_counter() - begin, 3),
        "same": words == plain,
        "top": words.most_common(top),
    }
    print(json.dumps(result, indent=2)) if as_json else _show(result, say)
    return 0 if result["same"] else 1


def _show(result: dict[str, Any], console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right", style="bold")
    table.add_column(no_wrap=True)
    for word, number in result["top"]:
        table.add_row(f"{number:,}", word)
    console.print(table)
    console.print(
        f"{result['words']:,} words ({result['distinct']:,} different) in {result['files']:,} "
        f"files, {result['bytes'] / 1e6:.1f} MB, {result['chunks']} chunks"
    )
    console.print(
        f"{result['workers']} workers {result['seconds']:.1f} s, one process alone "
        f"{result['seconds_one_process']:.1f} s"
    )
    same = "the same result" if result["same"] else "NOT the same result: this is a bug"
    console.print(f"checked against one process: {same}", style="bold")


def main(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files and folders; default: Python's standard library."),
    ] = None,
    *,
    workers: Annotated[int | None, typer.Option(min=1, max=64, help="Worker processes.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
    top: Annotated[int, typer.Option(min=0, help="How many of the most frequent words.")] = 10,
    base: Annotated[str | None, typer.Option(help="The Thespian system base.")] = None,
) -> None:
    """Count the words of files with many processes; check against one process.

    The exit code is 1 if the results differ, 2 if a file cannot be read or there is none.
    """
    try:
        code = run(paths, workers, as_json=as_json, top=top, base=base)
    except InputError as error:
        print(f"wordcount: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    except (FarrefError, OSError) as error:
        print(f"wordcount: {type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
