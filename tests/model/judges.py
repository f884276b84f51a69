"""The tests that judge a mutant, and the processes in which they do.

A judge is a trace test, a foreign message, a small program of an explorer, or a test of
`tests/protocol`. It tells how it notices that a machine is wrong. Each mutant is judged in a
process of its own, a fork: so a mutant may spoil what the tests keep, or never end.

A `Court` knows which statements each judge runs. So it asks only those that run the statement of a
mutant, the quickest first, until one of them notices it.
"""

from __future__ import annotations

import ast
import gc
import importlib
import os
import pickle
import resource
import selectors
import signal
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, TypeVar

import pytest

from farref.tracetest.files import differences

from .explorer import Exploration
from .foreign import FOREIGN
from .meeting import explore_meeting
from .meetings import MEETINGS
from .model import explore_program
from .mutation import Mutant
from .programs import PROGRAMS
from .source import Function, cut, functions, swapped
from .succession import explore_takeover
from .successions import SUCCESSIONS
from .wire import LINKS, explore_link

TRACES = Path(__file__).parents[1] / "traces"
WORLDS: tuple[tuple[Callable[[Any, int], Exploration], Iterable[Any], int], ...] = (
    (explore_program, PROGRAMS, 0),
    (explore_link, LINKS, 150_000),
    (explore_meeting, MEETINGS, 10_000),
    (explore_takeover, SUCCESSIONS, 10_000),
)
"""Programs, and the most states of one that has an end; 0: so many more than it has."""
T = TypeVar("T")


class Judge(NamedTuple):
    """A test that may notice a mutant."""

    name: str
    run: Callable[[], object]
    """Returns how it notices that a machine is wrong, or raises that; otherwise a false value."""
    states: int = 0
    """The states of its program, or a limit of them."""


def _explored(look: Callable[[Any, int], Exploration], program: Any, limit: int) -> str | None:
    """How the exploration of *program* notices that a machine is wrong."""
    found = look(program, limit)
    if found.mistake is not None:
        return f"{found.mistake.property}: {found.mistake.reason}"
    missing = set(getattr(program, "reaches", ())) - found.seen
    return f"never violated: {', '.join(sorted(missing))}" if missing else None


def _tests(module: str) -> Iterator[Judge]:
    """The tests of *module* that need no more than values and a `monkeypatch`."""
    found = importlib.import_module(f"tests.protocol.{module}")
    for name, test in vars(found).items():
        if not name.startswith("test_") or hasattr(test, "hypothesis"):
            continue
        marks = [each for each in getattr(test, "pytestmark", ()) if each.name == "parametrize"]
        cases: list[list[tuple[str, Any]]] = [[]]
        for mark in marks:
            names = mark.args[0]
            names = names.replace(" ", "").split(",") if isinstance(names, str) else names
            cases = [
                [*case, *zip(names, values if len(names) > 1 else [values], strict=True)]
                for case, values in product(cases, mark.args[1])
            ]
        for number, case in enumerate(cases):
            again = f" (#{number + 1})" if number else ""
            yield Judge(f"{module}.{name}{again}", partial(_test, test, dict(case)))


def _test(test: Any, values: dict[str, Any]) -> None:
    if "monkeypatch" in test.__code__.co_varnames[: test.__code__.co_argcount]:
        with pytest.MonkeyPatch.context() as monkeypatch:
            test(monkeypatch=monkeypatch, **values)
    else:
        test(**values)


TESTS = (
    *("test_alias_counts", "test_creations", "test_dead", "test_search", "test_replies"),
    *("test_settling", "test_holders", "rendezvous.test_state", "succession.test_machines"),
)


@cache
def judges() -> dict[str, Judge]:
    """All judges by their names, in the order of traces, messages, tests, and programs."""
    paths = sorted(TRACES.rglob("*.txt"))
    found = [
        *(Judge(f"{path.parent.name}/{path.stem}", partial(differences, path)) for path in paths),
        *(Judge(each.name, each.flaw) for each in FOREIGN),
        *(each for module in TESTS for each in _tests(module)),
        *(
            Judge(
                each.name,
                partial(_explored, look, each, most or 1000 + 10 * each.states),
                most or each.states,
            )
            for look, programs, most in WORLDS
            for each in programs
            if not each.slow
        ),
    ]
    by_name = {each.name: each for each in found}
    assert len(by_name) == len(found), "two judges have one name"
    return by_name


# ---- which statements a judge runs

Place = tuple[str, int]
"""A function, and the first line of a statement in it."""


class Run(NamedTuple):
    seconds: float
    whole: frozenset[Place]
    """The statements that it ran."""
    without_exits: frozenset[Place]
    """The same, while the machines had no exits."""


NOTE = "_note_that_it_runs_"
"""The name by which the code of a function calls what notes its statements."""
MOST_SECONDS = 60
"""A judge that computes longer for a mutant has noticed it: no judge takes half as long."""


