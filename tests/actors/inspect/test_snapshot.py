"""Snapshots of a whole system: the rows of every endpoint, why each object is alive, and leaks."""

from __future__ import annotations

import asyncio
import colorsys
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from thespian.actors import ActorAddress

import farref
from farref import Reason, RefActor, RRef, Snapshot, System, WorkerDiedError
from farref.actors.inspect import retaining
from farref.actors.inspect.inspector import Inspector
from farref.testing import Faults, cut, drop, heal, set_faults, severed

from ...serialization.test_contains import untouchable
from ...stopping import stop
from ..conftest import FAILED, GRACE
from ..helpers import assert_nothing_held, hold, make_box, references_everywhere, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farref import ReferenceInfo, WorkerInfo

PATIENCE = 100.0
"""Seconds for a search, which reads the heap of pytest, with all that it has collected, too."""
KEPT: dict[str, Any] = {}
"""Objects that workers keep, in a module's variable made before they were forked."""


@pytest.fixture(autouse=True, scope="module")
def patient_searches() -> Iterator[None]:
    """Give searches more time: on a busy machine the heap of all the tests takes long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retaining, "SECONDS", PATIENCE)  # actors inherit it by the fork
        yield


Noted = list[Callable[[list[str], bool], object]]


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """Functions that the test adds. Each is called before a question of this program's.

    It gets the names of those who are asked, and whether the question is about one reference.
    """
    noted: Noted = []
    inspect = Inspector.inspect

    def noting(inspector: Inspector, infos: list[WorkerInfo], *how: Any, **what: Any) -> Any:
        for each in noted:
            each([info.id.name for info in infos], "about" in what)
        return inspect(inspector, infos, *how, **what)

    monkeypatch.setattr(Inspector, "inspect", noting)
    return noted


@pytest.fixture
def forking() -> Iterator[System]:
    """B, C and D, which fork references: those in undelivered messages stay visible."""
    with System(
        sharing="fork", timeout=PATIENCE, orphan_grace=GRACE, silence=None, sites=True
    ) as system:
        for name in "BCD":
            system.worker(name)
        yield system


def why(system: System, rref: str, **options: float) -> Reason:
    return system.why(rref, timeout=PATIENCE, **options)


def row(snapshot: Snapshot, ref: RRef[Any], worker: str) -> ReferenceInfo:
    return next(each for each in snapshot.of(str(ref.id)) if each.worker == worker)


def keep(refs: list[RRef[Any]]) -> None:
    KEPT["refs"] = refs


def forget() -> None:
    KEPT.clear()


def test_why_asks_for_no_list_of_all_references(system: System, questions: Noted) -> None:
    inner = farref.remote("B", list)
    outer = farref.remote("B", list, args=([inner],))
    outer.to_here()
    about: list[bool] = []
    questions.append(lambda _, one: about.append(one))
    reason = system.why(inner, timeout=PATIENCE)
    told = [each.rref for each in reason.walk() if each.kind == "reference"]
    assert told == [str(inner.id), str(outer.id)]
    assert about == [True] * 5  # which ids there are; then rows and holdings of one object each


def test_every_row_of_every_endpoint(system: System) -> None:
    ref = farref.remote("B", list, args=(range(1000),))
    farref.wait([ref])
    farref.rpc_sync("C", keep, args=([ref],))
    mine = RRef([ref])
    assert until(system, lambda: row(system.references(), ref, "C").state == "confirmed")
    snapshot = system.references()
    assert [(each.worker, each.role) for each in snapshot.of(str(ref.id))] == [
        ("B", "owner"),
        ("C", "user"),
        ("program", "user"),
    ]
    for each in snapshot.of(str(ref.id)):
        assert (each.type, each.owner, each.owner_state) == ("list", "B", "resolved")
        assert each.size is not None
        assert 8_000 < each.size < 60_000  # the list, and most of its numbers
        assert 0 <= each.age < 60
        assert each.marks == ()
    here = row(snapshot, ref, "program")
    assert (here.handles, here.in_values, here.contained_in) == (1, 1, (str(mine.id),))
    assert set(row(snapshot, ref, "B").forks.values()) == {"program", "C"}
    assert row(snapshot, ref, "C").handles == 1
    assert (snapshot.silent, snapshot.cycles) == ({}, ())
    assert set(snapshot.counters) == {"B", "C", "program"}
    assert [each.rref for each in snapshot] == [each.rref for each in snapshot.rows]
    farref.rpc_sync("C", forget)


def test_a_local_look_says_the_same(system: System) -> None:
    ref = farref.remote("B", make_box)
    ref.to_here()
    (mine,) = farref.references()
    (seen,) = (each for each in system.references() if each.worker == "program")
    fields = ("rref", "role", "owner", "state", "handles", "forks", "pins", "site")
    assert [getattr(mine, name) for name in fields] == [getattr(seen, name) for name in fields]


def test_an_object_that_only_a_borrower_keeps(gate: Path, system: System) -> None:
    ref = farref.remote("B", make_box)
    held = farref.rpc_async("C", hold, args=(gate, [ref]))
    name = str(ref.id)
    del ref
    assert until(system, lambda: "C" in {each.worker for each in system.references().of(name)})
    snapshot = system.references()
    owner, *others = snapshot.of(name)
    assert (owner.worker, owner.role, owner.handles) == ("B", "owner", 0)
    assert ("C", "borrower") in {(each.worker, each.role) for each in others}
    reason = why(system, name)
    text = str(reason)
    assert f"{name}, Box of " in text
    assert "C was lent it as " in text
    assert any(each.kind == "local" and "in hold" in each.where for each in reason.walk())
    gate.touch()
    held.result()


def bare(refs: list[RRef[Any]]) -> RRef[Any]:
    return refs[0]


def test_an_object_that_only_an_alias_keeps(gate: Path, system: System) -> None:
    ref = farref.remote("B", hold, args=(gate, "value"))
    alias = farref.remote("C", bare, args=([ref],))
    name = str(ref.id)
    assert until(system, lambda: system.references().of(name)[0].aliases)
    del ref

    def kept() -> bool:
        return {each.worker for each in system.references().of(name)} == {"B", "C"}

    assert until(system, kept)
    owner, user = system.references().of(name)
    assert (owner.worker, owner.role, owner.state) == ("B", "owner", "created")
    assert owner.aliases == {str(alias.id): "C"}
    assert (user.role, user.handles) == ("user", 1)  # the alias's own
    (stand_in,) = (each for each in system.references().of(str(alias.id)) if each.worker == "C")
    assert (stand_in.role, stand_in.target) == ("alias", name)
    text = str(why(system, name))
    assert f"{alias.id} is an alias of it" in text
    assert "variable alias  (" in text
    gate.touch()
    assert alias.to_here() == "value"


# ---- references on their way, and stuck ones


def test_an_unconfirmed_fork_and_whom_it_waits_for(forking: System) -> None:
    """C has B's object from the program, and cannot tell B."""
    ref = farref.remote("B", make_box)
    ref.to_here()
    with severed(forking, "B", "C"):
        farref.rpc_sync("C", keep, args=([ref],))
        name = str(ref.id)
        there = row(forking.references(), ref, "C")
        (fork,) = row(forking.references(), ref, "program").pins
        assert (there.state, there.requested) == ("unconfirmed", fork)
        assert there.owner_state == "resolved"

        def waits() -> bool:
            return (row(forking.references(), ref, "program").unsettled or 0) >= 0.3

        assert until(forking, waits)
        reason = why(forking, name)
        told = [each.text for each in reason.walk()]
        (asked,) = (each for each in reason.walk() if each.kind == "asked")
        assert asked.text.startswith(f"C holds fork {fork}, not confirmed since ")
        assert asked.text.endswith("waiting for the ACK of the owner, B")
        (flight,) = asked.children
        assert flight.text.startswith(f"C sent B a ForkRequest with fork {fork}, not acknowledged")
        assert any(text.startswith(f"C got it as fork {fork} ") for text in told)
        (kept,) = (each for each in reason.walk() if each.kind == "global")
        assert kept.text == f"global {__name__}.KEPT['refs'][0]"
    assert until(forking, lambda: row(forking.references(), ref, "C").state == "confirmed")
    assert until(forking, lambda: not row(forking.references(), ref, "program").pins)


