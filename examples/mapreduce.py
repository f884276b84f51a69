"""Map and reduce in many processes; if one dies, the others do its work again.

Any two functions will do. Here they count the pairs of neighbouring words in the texts that
Python's own help() shows (``pydoc_data``). A worker that maps a text keeps the results, a table for
each reducer. The program gets references to the tables, and lends them to the workers that reduce.
These fetch the tables directly. So the tables of a worker die with it: a fetch of one raises
`OwnerDiedError`. The program then maps those texts again on another worker, and goes on.

The result is compared with one `Counter` over all texts.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from rich.progress import Progress
from rich.table import Table

import farref
from farref import OwnerDiedError, RRef, System, WorkerDiedError
from farref.examples.harness import Program, Verdict, run_program

Pair: TypeAlias = tuple[str, str]
Map: TypeAlias = Callable[[Any], Iterable[tuple[Any, Any]]]
"""Returns the keys of one input, each with a value."""
Reduce: TypeAlias = Callable[[Any, list[Any]], Any]
"""Reduces the values of one key; a result may be one of the values of a later call."""
Group: TypeAlias = dict[Any, Any]
Task: TypeAlias = tuple[Any, ...]
"""A function, and its arguments."""


# ---- map-reduce, of anything


def map_one(mapper: Map, reducer: Reduce, given: object, parts: int) -> list[RRef[Group]]:
    """On a worker: map one input. Return a table for each reducer, owned by this worker."""
    tables: list[dict[Any, list[Any]]] = [defaultdict(list) for _ in range(parts)]
    for key, value in mapper(given):
        tables[zlib.crc32(repr(key).encode()) % parts][key].append(value)
    return [RRef({k: reducer(k, values) for k, values in table.items()}) for table in tables]


def reduce_one(reducer: Reduce, tables: list[RRef[Group]]) -> Group:
    """On a worker: fetch the tables of one part of the keys, and reduce them."""
    values = defaultdict(list)
    for table in farref.get(tables):
        for key, value in table.items():
            values[key].append(value)
    return {key: reducer(key, each) for key, each in values.items()}


def map_reduce(
    workers: list[str], inputs: list[Any], mapper: Map, reducer: Reduce, progress: Progress
) -> Group:
    """Map all *inputs* and reduce the results. Return the reduced values by key.

    Raises `WorkerDiedError` if the last worker died, and the exceptions of the functions.
    """
    workers, parts = list(workers), len(workers)
    mapping = progress.add_task("map", total=len(inputs))
    reducing = progress.add_task("reduce", total=parts)
    tables: dict[int, list[RRef[Group]]] = {}
    reduced: dict[int, Group] = {}
    while len(reduced) < parts:
        tables = {number: each for number, each in tables.items() if has_owner(each[0])}
        wanted = {n: (map_one, mapper, reducer, inputs[n], parts) for n in range(len(inputs))}
        for number, result in share_out(workers, wanted, skip=tables):
            tables[number] = result
            progress.update(mapping, completed=len(tables))
        shares = zip(*tables.values(), strict=True)  # for each reducer, the tables of every input
        tasks = {part: (reduce_one, reducer, list(each)) for part, each in enumerate(shares)}
        try:
            for part, result in share_out(workers, tasks, skip=reduced):
                reduced[part] = result
                progress.update(reducing, completed=len(reduced))
        except OwnerDiedError:
            continue  # tables are gone: the texts behind them are mapped again
    return {key: value for each in reduced.values() for key, value in each.items()}


def share_out(
    workers: list[str], tasks: dict[int, Task], *, skip: dict[int, Any]
) -> Iterator[tuple[int, Any]]:
    """Have *workers* do the tasks that are not in *skip* yet; yield each result as it comes.

    If a worker dies, it is removed from *workers*, and the others do its tasks.
    """
    while todo := sorted(tasks.keys() - skip.keys()):
        asked = []
        for number, worker in zip(todo, itertools.cycle(list(workers)), strict=False):
            function, *arguments = tasks[number]
            with lose(workers, worker):
                asked.append((number, worker, farref.rpc_async(worker, function, tuple(arguments))))
        for number, worker, future in asked:
            with lose(workers, worker):
                yield number, future.result()


@contextlib.contextmanager
def lose(workers: list[str], worker: str) -> Iterator[None]:
    """Remove *worker* from *workers* if the block finds it dead; raises if it was the last."""
    try:
        yield
    except WorkerDiedError:
        if worker in workers:
            workers.remove(worker)
        if not workers:
            raise


def has_owner(ref: RRef[Any]) -> bool:
    try:
        ref.owner()
    except OwnerDiedError:
        return False
    return True


# ---- the job


def pairs(topic: str) -> Iterator[tuple[Pair, int]]:
    words = words_of(topic)
    return ((pair, 1) for pair in itertools.pairwise(words))


def words_of(topic: str) -> list[str]:
    from pydoc_data.topics import topics  # noqa: PLC0415 - half a megabyte, only for mappers

    return re.findall(r"[a-z]+", topics[topic].lower())


def total(_pair: Pair, numbers: list[int]) -> int:
    return sum(numbers)


class CountPairs(Program[Counter[Pair]]):
    def __init__(self) -> None:
        from pydoc_data.topics import topics  # noqa: PLC0415 - as above

        self.topics = sorted(topics)

    def together(self, system: System, workers: int, progress: Progress) -> Counter[Pair]:
        names = [system.worker(f"worker-{number + 1}").name for number in range(workers)]
        return Counter(map_reduce(names, self.topics, pairs, total, progress))

    def alone(self, progress: Progress) -> Counter[Pair]:
        counted: Counter[Pair] = Counter()
        for topic in progress.track(self.topics, description="check"):
            counted.update(itertools.pairwise(words_of(topic)))
        return counted

    def judge(self, found: Counter[Pair], expected: Counter[Pair]) -> Verdict:
        top = found.most_common(5)
        figures = {
            "texts": len(self.topics),
            "pairs": found.total(),
            "distinct": len(found),
            "top": [[*pair, number] for pair, number in top],
        }
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(justify="right")
        for pair, number in top:
            table.add_row(f"{number:,}", " ".join(pair))
        says = f"{found.total():,} pairs ({len(found):,} different) in {len(self.topics)} texts"
        same = found == expected
        return Verdict(same, figures, [table, says], "the same" if same else "NOT the same")


PROGRAM = CountPairs

if __name__ == "__main__":
    run_program(__doc__, PROGRAM)
