"""A recorded run as a trace test (`docs/trace-tests.md`), so that an incident becomes a test.

The file gives the shipped machines all recorded inputs of the endpoints' machines, step by step, in
causal order. A message is delivered at the step that received it. So the test repeats the real run
without processes and without a clock. The output below each step shows the machines' actions *now*,
which must equal the recorded ones: a trace that the machines would not repeat is refused.

The endpoints get short names; the file lists the real name of each.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from ...printable import json_text, printable
from ...tracetest.errors import BadCommandError
from ...tracetest.files import Block, story
from ...tracetest.language import run
from ...tracetest.show import summarize
from ...tracetest.world import World
from ..inputs import input_of
from ..progress import Progress, silent
from ..records import TraceError
from ..replay import Player

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..records import Record
    from ..story import Story

LONGEST = 80
"""An error repeats at most this many characters of a command: a `given` has whole tables."""
_OUTSIDE = {
    *("at", "kind", "time", "number", "user", "label"),
    *("by", "do", "relays", "elsewhere", "what"),
}
"""Fields that are only for people, or that the command says in another way."""


def trace_test(trace: Story, progress: Progress = silent) -> str:
    """*trace* as a trace test. Raises `TraceError` if the machines would not repeat it."""
    whole = len(trace.records)
    _check(trace, lambda done: progress(done, 2 * whole))
    return _Writer(trace).text(lambda done: progress(whole + done, 2 * whole))


def _check(trace: Story, checked: Callable[[int], None]) -> None:
    player = Player()
    for number, record in enumerate(trace.records):
        checked(number)
        player.take(record)
    ends = {record.at for record in trace.records if input_of(record) is not None}
    for at in sorted(ends):
        if at in player.broken:
            raise TraceError(f"the trace cannot become a test: of {at}, {player.broken[at]}")
        if at not in player.contexts:
            raise TraceError(f"the trace cannot become a test: it lacks the beginning of {at}")


class _Writer:
    def __init__(self, trace: Story) -> None:
        self._trace = trace
        self._world = World()
        self._names = _names(trace)
        self._blocks: list[tuple[Block, list[str]]] = []
        self._flying: dict[tuple[str, str], deque[int]] = defaultdict(deque)

    def text(self, written: Callable[[int], None]) -> str:
        self._head()
        first = 0
        for taken in [*(last for _, last in self._trace.spans), len(self._trace.records)]:
            for number in range(first, taken):
                written(number)
            commands = [
                command
                for record in self._trace.records[first:taken]
                for command in self._commands(record)
            ]
            first = taken
            self._block(*commands)
        left = self._world.leftovers()
        self._block("inflight", "tables") if left else self._block("expect nothing left")
        return story(self._blocks)

    def _head(self) -> None:
        title = printable(" ".join(self._trace.title.split())) or "A recorded run."
        told = [f"# {title}", "# Exported by `farref trace --export test`: what the machines of "]
        told[-1] += "each endpoint were given."
        told += [
            f"# {short} was {printable(full)}"
            for full, short in self._names.items()
            if self._trace.names.of(full) != short
        ]
        self._blocks.append((Block(1, comments=told), []))
        disciplines = {
            record.text("sharing") for record in self._trace.records if record.kind == "join"
        }
        if len(disciplines) != 1:
            raise TraceError("the trace cannot become a test: its endpoints share in several ways")
        names = " ".join(self._names.values())
        self._block(f"sharing {disciplines.pop()}", f"endpoints {names}", "recorded")

    def _block(self, *commands: str) -> None:
        output: list[str] = []
        for command in commands:
            self._world.lines = []
            try:
                run(self._world, command)
            except (AssertionError, BadCommandError) as error:
                short = command if len(command) <= LONGEST else f"{command[:LONGEST]} ..."
                raise TraceError(f"the trace cannot become a test: {short}: {error}") from error
            output += summarize(self._world.lines)
        if commands:
            block = Block(0, commands=[(0, command) for command in commands])
            self._blocks.append((block, output))

    def _commands(self, record: Record) -> list[str]:
        at = self._names.get(record.at, "")
        route = f"{self._names.get(record.peer)}->{at}"
        match record.kind:
            case "join" if "tables" in record.fields:
                tables = json_text(self._short(record.fields["tables"]), separators=(",", ":"))
                return [f"given {at} {tables}"]
            case "receive":
                lost, flying = [], self._flying[record.peer, record.at]
                while flying and flying[0] < record.name[2]:
                    flying.popleft()
                    lost.append(f"lose {route}")
                if flying and flying[0] == record.name[2]:
                    flying.popleft()
                    return [*lost, f"deliver {route}"]
                return [*lost, self._does(at, "receive", record)]
            case "send":
                self._flying[record.at, record.peer].append(record.name[2])
                return [self._does(at, record.text("by"), record)] if record.text("by") else []
            case "do":
                return [self._does(at, record.text("do"), record)]
            case "died" | "buried":
                return [self._does(at, record.kind, record)]
            case _:
                return []

    def _does(self, at: str, what: str, record: Record) -> str:
        left_out = _OUTSIDE | ({"message"} if what != "receive" else set())
        if record.kind == "send":
            left_out |= {"fork", "settled", "loans", "relayed"}
            left_out |= {"rref"} if what == "create" else set()
            left_out |= {"call"} if what not in ("reply", "refuse") else set()
        words = [
            f"{name}={_word(self._short(value))}"
            for name, value in record.fields.items()
            if name not in left_out and value not in (None, [], "")
        ]
        return " ".join(["does", at, what, *words])

    def _short(self, value: Any) -> Any:
        """*value*, with the short name of every endpoint in it."""
        match value:
            case str():
                # In tables a letter before an id says its kind.
                for letter, text in (("", value), (value[:1], value[1:])):
                    end, slash, number = text.rpartition("/")
                    if text in self._names:
                        return letter + self._names[text]
                    if slash and end in self._names:
                        return f"{letter}{self._names[end]}/{number}"
                return value
            case list():
                return [self._short(each) for each in value]
            case dict():
                # A wait's text is for people, and its spaces would split the command.
                return {name: self._short(it) for name, it in value.items() if name != "what"}
            case _:
                return value


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value, separators=(",", ":"))


def _in_tables(tables: Any) -> Iterator[str]:
    """The endpoints that *tables* name; only tables name some, such as those that died before."""
    match tables:
        case str():
            end, slash, number = tables[1:].rpartition("/")  # the letter says the kind of the id
            yield end if slash and number.isdecimal() else tables[1:]
        case list():
            for each in tables:
                yield from _in_tables(each)
        case dict():
            for each in tables.values():
                yield from _in_tables(each)


def _names(trace: Story) -> dict[str, str]:
    """For each endpoint a name that the language can read, in the order of the real names.

    Some rules of the machines go by that order.
    """
    ends = {end for row in trace.rows for end in row.ends}
    ends |= {record.at for record in trace.records}
    ends |= {record.peer for record in trace.records if record.peer}
    ends |= {each.owner for each in trace.objects.values()}
    ends |= {each.holder for each in trace.forks.values()}
    ends |= {end for record in trace.records for end in _in_tables(record.fields.get("tables"))}
    ends = {end for end in ends if re.fullmatch(r".+@[0-9a-f]+", end, re.DOTALL)}
    order = sorted(ends, key=lambda end: (end.rpartition("@")[0], int(end.rpartition("@")[2], 16)))
    wanted = [re.sub(r"[^A-Za-z0-9_]", "_", trace.names.of(end)) for end in order]
    names = [name if name[:1].isalpha() else f"E{name}" for name in wanted]
    if names != sorted(set(names)):
        names = [f"E{place:04}_{name}" for place, name in enumerate(names)]
    return dict(zip(order, names, strict=True))