class Reach:
    """Notes the statements of *modules* that run."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._seen: set[Place] = set()
        found = [each for module in modules for each in functions(module).values()]
        self._codes = {
            exits: [(each.live, self._noting(each, exits=exits)) for each in found]
            for exits in (True, False)
        }

    def _noting(self, function: Function, *, exits: bool) -> CodeType:
        """The code of *function*, which notes each statement before it runs."""
        function.live.__globals__[NOTE] = self._seen.add
        tree, its_exits = deepcopy((function.tree, function.exits))
        for node in ast.walk(tree):
            for name in ("body", "orelse", "finalbody"):
                if isinstance(body := getattr(node, name, None), list):
                    noted = ((self._note(function, each), each) for each in body)
                    setattr(node, name, [part for both in noted for part in both])
        copy = function._replace(tree=tree, exits=its_exits)
        return copy.code() if exits else copy.code_without_exits()

    def _note(self, function: Function, statement: ast.stmt) -> ast.stmt:
        return ast.parse(f"{NOTE}({(function.name, statement.lineno)!r})").body[0]

    def run(self, judge: Judge) -> Run:
        """Run *judge* on the shipped machines, with their exits and without."""
        runs, took = [], 0.0
        for exits in (True, False):
            self._seen.clear()
            with nullcontext() if exits else cut(), ExitStack() as stack:
                for live, code in self._codes[exits]:
                    stack.enter_context(swapped(live, code))
                began = time.process_time()
                wrong = notices(judge)
                took = time.process_time() - began
            if wrong:
                raise AssertionError(f"{judge.name} fails: {wrong}")
            runs.append(frozenset(self._seen))
        return Run(took, *runs)


def notices(judge: Judge) -> str | None:
    """How *judge* notices that a machine is wrong."""
    try:
        how = judge.run()
    except BaseException as error:  # whatever it raises, a test would fail by it
        return f"{type(error).__name__}: {error}"
    return str(how) if how else None


# ---- judging


@dataclass
class Court:
    """Judges mutants of *modules*."""

    judges: list[Judge]
    modules: tuple[str, ...]
    jobs: int
    _runs: list[Run] = field(default_factory=list)
    _noticed: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """The judges that have noticed a mutant of a function: they may notice its others, too."""

    def open(self, shown: Callable[[], object]) -> None:
        """Find out what each judge reaches."""
        reach = Reach(self.modules)
        work = (partial(reach.run, judge) for judge in self.judges)
        runs: dict[int, Run] = {}
        for number, run in in_children(work, self.jobs):
            assert run is not None, f"{self.judges[number].name} does not end"
            runs[number] = run
            shown()
        self._runs = [runs[number] for number in range(len(runs))]

    def judge(self, mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, str | None]]:
        """Each mutant, with the name of the judge that notices it; None if it survives."""
        asked: list[tuple[Mutant, list[int]]] = []

        def work() -> Iterator[Callable[[], int]]:
            for mutant in mutants:
                bench = self._bench(mutant)
                asked.append((mutant, bench))
                yield question(mutant, [self.judges[n] for n in bench])

        for number, place in in_children(work(), self.jobs):
            mutant, bench = asked[number]
            if place is None:
                yield mutant, "it does not end"
            elif place < 0:
                yield mutant, None
            else:
                self._noticed[mutant.function.name][bench[place]] += 1
                yield mutant, self.judges[bench[place]].name

    def _bench(self, mutant: Mutant) -> list[int]:
        """The judges that run the statement of *mutant*, in the order in which to ask them."""
        place, noticed = (mutant.function.name, mutant.line), self._noticed[mutant.function.name]
        found = [
            number
            for number, run in enumerate(self._runs)
            if place in (run.whole if mutant.with_exits else run.without_exits)
        ]
        return sorted(found, key=lambda n: self._runs[n].seconds / (1 + 20 * noticed[n]))


def question(mutant: Mutant, judges: list[Judge]) -> Callable[[], int]:
    """To be asked in a child: the first of *judges* that notices *mutant*, by its place, or -1.

    All code is compiled here, not in each child.
    """
    exits = mutant.with_exits
    with nullcontext() if exits else cut():
        code = mutant.code()
    return partial(_first_to_notice, mutant.function.live, code, exits, judges)


def _first_to_notice(live: Any, code: CodeType, exits: bool, judges: list[Judge]) -> int:
    with nullcontext() if exits else cut(), swapped(live, code):
        for place, judge in enumerate(judges):
            # Seconds of computing, so a busy machine does not matter.
            signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
            if notices(judge):
                return place
    return -1


def is_noticed(mutant: Mutant, judge: Judge) -> bool:
    """Whether *judge* notices *mutant*, in a process of its own."""
    ((_, place),) = in_children([question(mutant, [judge])], jobs=1)
    return place != -1


def in_children(work: Iterable[Callable[[], T]], jobs: int) -> Iterator[tuple[int, T | None]]:
    """The result of each piece of *work*, computed by a fork; None if that did not end."""
    gc.freeze()  # a collection in a child would copy all pages
    todo, running = enumerate(work), selectors.DefaultSelector()
    while True:
        while len(running.get_map()) < jobs and (piece := next(todo, None)) is not None:
            reader, writer = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(reader)
                _child(piece[1], writer)
            os.close(writer)
            running.register(reader, selectors.EVENT_READ, (piece[0], pid, bytearray()))
        if not running.get_map():
            break
        for key, _ in running.select():
            number, pid, got = key.data
            if part := os.read(key.fd, 1 << 20):
                got += part
                continue
            running.unregister(key.fd)
            os.close(key.fd)
            os.waitpid(pid, 0)
            result = pickle.loads(got) if got else None
            if isinstance(result, BaseException):
                raise result
            yield number, result
    gc.unfreeze()


def _child(work: Callable[[], object], writer: int) -> None:
    try:
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        try:
            result: object = work()
        except Exception as error:  # of the tool's own
            result = RuntimeError("".join(traceback.format_exception(error)))
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(pickle.dumps(result))
    finally:
        os._exit(0)