def test_a_lost_answer_of_the_owner_is_named_with_its_article(forking: System) -> None:
    ref = farref.remote("B", make_box)
    ref.to_here()
    set_faults(forking, Faults(drop(sender="B", receiver="C", kinds="Ack")))
    farref.rpc_sync("C", keep, args=([ref],))
    flight = "B sent C an Ack with fork program/"
    assert until(forking, lambda: flight in str(why(forking, str(ref.id))))
    set_faults(forking, Faults())
    assert until(forking, lambda: row(forking.references(), ref, "C").state == "confirmed")


class Sent:
    def __init__(self, ref: RRef[Any]) -> None:
        self.ref = ref


class Taker(RefActor):
    """Keeps each message."""

    kept: Any = None

    def receiveMsg_Sent(self, message: Sent, sender: ActorAddress) -> None:
        self.kept = {"sent": message.ref}


def test_a_message_that_does_not_arrive_is_a_suspected_leak(forking: System) -> None:
    taker = forking.create(Taker, "taker")
    ref = farref.remote("B", make_box)
    ref.to_here()
    name = str(ref.id)
    cut(forking, "program", "taker")
    forking.tell(taker, Sent(ref))
    fresh = forking.references(leak_age=60).of(name)
    assert not any(each.marks for each in fresh)
    del ref

    def suspected() -> bool:
        gc.collect()
        rows = forking.references(leak_age=0.1).of(name)
        return bool(rows) and all(each.marks == ("leak",) for each in rows)

    assert until(forking, suspected)
    reason = why(forking, name)
    (flight,) = (each for each in reason.walk() if each.kind == "flight")
    assert flight.text.startswith("program sent taker a Tell with fork program/")
    assert "not acknowledged" in flight.text
    heal(forking, "program", "taker")

    def arrived() -> bool:
        return any(each.worker == "taker" for each in forking.references(leak_age=0).of(name))

    assert until(forking, arrived)
    assert until(forking, lambda: len(forking.references().of(name)) == 2)
    snapshot = forking.references(leak_age=0)
    assert not any(each.marks for each in snapshot.of(name))
    (kept,) = (each for each in why(forking, name).walk() if each.kind == "attribute")
    assert (kept.text, kept.where) == ("attribute self.kept['sent']", "actor Taker")


