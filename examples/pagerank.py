"""PageRank over a real graph that is spread over processes, checked against networkx.

Each worker owns a *partition*: a part of the nodes, their outgoing edges and their ranks. In a
round every partition sends some of its rank along its edges: it makes a table for each partition,
and the other partition fetches its table directly. The program holds only references to the
partitions. It asks for a whole round at once, even for parts of tables that do not exist yet
(``tables.remote()[number]``), and waits only for the change of the ranks.

By default the graph is the largest real one in networkx: the meetings of the characters in *Les
Misérables*, 77 persons with 254 weighted edges. You can give a file with another graph. Each line
is an edge: two names, and optionally a weight.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.progress import Progress
from rich.table import Table

import farref
from farref import RRef, System
from farref.commands.options import BaseOption, SharingOption
from farref.examples.harness import (
    InputError,
    JsonOption,
    Program,
    Verdict,
    WorkersOption,
    needed,
    run,
)
from farref.plurals import plural

DAMPING = 0.85
CLOSE = 1e-10
"""The largest change of all ranks together in the last round; the ranks add up to 1."""
ROUNDS = 1000
Edges: TypeAlias = dict[str, dict[str, float]]
"""For each node, its targets and their shares of its rank. The shares add up to 1, if any."""
Ranks: TypeAlias = dict[str, float]


# ---- what runs on the workers


class Partition:
    """Owns some of the nodes; *homes* maps every node to its partition."""

    def __init__(self, edges: Edges, homes: dict[str, int], partitions: int) -> None:
        self.edges = edges
        self.homes = homes
        self.partitions = partitions
        self.ranks: Ranks = dict.fromkeys(edges, 1 / len(homes))

    def scatter(self) -> list[Ranks]:
        """The ranks that leave this partition in this round: a table for each partition."""
        tables: list[Ranks] = [{} for _ in range(self.partitions)]
        for node, targets in self.edges.items():
            for target, share in targets.items():
                table = tables[self.homes[target]]
                table[target] = table.get(target, 0.0) + self.ranks[node] * share
        return tables

    def stuck(self) -> float:
        """The rank of the nodes without outgoing edges, which all nodes share."""
        return sum(self.ranks[node] for node, targets in self.edges.items() if not targets)

    def gather(self, tables: list[RRef[Ranks]], stuck: list[RRef[float]]) -> float:
        """Fetch the ranks that flow to this partition. Return the change of its ranks."""
        came = dict.fromkeys(self.edges, 0.0)
        for table in farref.get(tables):
            for node, rank in table.items():
                came[node] += rank
        level = (DAMPING * sum(farref.get(stuck)) + 1 - DAMPING) / len(self.homes)
        before, self.ranks = self.ranks, {n: level + DAMPING * came[n] for n in self.edges}
        return sum(abs(self.ranks[node] - before[node]) for node in before)


# ---- the program


def load(file: Path | None) -> Any:
    """The graph, with directed edges. Raises `InputError`."""
    with needed(__name__):
        import networkx as nx  # noqa: PLC0415 - only here, and it takes a while
        import scipy.sparse  # noqa: F401, PLC0415 - else networkx.pagerank's time would include it
    if file is None:
        return nx.les_miserables_graph().to_directed()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if len(line.partition("#")[0].split()) == 1:  # networkx would skip it silently
                raise InputError(
                    f"{file}, line {number}: an edge needs two names: {line.strip()!r}"
                )
        graph = nx.parse_edgelist(lines, create_using=nx.DiGraph, data=[("weight", float)])
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    except (IndexError, TypeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} is not a list of edges (a name, a name, a weight): {error}"
        ) from error
    if not graph:
        raise InputError(f"{file} has no edge")
    if any(weight <= 0 for *_, weight in graph.edges(data="weight", default=1.0)):
        raise InputError(f"{file} has an edge with a weight of 0 or less")
    return graph


def shares(graph: Any) -> Edges:
    total = dict(graph.out_degree(weight="weight"))
    return {
        node: {to: edge.get("weight", 1.0) / total[node] for to, edge in graph[node].items()}
        for node in graph
    }


class PageRank(Program[Ranks]):
    def __init__(self, file: Path | None = None) -> None:
        self.graph = load(file)

    def together(self, system: System, workers: int, progress: Progress) -> Ranks:
        partitions = self.spread(system, workers)
        bar = progress.add_task("rounds", total=None)
        for _ in range(ROUNDS):
            flows = [each.remote().scatter() for each in partitions]
            stuck = [each.remote().stuck() for each in partitions]
            changes = [
                each.rpc_async().gather([flow.remote()[number] for flow in flows], stuck)
                for number, each in enumerate(partitions)
            ]
            progress.advance(bar)
            if sum(change.result() for change in changes) < CLOSE:
                break
        progress.update(bar, total=progress.tasks[bar].completed)
        ranks = [each.remote().ranks.get() for each in partitions]
        return {node: rank for part in farref.get(ranks) for node, rank in part.items()}

    def spread(self, system: System, workers: int) -> list[RRef[Partition]]:
        """Cut the graph. Each part gets a worker, which owns it."""
        edges = shares(self.graph)
        homes = {node: number % workers for number, node in enumerate(edges)}
        partitions = []
        for number in range(workers):
            mine = {node: edges[node] for node, home in homes.items() if home == number}
            name = system.worker(f"part-{number + 1}").name
            partitions.append(farref.remote(name, Partition, args=(mine, homes, workers)))
        return partitions

    def alone(self, progress: Progress) -> Ranks:
        with needed(__name__):
            import networkx as nx  # noqa: PLC0415 - as above
        bar = progress.add_task("check", total=1)
        tolerance = CLOSE / len(self.graph)  # networkx multiplies it by the number of nodes
        ranks: Ranks = nx.pagerank(self.graph, DAMPING, max_iter=ROUNDS, tol=tolerance)
        progress.advance(bar)
        return ranks

    def judge(self, found: Ranks, expected: Ranks) -> Verdict:
        apart = max(abs(found.get(node, 0.0) - rank) for node, rank in expected.items())
        top = Counter(found).most_common(5)
        nodes, edges = self.graph.number_of_nodes(), self.graph.number_of_edges()
        figures = {"nodes": nodes, "edges": edges, "apart": apart, "top": top}
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for node, rank in top:
            table.add_row(f"{rank:.4f}", node)
        says = f"{nodes:,} nodes, {edges:,} {plural('directed edge', edges)}"
        check = f"ranks at most {apart:.1e} from networkx.pagerank's"
        return Verdict(
            found.keys() == expected.keys() and apart < 1e-8, figures, [table, says], check
        )


PROGRAM = PageRank


def main(
    file: Annotated[
        Path | None,
        typer.Argument(help="Edges, one a line: two names, maybe a weight.", show_default=False),
    ] = None,
    *,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
    base: BaseOption = None,
    sharing: SharingOption = None,
) -> None:
    """Rank the nodes of a graph that is spread over processes; check against networkx.

    The exit code is 1 if the ranks differ, 2 if the file is not a list of edges.
    """
    made = partial(PageRank, file)
    run("pagerank", made, workers, as_json=as_json, base=base, sharing=sharing)


if __name__ == "__main__":
    typer.run(main)
