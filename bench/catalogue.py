"""The benchmarks: their names, their work, their points and their units.

They are in groups; each group is a table. The targets are in `targets`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Unit = Literal["seconds", "per second", "bytes", "percent"]
"""A figure's unit: seconds or bytes for each, or percent of a core (less is better), or how many a
second (more is)."""
Group = Literal[
    "calls",
    "chains",
    "references",
    "streams",
    "values",
    "frozen values",
    "memory",
    "start and rest",
    "growth",
]

KB, MB, GB = 10**3, 10**6, 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    name: str
    title: str
    """It has ``{}`` for the point, if there are several."""
    group: Group
    method: str = ""
    """The method of `peer.Peer` that does the work, if it is not named as the benchmark."""
    unit: Unit = "seconds"
    points: tuple[int, ...] = (0,)
    quick: tuple[int, ...] = (0,)
    """The points of a quick run."""
    point: Literal["", "bytes", "references", "links", "workers", "calls", "nodes"] = ""
    amount: int | None = None
    """Repetitions in a round, if time does not decide them."""
    times: int = 1
    """How often a round does this amount."""
    least: int = 1
    """Repetitions in a round at least, unless a single one takes `rounds.SLOW` seconds."""
    most: int = 100_000
    bulk: int = 0
    """Limit in bytes for the fetches of a round, each of a new value (0: no limit)."""
    fresh: bool = False
    """Every round needs new processes, because one round's leftovers disturb the next."""
    peers: tuple[str, ...] = ()
    """The peers that it is of; empty for all."""
    what: str = ""
    """One sentence: the work that the time covers."""

    def workers(self, point: int) -> int:
        """The number of worker processes that it needs; 0 if it starts programs of its own."""
        if self.group == "start and rest":
            return 0
        return point if self.point == "workers" else 2

    @property
    def work(self) -> str:
        """The method of `peer.Peer` that does the work."""
        return self.method or self.name.replace("-", "_")

    @property
    def brief(self) -> bool:
        """Whether its work is a call or a reference, which takes no time that a size decides."""
        return self.group in ("calls", "references") and not self.point

    def brief_at(self, point: int) -> bool:
        """Whether its work is brief, or a fetch of so few bytes that the round trip decides."""
        return self.brief or (self.point == "bytes" and point < MB)

    def most_at(self, point: int) -> int:
        bulk = self.bulk // max(1, point) if self.bulk else self.most
        return max(self.least, min(self.most, bulk))

    def point_name(self, point: int) -> str:
        """The name of *point* in a table: '1 KB', '1,000'; empty if there is only one way."""
        if not self.point:
            return ""
        return size(point) if self.point == "bytes" else f"{point:,}"

    def named(self, point: int) -> str:
        return self.title.format(self.point_name(point))


def typed(name: str) -> str:
    """The name of a point as a command has it: '1 KB' -> '1KB', '1,000' -> '1000'."""
    return name.replace(" ", "").replace(",", "").upper()


def size(number: int) -> str:
    """1000000 -> '1 MB'."""
    for unit, bound in (("GB", GB), ("MB", MB), ("KB", KB)):
        if number >= bound:
            return f"{number / bound:g} {unit}"
    return f"{number} B"


SIZES = (KB, 100 * KB, MB, 10 * MB, 100 * MB, GB)
READ = (MB, 100 * MB)
SMALL = (KB, 100 * KB)
"""For these the round trip decides."""
STEPS = (1, 2, 5, 10, 50)