def test_a_cycle_across_processes(forking: System) -> None:
    one, other = farref.remote("B", make_box), farref.remote("C", make_box)
    outside = farref.remote("D", make_box, args=([one],))
    one.rpc_sync().put({"next": other})
    other.rpc_sync().put([one])
    names = {str(one.id), str(other.id)}
    snapshot = forking.references(leak_age=0)
    assert [set(cycle) for cycle in snapshot.cycles] == [names]
    marks = {each.rref: each.marks for each in snapshot}
    assert marks == {**dict.fromkeys(names, ("cycle",)), str(outside.id): ()}
    first = str(one.id)
    del one, other

    def unreachable() -> bool:
        found = {each.rref: each.marks for each in forking.references(leak_age=0)}
        return {rref for rref, marks in found.items() if marks == ("cycle", "leak")} == names

    assert not unreachable()  # D's object leads there, and is held here
    del outside
    assert until(forking, unreachable)
    assert not any("leak" in each.marks for each in forking.references(leak_age=60))
    told = [each.text for each in why(forking, first, leak_age=0).walk()]
    assert told[1] == "only the cycle keeps it: `farref gc` frees it"
    assert any("suspected leak" in text for text in told)
    assert any("at .content['next']" in text for text in told)
    second = next(iter(names - {first}))
    ring = f"{first} -> {second} -> {first}"
    assert told[-1].endswith(f"the cycle {ring}, explained above at {first}")
    assert until(forking, forking.collect)  # a search for the reasons may be letting go of them
    assert until(forking, lambda: not unreachable())


