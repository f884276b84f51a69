"""The command `farref top` on a running system, and its figures in programs."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from rich.console import Console

import farref
from farref import RRef, System, WorkerDiedError
from farref.actors.inspect.overview import LOOKED_AT, quantile
from farref.testing import until
from farref.top.figures import Looks
from farref.top.screen import PANES, TopView, picture

from ..waiting import eventually
from .kit import FARREF, Terminal, piped
from .kit import farref as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farref.top.figures import Figures

MANY = 4 * LOOKED_AT


class Model:
    def step(self) -> int:
        return 1


def refuse(number: int) -> None:
    raise ValueError(f"no {number}")


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(timeout=60, sites=True) as system:
        for name in ("baker", "cook"):
            system.worker(name)
        yield system


@pytest.mark.processes
def test_figures_are_those_of_the_time_between_two_looks(system: System) -> None:
    looks = Looks()
    before = looks.figures(system.overview())
    assert {each.calls for each in before.endpoints} == {None}
    model = farref.remote("cook", Model)
    for _ in range(50):
        model.rpc_sync().step()
    with pytest.raises(ValueError, match="no 7"):
        farref.rpc_sync("baker", refuse, (7,))
    figures = looks.figures(system.overview())
    by_name = {each.name: each for each in figures.endpoints}
    assert list(by_name) == ["baker", "cook", "program"]
    baker, cook, program = by_name.values()
    assert cook.calls is not None
    assert baker.calls is not None
    assert cook.calls > baker.calls > 0
    assert cook.p50 is not None
    assert cook.p99 is not None
    assert 1e-6 < cook.p50 <= cook.p99 < 60
    assert (program.p50, program.references) == (None, 1)  # nobody calls it
    assert cook.objects == 1
    assert all(each.memory > 1 << 20 and each.threads for each in figures.endpoints)
    (group,) = (each for each in figures.objects if each.owner == "cook")
    assert (group.count, group.type) == (1, "Model")
    assert "test_top.py" in group.site
    assert figures.newest[0].rref == str(model.id)
    assert figures.newest[0].holders == 1
    assert ("program", "cook", 1) in figures.holds
    (error,) = figures.events
    assert (error.kind, error.endpoint) == ("error", "baker")
    assert error.text == "refuse(): ValueError: no 7"
    assert "in refuse" in error.details
    later = looks.figures(system.overview())
    assert later.events == figures.events  # each one once
    assert next(each for each in later.endpoints if each.name == "cook").calls == 0
    assert looks.figures(system.overview()).endpoints[1].p50 is None


@pytest.mark.processes
def test_a_stream_is_a_row(system: System) -> None:
    looks, ref = Looks(), farref.remote("cook", iter, (range(1000),))
    stream = ref.stream()
    assert next(stream) == 0
    looks.figures(system.overview())
    assert next(stream) == 1
    figures = looks.figures(system.overview())
    (row,) = figures.streams
    assert (row.rref, row.owner, row.state) == (str(ref.id), "cook", "waits for credit")
    assert row.items >= 2
    assert row.rate is not None
    shown = io.StringIO()
    Console(width=80, file=shown).print(picture(figures, TopView(), 80, 40))
    assert "it waits for credit" in shown.getvalue()
    del ref, stream
    assert until(system, lambda: not Looks().figures(system.overview()).streams)


@pytest.mark.processes
def test_objects_of_one_age_come_by_owner_and_then_the_newest_first(system: System) -> None:
    refs = [farref.remote(name, Model) for name in ("cook", "baker", "cook", "baker")]
    farref.wait(refs, num_returns=4)
    seen = system.overview()
    for part in (0.04, 0.0):  # whoever has answered first
        endpoints = {}
        for name, each in seen.endpoints.items():
            age = 3 + part if name == "cook" else 3.02
            aged = tuple(replace(new, age=age) for new in each.newest)
            endpoints[name] = replace(each, newest=aged)
        newest = Looks().figures(replace(seen, endpoints=endpoints)).newest
        assert [each.rref for each in newest] == [str(refs[n].id) for n in (3, 1, 2, 0)]


@pytest.mark.processes
def test_a_death_is_an_event(system: System) -> None:
    looks = Looks()
    with system.pool(1):
        pass  # its worker leaves in order, which is none
    system.worker("doomed")
    pid = farref.rpc_sync("doomed", os.getpid)
    looks.figures(system.overview())
    os.kill(pid, signal.SIGKILL)

    def last() -> Any:
        return next(iter(looks.figures(system.overview()).events), None)

    with pytest.raises(WorkerDiedError):
        farref.rpc_sync("doomed", os.getpid)
    eventually(lambda: last() is not None)
    assert (last().kind, last().endpoint) == ("death", "doomed")
    assert "SIGKILL" in last().text
    system.worker("doomed")  # from now on the dead one is called by its name in full
    deaths = [each for each in looks.figures(system.overview()).events if each.kind == "death"]
    assert len(deaths) == 1


@pytest.mark.processes
def test_a_large_table_is_seen_in_part(system: System) -> None:
    """Of four objects in a row one is looked at, and not always the first."""
    refs: list[RRef[object]] = [RRef(n if n % 2 else str(n)) for n in range(MANY)]
    figures = Looks().figures(system.overview())
    groups = {each.type: each.count for each in figures.objects if each.owner == "program"}
    assert groups.keys() == {"int", "str"}
    assert all(0.8 < 2 * count / MANY < 1.2 for count in groups.values()), groups
    assert MANY <= sum(groups.values()) < MANY + 4
    assert next(each for each in figures.endpoints if each.name == "program").objects == MANY
    assert figures.newest[0].rref == str(refs[-1].id)


def test_a_quantile_is_right_to_about_a_tenth() -> None:
    assert quantile({}, 0.5) is None
    latencies = {0: 98, 40: 1, 80: 1}  # 1 us, 1 ms, 1 s
    assert quantile(latencies, 0.5) == pytest.approx(1e-6, rel=0.1)
    assert quantile(latencies, 0.985) == pytest.approx(1.024e-3, rel=0.1)
    assert quantile(latencies, 1.0) == pytest.approx(1.049, rel=0.1)


# ---- the command


@pytest.mark.processes
def test_json(system: System) -> None:
    run = command("top", system.name, "--json", "--once", "--every", "0.2")
    assert (run.returncode, run.stderr) == (0, "")
    said = json.loads(run.stdout)
    assert said["system"] == system.name
    assert {"baker", "cook", "program"} <= {each["name"] for each in said["endpoints"]}
    assert all(each["calls"] is not None for each in said["endpoints"][:2])


@pytest.mark.processes
def test_a_pipe_gets_pictures_until_the_system_ends() -> None:
    with System(timeout=60) as system:
        system.worker("B")
        run = piped("top", system.name, "--once", "--every", "0.1", COLUMNS="80")
    assert run.returncode == 0
    lines = run.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "1 host, " in lines[0]
    assert any(line.startswith("B ") for line in lines)
    assert command("top", system.name).returncode == 1


def test_a_wrong_order_is_named() -> None:
    run = command("top", "--sort", "size")
    assert run.returncode == 2
    assert "use one of calls/s" in " ".join(run.stderr.split())


@pytest.fixture
def figures(system: System) -> Figures:
    looks = Looks()
    looks.figures(system.overview())
    return looks.figures(system.overview())


@pytest.mark.processes
def test_a_key_chooses_what_is_seen(system: System, figures: Figures) -> None:
    view = TopView()
    assert [view.press(key) and view.pane for key in ("\t",) * len(PANES)] == [*PANES[1:], "all"]
    assert view.press("s")
    assert view.sort == "p99"
    for key in "/coox":
        assert view.press(key)
    view.press("\x7f")
    view.press("\n")
    assert view.search == "coo"
    assert view.press("q") is False
    assert view.has("the Cook")
    view.press("\x1b")
    assert view.search == ""
    assert picture(figures, view, 80, 24) is not None


@pytest.mark.processes
@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 50)])
def test_in_a_real_terminal(system: System, tmp_path: Path, width: int, height: int) -> None:
    code = tmp_path / "code"
    words = [*FARREF, "top", system.name, "--every", "0.2"]
    with Terminal() as terminal:
        terminal.open("w", f"{shlex.join(words)}; echo $? > {code}; stty -a", width, height)
        shown = terminal.screen("q quit")
        assert max(map(len, shown.splitlines())) <= width
        assert "cook" in shown
        assert ("threads" in shown) == (width >= 100)
        terminal.tmux("send-keys", "-t", "w", "/", "c", "o", "o", "Enter")
        terminal.screen("only 'coo'")
        eventually(lambda: "baker" not in terminal.tmux("capture-pane", "-p"))
        terminal.tmux("send-keys", "-t", "w", "Tab")
        terminal.screen("Tab endpoints")
        eventually(lambda: "events" not in terminal.tmux("capture-pane", "-p"))
        terminal.tmux("send-keys", "-t", "w", "q")
        eventually(lambda: code.exists() and code.read_text() != "")
        assert code.read_text() == "0\n"
        terminal.screen(" icanon")  # the terminal is as it was