_METHOD = Benchmark(
    name="method",
    title="method, round trip",
    group="calls",
    what="The program calls a method of an object at B through its reference and has the result.",
)
_IN_FLIGHT = Benchmark(
    name="in-flight",
    title="calls in flight",
    group="calls",
    unit="per second",
    amount=1_000,
    times=5,
    what="The program sends 1,000 calls to B before it waits for the first answer, five times.",
)
_CHAIN = Benchmark(
    name="chain",
    title="{} dependent calls, sent at once",
    group="chains",
    method="chained",
    points=STEPS,
    quick=(2,),
    point="calls",
    what="Each call to B is on the result of the last, which may not be there yet.",
)
_STREAM = Benchmark(
    name="stream",
    title="items of a generator",
    group="streams",
    unit="per second",
    amount=10_000,
    peers=("farref", "ray"),
    what="The program iterates over a generator of 10,000 small numbers at B.",
)
_VALUES = Benchmark(
    name="values",
    title="{} array, fetched",
    group="values",
    method="value",
    points=SIZES,
    quick=(1_000,),
    point="bytes",
    most=200,
    bulk=GB // 2,
    what="The program fetches arrays of B's, each for the first time; the first needs new pages.",
)
_FROZEN = replace(_VALUES, group="frozen values", method="")
_START = Benchmark(
    name="start",
    title="System() and a worker",
    group="start and rest",
    amount=5,
    peers=("farref", "base"),
    what="A fresh program, after its imports: until a worker has answered a call, five times.",
)
BENCHMARKS = (
    Benchmark(
        name="call",
        title="call, round trip",
        group="calls",
        what="The program calls a function at B and has its result, one call after the other.",
    ),
    Benchmark(
        name="call-there",
        title="call, by a worker's function",
        group="calls",
        peers=("farref", "torch"),
        what="A function at B calls one at C and has its result, one call after the other.",
    ),
    _METHOD,
    replace(
        _METHOD,
        name="method-lent",
        title="method, lent a reference",
        peers=("farref", "torch"),
        what="The same, and its argument is the program's reference to an object of C's.",
    ),
    _IN_FLIGHT,
    replace(
        _IN_FLIGHT,
        name="methods-in-flight",
        title="methods in flight",
        what="The same, with calls of that method.",
    ),
    Benchmark(
        name="one-way",
        title="one-way messages",
        group="calls",
        unit="per second",
        amount=5_000,
        what="5,000 messages to an actor, until it has handled the last.",
    ),
    _CHAIN,
    replace(
        _CHAIN,
        name="chain-stepwise",
        title="{} dependent calls, one by one",
        method="stepwise",
        what="The same, but each result is fetched before the call on it.",
    ),
    Benchmark(
        name="alias-again",
        title="a second fetch, through {} aliases",
        group="chains",
        points=(0, 10),
        quick=(2,),
        point="links",
        what="The program fetches the value behind aliases that it has fetched before.",
    ),
    Benchmark(
        name="remote-fetch",
        title="remote + fetch",
        group="references",
        what="The program has B make an object and fetches it.",
    ),
    Benchmark(
        name="share",
        title="share, user to user",
        group="references",
        what="The program passes its reference to an object of B's to C in a call.",
    ),
    Benchmark(
        name="share-fetch",
        title="share, and fetch there",
        group="references",
        what="The same, and C fetches the object before it answers.",
    ),
    Benchmark(
        name="references",
        title="{} references in a message",
        group="references",
        points=(1_000, 100_000),
        quick=(10,),
        point="references",
        amount=1,
        what="In one call to C, the program passes references to as many objects of B's.",
    ),
    Benchmark(
        name="create-drop",
        title="create and drop",
        group="references",
        unit="per second",
        amount=1_000,
        what="The program makes 1,000 objects at B, and drops them, until the last is freed.",
    ),
    Benchmark(
        name="alias-chain",
        title="chain of {} aliases",
        group="references",
        points=(10,),
        quick=(2,),
        point="links",
        most=200,
        what="Each task returns the reference to a task on another worker; the value at the end.",
    ),
    _STREAM,
    replace(
        _STREAM,
        name="stream-arrays",
        title="arrays of 1 KB of a generator",
        amount=2_000,
        what="The same, with 2,000 arrays of 1 KB.",
    ),
    replace(
        _STREAM,
        name="stream-at-once",
        title="items of a generator, in one list",
        what="B makes a list of the same 10,000 numbers, and the program fetches it.",
    ),
    replace(_VALUES, least=3, most=100_000),  # time decides, as with calls
    replace(
        _VALUES,
        name="values-read",
        title="{} array, fetched and read",
        method="value_read",
        points=READ,
        what="The same, and adds up every byte, so mapped memory is paid for.",
    ),
    replace(
        _VALUES,
        name="bytes",
        title="{} of bytes, fetched",
        method="fetch_bytes",
        points=SMALL,
        most=100_000,
        what="As values, of `bytes` in place of an array.",
    ),
    replace(
        _FROZEN,
        name="frozen",
        title="{} frozen array, fetched",
        what="As values, of an array that nobody may change any more, at peers with such arrays.",
    ),
    replace(
        _FROZEN,
        name="frozen-read",
        title="{} frozen array, fetched and read",
        points=READ,
        what="The same, and adds up every byte.",
    ),
    replace(
        _FROZEN,
        name="frozen-again",
        title="{} frozen array, fetched again",
        points=READ,
        what="The same reference, which the program has fetched before.",
        bulk=0,
    ),
    Benchmark(
        name="memory-holder",
        title="memory at the holder, each reference",
        group="memory",
        unit="bytes",
        amount=20_000,
        fresh=True,
        what="The growth of the program by 20,000 references to objects of B's.",
    ),
    Benchmark(
        name="memory-owner",
        title="memory at the owner, each object",
        group="memory",
        unit="bytes",
        amount=20_000,
        fresh=True,
        what="The growth of B by 20,000 small objects that the program holds.",
    ),
    replace(
        _START,
        name="import",
        title="import farref",
        method="load",
        peers=("farref",),
        what="A fresh Python imports farref, which is compiled; by the clock, five times.",
    ),
    _START,
    replace(
        _START,
        name="rest",
        title="4 workers at rest: share of a core",
        unit="percent",
        amount=10,
        fresh=True,
        what="A program and its system, for ten seconds: processor time of all their processes.",
    ),
    replace(
        _START,
        name="rest-memory",
        title="4 workers at rest: memory",
        unit="bytes",
        amount=3,
        fresh=True,
        what="The PSS of the same system's processes, without the program, after three seconds.",
    ),
    Benchmark(
        name="held",
        title="share, while {} are held",
        group="growth",
        method="share_holding",
        points=(0, 1_000, 10_000, 50_000),
        quick=(0, 10),
        point="references",
        what="The same as share, while the program holds so many other references.",
    ),
    Benchmark(
        name="holders",
        title="an object with {} workers",
        group="growth",
        points=(2, 4, 8),
        quick=(2,),
        point="workers",
        what="An object of the first worker is given to all others, who keep it, then drop it.",
    ),
    Benchmark(
        name="workers",
        title="a call to {} workers at once",
        group="growth",
        method="everybody",
        points=(2, 4, 8),
        quick=(2,),
        point="workers",
        what="One call to each worker is in flight, until all have answered.",
    ),
    Benchmark(
        name="rendezvous",
        title="a round of {} nodes",
        group="growth",
        points=(10, 30, 100, 300, 1_000),
        quick=(2,),
        point="nodes",
        most=20,
        what="Nodes of one process meet, until each has the list of all.",
    ),
    Benchmark(
        name="start-worker",
        title="start a worker",
        group="growth",
        amount=5,
        what="A further worker process is started and answers.",
    ),
)
GROUPS: tuple[Group, ...] = tuple(dict.fromkeys(benchmark.group for benchmark in BENCHMARKS))
BY_NAME = {benchmark.name: benchmark for benchmark in BENCHMARKS}