# ---- endpoints that do not answer, and busy ones that do


def spin(gate: Path) -> None:
    end = time.monotonic() + 60
    while not gate.exists() and time.monotonic() < end:
        sum(range(10_000))


def test_who_dies_while_it_is_asked_keeps_nobody_waiting(forking: System) -> None:
    forking.worker("E")
    pid = farref.rpc_sync("E", os.getpid)
    stop(pid)
    found: list[dict[str, Any]] = []
    counting = threading.Thread(target=lambda: found.append(forking.counters(timeout=60)))
    counting.start()
    asked = forking.endpoint.registrar_client._asked
    assert until(forking, lambda: [of for _, of in asked.values() if of and of.name == "E"])
    os.kill(pid, signal.SIGKILL)
    counting.join(PATIENCE)
    assert "E" not in found[0]


def test_who_stops_after_the_first_question_is_named(forking: System, questions: Noted) -> None:
    """Else it would seem that C holds it for no reason."""
    ref = farref.remote("B", make_box)
    pid = farref.rpc_sync("C", os.getpid)
    farref.rpc_sync("C", keep, args=([ref],))

    def its_owner_knows_c() -> bool:
        rows = forking.references().of(str(ref.id))
        return any(each.worker == "C" and each.state == "confirmed" for each in rows)

    assert until(forking, its_owner_knows_c)
    asked: list[object] = []
    questions.append(lambda *question: asked.append(question))
    questions.append(lambda *_: stop(pid) if len(asked) == 2 else None)
    try:
        told = str(forking.why(ref, timeout=3))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "C has fork" in told
    assert "cannot tell: no answer in 3 s" in told
    farref.rpc_sync("C", forget)


def test_who_computes_answers_and_who_is_stopped_is_named(
    gate: Path, forking: System, questions: Noted
) -> None:
    ref = farref.remote("B", make_box)
    stopped = farref.remote("C", make_box, args=(ref,))
    busy = [farref.rpc_async("B", spin, args=(gate,)) for _ in range(16)]
    pid = farref.rpc_sync("C", os.getpid)
    farref.rpc_sync("D", keep, args=([ref],))
    assert forking.references(timeout=PATIENCE).silent == {}
    assert until(forking, stopped.confirmed_by_owner)
    asked: list[str] = []
    questions.append(lambda names, _: asked.extend(names))
    stop(pid)
    try:
        snapshots: list[Snapshot] = []

        def only_c_is_silent() -> bool:  # B's 16 threads may keep it from answering now and then
            snapshots.append(forking.references(timeout=2))
            return snapshots[-1].silent == {"C": "no answer in 2 s"}

        assert until(forking, only_c_is_silent), snapshots[-1].silent
        snapshot = snapshots[-1]
        assert {"B", "program", "D"} <= set(snapshot.counters)
        assert row(snapshot, ref, "B").role == "owner"
        assert row(snapshot, ref, "B").site == f"{__file__}:{_line('stopped = ') - 1} in " + (
            "test_who_computes_answers_and_who_is_stopped_is_named"
        )
        asked.clear()
        told = [each.text for each in forking.why(stopped, timeout=3).walk()]
        assert "its owner C cannot tell: no answer in 3 s" in told
        assert "program has it, confirmed by its owner" in told
        assert asked.count("C") == 1  # else each object on the way would take that time again
    finally:
        os.kill(pid, signal.SIGCONT)
    gate.touch()
    for each in busy:
        each.result()
    assert forking.references(timeout=PATIENCE).silent == {}


def _line(text: str) -> int:
    with open(__file__, encoding="utf-8") as source:
        return next(n for n, line in enumerate(source, 1) if line.strip().startswith(text))


