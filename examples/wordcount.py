"""Counting the words of many files with many processes, checked against one process.

The text never passes through this program. Each *mapper* reads its own chunk of files and
owns the text. It makes one partial count per *reducer*, and owns these too. The program only passes
references on: every reducer gets references to the counts of its share of the words, and fetches
them directly from the mappers. When the program drops its references, everything is freed. Then
this process counts the same files alone, and the results are compared.
"""

import os
import re
import sys
import sysconfig
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.progress import Progress
from rich.table import Table

import farref
from farref import Future, RRef, System
from farref.commands.options import BaseOption, SharingOption
from farref.examples.harness import InputError, JsonOption, Program, Verdict, WorkersOption, run
from farref.plurals import plural

WORD = re.compile(r"[^\W\d_]+")
TEXTS = {".html", ".md", ".py", ".pyi", ".rst", ".txt"}
CHUNK = 1_500_000
"""About how many bytes of text a chunk has."""
Parts = list[RRef[Counter[str]]]
T = TypeVar("T")


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
    # `counted` has the parts by chunk, one for each reducer; `shares` has them by reducer.
    shares = zip(*watch(counted, "map", progress), strict=True)
    added = [
        farref.rpc_async(name, add_up, args=(list(share),))
        for name, share in zip(names, shares, strict=True)
    ]
    return sum(watch(added, "reduce", progress), Counter())


def watch(futures: list[Future[T]], what: str, progress: Progress) -> list[T]:
    """Wait for all *futures*, with a bar. Return their results."""
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


class WordCount(Program[Counter[str]]):
    def __init__(self, paths: list[Path] | None = None, top: int = 10) -> None:
        self.files = select(paths or [])
        self.top = top

    def together(self, system: System, workers: int, progress: Progress) -> Counter[str]:
        return count_in_parallel(system, cut(self.files, workers), workers, progress)

    def alone(self, progress: Progress) -> Counter[str]:
        words: Counter[str] = Counter()
        for chunk in progress.track(cut(self.files, 1), description="check"):
            words.update(count_words(read_text(chunk)))
        return words

    def judge(self, found: Counter[str], expected: Counter[str]) -> Verdict:
        size = sum(size for _, size in self.files)
        top = found.most_common(self.top)
        figures = {
            "files": len(self.files),
            "bytes": size,
            "words": found.total(),
            "distinct": len(found),
            "top": top,
        }
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(justify="right", style="bold")
        table.add_column(no_wrap=True)
        for word, number in top:
            table.add_row(f"{number:,}", word)
        files = f"{len(self.files):,} {plural('file', len(self.files))}"
        says = f"{found.total():,} words ({len(found):,} different) in {files}, {size / 1e6:.1f} MB"
        same = found == expected
        return Verdict(same, figures, [table, says], "the same" if same else "NOT the same")


PROGRAM = WordCount


def main(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files and folders; default: Python's standard library."),
    ] = None,
    *,
    top: Annotated[int, typer.Option(min=0, help="How many of the most frequent words.")] = 10,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
    base: BaseOption = None,
    sharing: SharingOption = None,
) -> None:
    """Count the words of files with many processes; check against one process.

    The exit code is 1 if the results differ, 2 if a file cannot be read or there is none.
    """
    made = partial(WordCount, paths, top)
    run("wordcount", made, workers, as_json=as_json, base=base, sharing=sharing)


if __name__ == "__main__":
    typer.run(main)