# ---- variables


@pytest.fixture(scope="module")
def shared() -> Iterator[System]:
    """A search covers one process, whatever the base. It takes seconds in pytest's own."""
    with System("farrefBase", timeout=PATIENCE, orphan_grace=GRACE) as system:
        system.worker("B")
        yield system


@pytest.fixture
def searched(shared: System, request: pytest.FixtureRequest) -> Iterator[System]:
    """A system with the worker B; no reference may be left in it before or after a test."""
    yield shared
    if not request.node.stash.get(FAILED, False):
        assert_nothing_held(shared)


def paths(system: System, ref: str) -> list[tuple[str, str]]:
    """The kinds and texts of the variables that hold the object, at every endpoint."""
    kinds = ("global", "local", "task", "attribute", "object", "garbage", "internal", "unfound")
    return [(each.kind, each.text) for each in why(system, ref).walk() if each.kind in kinds]


def test_the_search_runs_none_of_the_users_code(searched: System) -> None:
    mine, _ = untouchable([RRef("behind")])
    KEPT["untouchable"] = [mine]
    (name,) = (each.rref for each in farref.references())
    kinds = {each.kind for each in why(searched, name).walk()}
    assert kinds == {"reference", "global", "local"}
    KEPT.clear()


def test_a_library_is_told_of_only_if_nothing_else_holds_a_handle(searched: System) -> None:
    first = RRef("kept")
    KEPT["first"] = [first]
    second = [farref.rpc_sync(farref.get_worker_info(), bare, ([first],))]
    vars(colorsys).update(first=KEPT["first"], second=second)
    name = str(first.id)
    del first, second
    assert sorted(paths(searched, name)) == [
        ("global", "global colorsys.second[0]"),
        ("global", f"global {__name__}.KEPT['first'][0]"),
    ]
    del vars(colorsys)["first"], vars(colorsys)["second"]
    KEPT.clear()


@pytest.mark.parametrize(
    ("name", "folder", "library"),
    [
        ("thespian", "/elsewhere", True),
        ("thespian.system.simpleSystemBase", "/elsewhere", True),
        ("farref.cli", "/elsewhere", True),
        ("thespians", "/elsewhere", False),
        *(("its", f"/home/me/.local/lib/{name}-packages/its", True) for name in ("site", "dist")),
        *(("mine", f"/home/{name}-packages-of-mine", False) for name in ("site", "dist")),
    ],
)
def test_what_is_a_library_wherever_it_is(name: str, folder: str, library: bool) -> None:
    namespace = {"__name__": name, "__file__": f"{folder}/{name}.py"}
    assert retaining._is_library(namespace) is library


def test_a_class_without_a_module(searched: System) -> None:
    spaces: dict[str, Any] = {"make": type}
    exec("made = [make('Made', (), {})()]", {"__builtins__": {}}, spaces)
    holder: Any = spaces.pop("made")
    with pytest.raises(AttributeError):
        vars(type)["__module__"].__get__(type(holder[0]))
    holder[0].ref = RRef(1)
    name = str(holder[0].ref.id)
    assert paths(searched, name) == [("local", "variable holder[0].ref")]


class Slotted:
    __slots__ = ("ref",)

    def __init__(self, ref: RRef[Any]) -> None:
        self.ref = ref


def test_every_kind_of_variable(searched: System) -> None:
    local = farref.remote("B", make_box)
    assert paths(searched, str(local.id)) == [("local", "variable local")]
    KEPT["deep"] = ({1: [None, RRef("x")]},)
    deep = KEPT["deep"][0][1][1].id
    assert [each.text for each in why(searched, str(deep)).walk() if each.kind == "global"] == [
        f"global {__name__}.KEPT['deep'][0][1][1]"
    ]
    KEPT.clear()
    slotted = Slotted(local)
    inner = RRef([slotted])
    assert set(paths(searched, str(local.id))) == {
        ("object", f"in the value of {inner.id}, at [0].ref"),
        ("local", "variable local"),
        ("local", "variable slotted.ref"),
        ("local", "variable inner"),
    }


def class_of(ref: RRef[Any]) -> type:
    return type("Made", (), {"ref": ref})


def with_attribute(ref: RRef[Any]) -> Any:
    vars(make_box)["ref"] = ref
    return make_box


def with_annotation(ref: RRef[Any]) -> Any:
    def function() -> None:
        pass

    function.__annotations__["return"] = class_of(ref)
    return function


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (class_of, ".ref"),
        (lambda ref: class_of(ref)(), ".__class__.ref"),
        (lambda ref: [class_of(ref)()], "[0].__class__.ref"),
        (lambda ref: lambda: ref, "(its variable ref of <lambda>.<locals>.<lambda>)"),
        (lambda ref: lambda one=ref: one, ".__defaults__[0]"),
        (lambda ref: lambda *, one=ref: one, ".__kwdefaults__['one']"),
        (with_attribute, ".ref"),
        (with_annotation, ".__annotations__['return'].ref"),
    ],
)
def test_a_path_through_a_function_or_a_class(
    searched: System, make: Callable[[RRef[Any]], Any], path: str
) -> None:
    kept = RRef(1)
    outer = RRef(make(kept))
    assert ("object", f"in the value of {outer.id}, at {path}") in paths(searched, str(kept.id))
    vars(make_box).clear()


def test_a_module_that_runs_is_told_once(searched: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables are those of its frame too: a program without a function."""
    module = ModuleType("running")
    monkeypatch.setitem(sys.modules, "running", module)
    vars(module)["system"] = searched
    code = "import farref; ref = farref.RRef(1); told = system.why(str(ref.id), timeout=60)"
    exec(code, vars(module))
    ways = [each.text for each in vars(module)["told"].walk() if each.kind in ("global", "local")]
    vars(module).clear()
    assert ways == ["global running.ref"]


class Waiter:
    async def wait_with(self, gate: Path, refs: list[RRef[Any]]) -> None:
        await wait_with(gate, refs)


async def wait_with(gate: Path, refs: list[RRef[Any]]) -> None:
    mine = refs.pop()
    await asyncio.to_thread(hold, gate)
    del mine


@pytest.mark.parametrize("how", ["function", "method"])
def test_a_coroutine_that_waits_is_told_by_its_own_variable(
    how: str, searched: System, gate: Path
) -> None:
    """Not by the loop that runs it, nor by the actor system, which leads to the loop."""
    ref = farref.remote("B", make_box)
    if how == "method":
        waiting = farref.remote("B", Waiter).rpc_async().wait_with(gate, [ref])
    else:
        waiting = farref.rpc_async("B", wait_with, args=(gate, [ref]))
    name = str(ref.id)
    assert until(searched, lambda: ("task", "variable mine") in paths(searched, name))
    ways = paths(searched, name)
    assert sorted(ways) == [("local", "variable ref"), ("task", "variable mine")]
    (found,) = (each.where for each in why(searched, name).walk() if each.kind == "task")
    assert "in wait_with, waiting in Task-" in found
    gate.touch()
    waiting.result()


def litter() -> str:
    ref = RRef("in a cycle")
    circle: list[Any] = [ref]
    circle.append(circle)
    return str(ref.id)


def litter_with_an_error() -> str:
    ref = RRef("a variable of a frame in a traceback")
    try:
        int("nine")
    except ValueError as error:
        _kept = error  # by the frame, which the error keeps
    return str(ref.id)


@pytest.mark.parametrize(
    ("litters", "where"),
    [
        (litter, "in a list to which"),  # it does not go on in circles
        (litter_with_an_error, "in a frame of litter_with_an_error in a traceback"),
    ],
)
def test_garbage_that_waits_for_the_collector(
    litters: Callable[[], str], where: str, searched: System
) -> None:
    gc.disable()
    try:
        name = litters()
        (found,) = (each for each in why(searched, name).walk() if each.kind == "garbage")
        assert found.text.startswith(f"a handle {where}")
        assert "gc.collect() does" in found.text
    finally:
        gc.enable()
    gc.collect()
    assert until(searched, lambda: not farref.references())
    with pytest.raises(LookupError, match="has no reference"):
        why(searched, name)


def test_looking_leaves_nothing_behind(searched: System) -> None:
    """It reads the variables of running functions without keeping them."""
    ready, done, dropped = threading.Event(), threading.Event(), threading.Event()

    def holding() -> None:
        ref = RRef("short-lived")
        ready.set()
        done.wait(20)
        del ref
        dropped.set()
        ready.wait(20)

    thread = threading.Thread(target=holding)
    thread.start()
    assert ready.wait(20)
    (name,) = (each.rref for each in farref.references())
    kinds = {each.kind for each in why(searched, name).walk()}
    assert "local" in kinds
    ready.clear()
    done.set()
    assert dropped.wait(20)
    assert until(searched, lambda: not farref.references())  # although the function still runs
    ready.set()
    thread.join()


def test_bad_questions(searched: System) -> None:
    ref, other = RRef(1), RRef(2)
    with pytest.raises(LookupError, match=f"several references begin with 'program/': {ref.id}, "):
        searched.why("program/")
    assert searched.why(str(other.id)).rref == str(other.id)
    with pytest.raises(ValueError, match="must be 0 seconds or more"):
        searched.references(leak_age=-1)
    with pytest.raises(ValueError, match="more than 0"):
        searched.references(timeout=0)


# ---- counters


def test_counters_of_an_exchange(forking: System) -> None:
    before = forking.counters()["C"]
    ref = farref.remote("B", make_box)
    farref.rpc_sync("C", keep, args=([ref],))
    assert until(forking, lambda: row(forking.references(), ref, "C").state == "confirmed")
    at_c = forking.counters()["C"]
    assert at_c.control == {"ForkRequest": 1, "ChildAck": 1}
    assert at_c.references == {"user": 1}
    assert at_c.user["Reply"] == before.user.get("Reply", 0) + 1
    assert at_c.packets_sent > before.packets_sent
    assert farref.counters().user["Call"] == 1
    assert farref.counters().payload_bytes > 100
    assert sum(forking.counters().values(), start=farref.Counters()).control["ForkRequest"] == 1


def test_counters_of_a_bad_link() -> None:
    faults = farref.testing.Faults(
        farref.testing.drop(kinds="Reply", first=1), farref.testing.duplicate(kinds="Call")
    )
    with System(faults=faults, timeout=20) as system:
        system.worker("B")
        assert farref.rpc_sync("B", pow, args=(2, 3)) == 8
        found = system.counters()
        assert found["B"].retransmissions >= 1
        assert found["B"].duplicates >= 1
        assert found["program"].duplicates == 0


def test_one_that_has_died_since_the_list_was_made_is_left_out(process_system: System) -> None:
    """The caller may know of the death already: then the call itself raises."""
    gone = process_system.worker("gone")
    pid = farref.rpc_sync("gone", os.getpid)
    waiting = farref.rpc_async(gone, time.sleep, (PATIENCE,))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError):
        waiting.result()
    late = cast("System", SimpleNamespace(workers=lambda: [gone]))
    assert references_everywhere(late) == {}


def test_the_report_of_what_is_left_explains_it(system: System) -> None:
    ref = farref.remote("B", list)
    farref.rpc_sync("C", keep, args=([ref],))
    name = str(ref.id)
    del ref
    at_c = [("C", name, "confirmed")]
    rows = system.references
    assert until(
        system, lambda: [(r.worker, r.rref, r.state) for r in rows() if r.worker == "C"] == at_c
    )
    with pytest.raises(AssertionError, match="references are left") as failure:
        assert_nothing_held(system, 0.2)
    report = str(failure.value)
    assert f"why {name}, list of" in report
    assert "C has fork" in report
    assert "KEPT['refs'][0]" in report
    farref.rpc_sync("C", forget)
