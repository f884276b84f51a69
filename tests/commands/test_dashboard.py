"""`farref dashboard`: what its server tells to whom, and its page in a real browser."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System, SystemDownError, WorkerDiedError
from farref.actors.core.current import frame
from farref.actors.inspect.overview import LOOKED_AT
from farref.dashboard.app import EDGES, graph
from farref.dashboard.strangers import MOST as STRANGERS
from farref.dashboard.timeline import REFERENCES, SHOWN, Timeline
from farref.top.screen import TopView

from ..waiting import eventually
from .browser import CHROMIUM, Browser
from .kit import FARREF, PATIENCE, piped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytest.importorskip("uvicorn", reason="no uvicorn here: pip install 'farref[web]'")
HOSTILE = "<img src=x onerror=document.title='pwned'>\x1b]0;x\x07\u202e</script>&amp;\n'\""
MANY = 20 * LOOKED_AT
UPGRADE = b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"


class Model:
    def step(self) -> int:
        return 1


def refuse(text: str) -> None:
    raise ValueError(text)


@contextmanager
def served(system: System, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address that the command prints, and its process."""
    with subprocess.Popen(
        [*FARREF, "dashboard", system.name, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"dashboard of \S+: (http://127\.0\.0\.1:\d+/[\w-]{32}/)\n", line)
            assert found, (line, process.stderr and process.stderr.read())
            yield found[1], process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(silence=None, sites=True, timeout=PATIENCE) as system:
        for name in ("cook", HOSTILE):
            system.worker(name)
        yield system


@pytest.fixture(scope="module")
def address(system: System) -> Iterator[str]:
    with served(system, "--host", "Board.example") as (address, _):
        yield address


def ask(
    address: str, path: str = "", method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    """The status, the headers and the body of an answer."""
    request = urllib.request.Request(address + path, method=method, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        fields = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, fields, answer.read().decode()


def dial(address: str) -> socket.socket:
    """A connection to the server at *address*."""
    host, port = urllib.parse.urlsplit(address).netloc.split(":")
    return socket.create_connection((host, int(port)), PATIENCE)


class Page:
    """Reads the events as a page does."""

    def __init__(self, address: str, query: str = "") -> None:
        self._answer = urllib.request.urlopen(f"{address}events?{query}", timeout=PATIENCE)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()

    def calls(self) -> Any:
        """The next calls of the last minute."""
        while (event := self.next())[0] != "calls":
            assert event[0] == "", event
        return event[1]

    def next(self) -> tuple[str, Any]:
        """The kind and the data of the next event."""
        kind = ""
        for line in iter(self._answer.readline, b""):
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                return kind, json.loads(value)
        return "closed", None

    def tables(self) -> dict[str, Any]:
        """The next tables, by title."""
        kind, told = self.next()
        assert kind == "", told
        return {each["title"]: each for each in told["tables"]}

    def until(self, true: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The first tables of which that is *true*."""
        seen: list[dict[str, Any]] = []

        def found() -> bool:
            seen[:] = [self.tables()]
            return bool(true(seen[0]))

        eventually(found, lambda: seen, PATIENCE)
        return seen[0]


def texts(table: Any, column: int = 0) -> list[str]:
    """The texts in a column of *table*."""
    return [row[column][0] for row in table["rows"] if len(row) > column]


# ---- who is answered


@pytest.mark.processes
@pytest.mark.parametrize("path", ["", "events", "refs?of=x", "why?id=cook/1"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "127.0.0.1:1"}, 200),
        ({"Host": "localhost", "Origin": "http://localhost"}, 200),
        ({"Host": "board.example:80", "Origin": "https://board.example:80"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "[::1]"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "localhost."}, 421),
        ({"Host": "localhost:80@evil.example"}, 421),
        ({"Host": "[localhost]evil.example"}, 421),
        ({"Host": "[127.0.0.1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),  # another port is another site
        ({"Origin": "null"}, 403),
        ({"Host": "localhost", "Origin": "http://localhost.evil.example"}, 403),
    ],
)
def test_only_its_own_page_is_answered(
    address: str, path: str, headers: dict[str, str], status: int
) -> None:
    if path == "events" and status == 200:
        request = urllib.request.Request(address + path, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.readline().startswith(b"data: ")
        return
    got, fields, body = ask(address, path, **headers)
    assert got in (status, 404 if status == 200 and path.startswith("why") else status), body
    assert not [name for name in fields if name.startswith("access-control")]


@pytest.mark.processes
@pytest.mark.parametrize("path", ["", "events", "refs", "why?id=cook/1", "../etc/passwd"])
@pytest.mark.parametrize("token", ["", "x/", "CHANGED", "\N{SNOWMAN}/"])
def test_who_does_not_know_the_address_learns_nothing(address: str, path: str, token: str) -> None:
    start, real = re.fullmatch(r"(http://[^/]+/)(.+)/", address).groups()  # type: ignore[union-attr]
    token = f"{real[:-1]}{'a' if real[-1] != 'a' else 'b'}/" if token == "CHANGED" else token
    status, _, body = ask(start + urllib.parse.quote(token), path)
    assert status == 403
    assert body == "open the address that farref dashboard has printed; each start has its own"


@pytest.mark.processes
def test_there_is_nothing_to_change_and_nothing_else(address: str) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"):
        assert ask(address, method=method)[0] == 405, method
    for path in ("page.html", "events/", "why/x", "%2e%2e/app.py", "//"):
        assert ask(address, path)[0] == 404, path
    with dial(address) as old:  # it need name no host
        old.sendall(f"GET /{address.split('/')[3]}/ HTTP/1.0\r\n\r\n".encode())
        assert old.makefile("rb").readline().split()[1] == b"421"
    with dial(address) as bare:
        bare.sendall(f"OPTIONS * HTTP/1.1\r\nHost: {address.split('/')[2]}\r\n\r\n".encode())
        assert bare.makefile("rb").readline().split()[1] == b"403"
    with dial(address) as twice:
        path = address.split("/")[3]
        hosts = "Host: localhost\r\nHost: evil.example\r\n"
        twice.sendall(f"GET /{path}/ HTTP/1.1\r\n{hosts}\r\n".encode())
        assert twice.makefile("rb").readline().split()[1] in (b"400", b"421")


@pytest.mark.processes
def test_strangers_write_nothing_into_the_output(system: System) -> None:
    with served(system) as (address, process):
        for sent in (b"\0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n" + UPGRADE):
            with dial(address) as stranger:
                stranger.sendall(sent)
                assert stranger.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 421")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.processes
def test_a_crowd_of_strangers_keeps_nobody_out(address: str) -> None:
    with Page(address) as page, ExitStack() as crowd:
        page.tables()
        strangers = []
        for _ in range(3 * STRANGERS):
            strangers.append(each := crowd.enter_context(dial(address)))
            with suppress(OSError):  # it may be hung up on already
                each.sendall(b"GET /")
        for each in strangers[: 2 * STRANGERS]:
            with suppress(ConnectionResetError):
                assert each.recv(1) == b""
        assert ask(address)[0] == 200
        page.tables()  # who has shown the token stays


@pytest.mark.processes
def test_the_page_may_load_and_be_nothing_else(address: str) -> None:
    nonces = set()
    for _ in range(2):
        status, fields, body = ask(address)
        assert status == 200
        assert fields["cache-control"] == "no-store"
        assert fields["referrer-policy"] == "no-referrer"
        policy = fields["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'nonce-")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        (nonce,) = set(re.findall(r"'nonce-([\w-]+)'", policy))
        assert set(re.findall(r'nonce="([^"]+)"', body)) == {nonce}
        nonces.add(nonce)
        assert not re.search(r"https?://|innerHTML|@import|url\(", body)
    assert len(nonces) == 2


# ---- what it tells


@pytest.mark.processes
def test_figures_under_load(system: System, address: str) -> None:
    models = [farref.remote("cook", Model) for _ in range(3)]
    with Page(address) as page:

        def busy(tables: dict[str, Any]) -> bool:
            for model in models:
                model.rpc_sync().step()
            cook = next(row for row in tables["endpoints"]["rows"] if row[0][0] == "cook")
            titles = [title for title, _ in tables["endpoints"]["columns"]]
            cells = dict(zip(titles, (cell for cell, _ in cook), strict=True))
            return cells["calls/s"] not in ("", "0") and cells["p50"] != ""

        tables = page.until(busy)
    assert [*tables] == ["endpoints", "who holds what", "events", "streams", "objects", "newest"]
    assert {"cook", "program"} <= set(texts(tables["endpoints"]))
    (mine,) = (row for row in tables["objects"]["rows"] if row[1][0] == "Model")
    assert [mine[0][0], mine[2][0]] == ["3", "cook"]
    assert "test_dashboard.py" in mine[3][0]
    holds = tables["who holds what"]
    assert ["program", "3", "cook"] in [[cell for cell, _ in row] for row in holds["rows"]]
    assert ["program", "cook", 3, 1] in holds["graph"]
    assert texts(tables["newest"])[:3] == [str(model.id) for model in reversed(models)]


@pytest.mark.processes
def test_search_and_order_are_the_servers(system: System, address: str) -> None:
    models = [farref.remote("cook", Model) for _ in range(20)]
    with Page(address, "search=COOK&sort=name") as page:
        tables = page.tables()
        assert texts(tables["endpoints"]) == ["cook"]
        assert "program" not in texts(tables["objects"], 2)
    with Page(address, "search=nothing-has-this&sort=nonsense") as page:
        assert {each["count"] for each in page.tables().values()} == {0}
    with Page(address, "sort=objects") as page:
        page.until(lambda tables: texts(tables["endpoints"])[0] == "cook")
    with Page(address, "sort=name") as page:
        names = texts(page.tables()["endpoints"])
        assert names == sorted(names)
    del models


@pytest.mark.processes
def test_hostile_texts_are_shown_and_escaped(system: System, address: str) -> None:
    with pytest.raises(ValueError, match="onerror"):
        farref.rpc_sync(HOSTILE, refuse, (HOSTILE,))
    ref = farref.remote(HOSTILE, Model)
    with Page(address) as page:
        tables = page.until(lambda tables: tables["events"]["rows"])
    shown = next(name for name in texts(tables["endpoints"]) if name.startswith("<img"))
    assert shown.isprintable()
    assert r"\u202e" in shown
    assert all(line.isprintable() for line in tables["events"]["more"][0].split("\n"))
    assert "in refuse" in tables["events"]["more"][0]
    status, _, body = ask(address, f"why?id={urllib.parse.quote(str(ref.id))}")
    assert status == 200
    assert "\u202e" not in body
    del ref


@pytest.mark.processes
def test_why(system: System, address: str) -> None:
    model = farref.remote("cook", Model)
    status, fields, body = ask(address, f"why?id={model.id}")
    assert (status, fields["content-type"]) == (200, "application/json")
    found = json.loads(body)
    assert found["text"].startswith(f"{model.id}, Model")
    assert str(system.why(model).children[0].text) == found["children"][0]["text"]
    for wrong in ("nobody/9", HOSTILE):
        status, _, body = ask(address, f"why?id={urllib.parse.quote(wrong)}")
        assert status == 404
        assert "reference" in json.loads(body)["error"]


class Holder:
    def keep(self, *refs: RRef[Any]) -> None:
        self.refs = refs


@pytest.mark.processes
def test_the_references_behind_an_edge(system: System, address: str) -> None:
    holder = farref.remote(HOSTILE, Holder)
    models = [farref.remote("cook", Model) for _ in range(3)]
    holder.rpc_sync().keep(*models)
    lists = [RRef([number]) for number in range(120)]
    holder.rpc_sync().keep(*models, *lists)

    def refs(**query: str) -> Any:
        status, _, body = ask(address, f"refs?{urllib.parse.urlencode(query)}")
        assert status == 200
        return json.loads(body)

    eventually(lambda: refs(of="Model")["objects"] == 3)  # those of other tests are freed
    found = refs(of="Model")
    hostile = next(each[0] for each in found["holds"]["graph"] if each[0] != "program")
    assert hostile.startswith("<img")
    assert hostile.isprintable()
    assert sorted(found["holds"]["graph"]) == [[hostile, "cook", 3, 1], ["program", "cook", 3, 1]]
    shown = refs(of="Model", holder=hostile, owner="cook")["references"]
    assert texts(shown) == [str(model.id) for model in reversed(models)]
    assert set(texts(shown, 2)) == {hostile}
    assert "test_dashboard.py" in texts(shown, 6)[0]
    one = refs(of=str(models[0].id), holder="program", owner="cook")
    assert (one["objects"], texts(one["references"])) == (1, [str(models[0].id)])
    many = refs(holder=hostile, owner="program")["references"]
    assert (many["count"], len(many["rows"])) == (120, 100)
    assert texts(many)[0] == str(lists[-1].id)
    assert refs(of="no object has this")["objects"] == 0


def test_a_graph_draws_the_largest_edges_and_joins_the_others() -> None:
    holds = [(f"w{number}", "program", 1000 - number) for number in range(300)]
    holds += [(f"w{number}", f"w{number + 1}", 1) for number in range(300)]
    drawn = graph(holds)
    assert drawn[:EDGES] == [(*each, 1) for each in holds[:EDGES]]
    joined = sum(1000 - number for number in range(EDGES, 300))
    assert drawn[EDGES:] == [("", "program", joined, 300 - EDGES), ("", "", 300, 300)]


# ---- the calls of the last minute


def is_recorded() -> bool:
    core: Any = frame().core
    return core.tracer is not None


def use(model: RRef[Model], *_: object) -> Any:
    return model.rpc_sync().step()


@pytest.mark.processes
def test_calls_are_recorded_while_a_page_shows_them(system: System, address: str) -> None:
    model, mine = farref.remote("cook", Model), RRef([1])
    system.worker("fated")
    assert not farref.rpc_sync("cook", is_recorded)
    with Page(address, "calls=1") as page, Page(address, "calls=1&search=boo") as second:
        eventually(lambda: farref.rpc_sync("cook", is_recorded) and page.calls())
        assert farref.rpc_sync("fated", use, (model, mine)) == 1
        with pytest.raises(ValueError, match="boo"):
            farref.rpc_sync("cook", refuse, ("boo",))
        made = farref.remote("cook", Model)
        made.to_here()
        pid = farref.rpc_sync("fated", os.getpid)
        waits = farref.rpc_async("fated", time.sleep, (PATIENCE,))
        want = {
            ("program", "fated", "use()", (str(model.id), str(mine.id)), "ok"),
            ("fated", "cook", f"{model.id}.step()", (str(model.id),), "ok"),
            ("program", "cook", "refuse()", (), "ValueError"),
            ("program", "cook", f"remote Model() as {made.id}", (str(made.id),), "ok"),
            ("program", "cook", f"to_here {made.id}", (str(made.id),), "ok"),
            ("program", "fated", "sleep()", (), "running"),
        }
        seen: list[Any] = []

        def told() -> set[tuple[Any, ...]]:
            seen[:] = page.calls()["calls"]
            names = ("caller", "callee", "what")
            return {
                (*(each[name] for name in names), tuple(each["references"]), each["outcome"])
                for each in seen
            }

        eventually(lambda: want <= told(), lambda: seen, PATIENCE)
        outer = next(each for each in seen if each["what"] == "use()")
        inner = next(each for each in seen if each["caller"] == "fated")
        assert outer["began"] > inner["began"] > inner["ended"] > outer["ended"] > 0
        assert outer["took"].endswith("s")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError):
            waits.result()
        died = {("program", "fated", "sleep()", (), "its callee died")}
        eventually(lambda: died <= told(), lambda: seen, PATIENCE)
        assert second.calls()["calls"] == []  # no name of a call has it
    eventually(lambda: not farref.rpc_sync("cook", is_recorded))


@pytest.mark.processes
def test_many_calls_are_counted_and_some_shown(system: System, address: str) -> None:
    with Page(address, "calls=1") as page:
        eventually(lambda: farref.rpc_sync("cook", is_recorded) and page.calls())
        for _ in range(6):
            some = [farref.rpc_async("cook", pow, (2, 2)) for _ in range(500)]
            assert {each.result() for each in some} == {4}
        told: dict[str, Any] = {}

        def all_there() -> bool:
            told.update(page.calls())
            return told["count"] >= 3_000 and not any("running" in str(it) for it in told["calls"])

        eventually(all_there, lambda: told["count"], PATIENCE)
    assert told["every"] >= 4
    assert 3_000 / told["every"] / 2 < len(told["calls"]) <= SHOWN


def traced_call(folder: Path, make: Callable[[], object]) -> tuple[Timeline, str, str]:
    """An empty timeline, and two rows of a program: the first one, and that of a call.

    *make* makes the argument of the call.
    """
    with System("simpleSystemBase", trace=folder) as system:
        system.worker("B")
        farref.rpc_sync("B", type, (make(),))
    (file,) = folder.glob("program-*")
    rows = file.read_text().splitlines()
    sent = next(row for row in rows if row.startswith('["send"') and '"Call"' in row)
    return Timeline(system), rows[0], sent


def test_a_call_whose_answer_may_be_in_a_gap_is_not_shown_as_running(tmp_path: Path) -> None:
    timeline, join, sent = traced_call(tmp_path, int)
    timeline.add(join)
    timeline.add(sent)
    assert json.loads(timeline.told(TopView()))["calls"][0]["outcome"] == "running"
    timeline.add(join)
    told = json.loads(timeline.told(TopView()))
    assert (told["count"], told["gaps"], told["calls"]) == (1, 1, [])


def test_of_a_call_with_many_references_some_are_kept_and_all_counted(tmp_path: Path) -> None:
    timeline, _, sent = traced_call(
        tmp_path, lambda: [RRef(number) for number in range(REFERENCES + 7)]
    )
    timeline.add(sent)
    (told,) = json.loads(timeline.told(TopView()))["calls"]
    assert told["references"] == [f"program/{number}" for number in range(1, REFERENCES + 1)]
    assert told["more"] == 7


# ---- the dashboard of the program that starts the system


def test_a_dashboard_needs_uvicorn_and_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = System.running()
    with pytest.raises(ValueError, match="dashboard=True needs a base by name whose actors are"):
        System("simpleSystemBase", dashboard=True)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install 'farref[web]'")):
        System(dashboard=True)
    assert System.running() == before


@pytest.mark.processes
def test_a_dashboard_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    before = System.running()
    with pytest.raises(SystemDownError, match="its dashboard did not start"):
        System(dashboard=True)
    assert System.running() == before


@pytest.mark.processes
def test_a_dashboard_ends_with_a_killed_program() -> None:
    code = "import farref, time; farref.System(dashboard=True); time.sleep(1000)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        address = program.stdout.readline().split()[-1]
        program.kill()

    def ended() -> bool:
        try:
            ask(address)
        except urllib.error.URLError:
            return True
        return False

    eventually(ended)


@pytest.mark.processes
def test_a_killed_worker_and_the_end_of_the_system() -> None:
    with System(silence=None, timeout=PATIENCE) as system:
        system.worker("doomed")
        with served(system) as (address, process), Page(address) as page:
            page.until(lambda tables: "doomed" in texts(tables["endpoints"]))
            pid = farref.rpc_sync("doomed", os.getpid)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(WorkerDiedError):
                farref.rpc_sync("doomed", os.getpid)
            tables = page.until(lambda tables: tables["events"]["rows"])
            assert texts(tables["events"], 1) == ["doomed"]
            assert "SIGKILL" in texts(tables["events"], 2)[0]
            assert "doomed" not in texts(page.tables()["endpoints"])
            ending = threading.Thread(target=system.shutdown)
            ending.start()
            kinds = iter(page.next, ("closed", None))
            last = [each for each in kinds if each[0] == "end"]
            ending.join()
            assert len(last) == 1
            assert "has ended" in last[0][1]
            assert process.wait(PATIENCE) == 0


@pytest.mark.processes
def test_ctrl_c_ends_it_while_a_page_is_open(system: System) -> None:
    with served(system) as (address, process), Page(address) as page:
        page.tables()
        assert f"dashboard-{process.pid}" in {each.name for each in system.workers()}
        process.send_signal(signal.SIGINT)
        assert ("end", "farref dashboard was stopped") in list(iter(page.next, ("closed", None)))
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def of_type(number: int) -> Any:
    return type(f"Kind{number:02}", (), {})()


@pytest.mark.processes
def test_a_large_system_is_cut_and_counted(system: System, address: str) -> None:
    refs = [RRef(number) for number in range(MANY)]
    refs += [farref.remote(name, of_type, (n,)) for name in ("cook", HOSTILE) for n in range(50)]
    with Page(address) as page:
        tables = page.until(lambda tables: tables["objects"]["count"] > 100)
        assert texts(tables["newest"])[0] == str(refs[-1].id)
        objects = tables["objects"]
        assert len(objects["rows"]) == 100
        most = [cell for cell, _ in objects["rows"][0]]
        assert int(most[0].replace(",", "")) >= MANY
        assert most[1:3] == ["int", "program"]
    with Page(address, "search=kind49") as page:  # beyond the first hundred
        assert page.tables()["objects"]["count"] == 2


# ---- what is wrong


@pytest.mark.processes
def test_a_port_that_is_taken(system: System) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = piped("dashboard", system.name, "--port", port)
    assert run.returncode == 1
    assert "farref dashboard: " in run.stderr
    assert f"cannot serve at 127.0.0.1:{port}: Address already in use; choose" in run.stderr


@pytest.mark.parametrize("words", [("dashboard",), ("metrics", "--serve", "0")])
def test_an_empty_address_is_not_every_address(words: tuple[str, ...]) -> None:
    run = piped(*words, "--address", "")
    assert run.returncode == 2
    assert "Invalid value for --address: it is empty" in run.stderr


@pytest.mark.processes
def test_without_uvicorn(system: System, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(name='uvicorn')")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    run = piped("dashboard", system.name, PYTHONPATH=path)
    assert run.returncode == 1
    assert "it needs the package uvicorn: pip install 'farref[web]'" in run.stderr


def test_no_such_system() -> None:
    run = piped("dashboard", "nobody")
    assert run.returncode == 1
    assert "no system named 'nobody' runs" in run.stderr


# ---- in a browser


class Relay:
    """Passes connections on to the server at *port*, until it is cut."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._ends: list[socket.socket] = []
        self.listen(0)

    def listen(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", port))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                ends = server.accept()[0], socket.create_connection(self._to)
            except OSError:
                return
            self._ends += ends
            threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    @staticmethod
    def _pass_on(one: socket.socket, other: socket.socket) -> None:
        try:
            while True:
                for ready in select.select([one, other], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    (other if ready is one else one).sendall(data)
        except (OSError, ValueError):
            return  # it was cut
        finally:
            one.close()
            other.close()

    def close(self) -> None:
        for each in (self._server, *self._ends):
            with suppress(OSError):  # it was not connected any more
                each.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.mark.processes
@pytest.mark.timeout(300)
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian's package: chromium)")
def test_the_page_in_a_browser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with System(silence=None, sites=True, timeout=PATIENCE, dashboard=True) as system:
        address = capsys.readouterr().out.split()[-1]
        for name in ("cook", "doomed", HOSTILE):
            system.worker(name)
        model = farref.remote("cook", Model)
        holder = farref.remote(HOSTILE, Holder)
        holder.rpc_sync().keep(model)
        with pytest.raises(ValueError, match="onerror"):
            farref.rpc_sync(HOSTILE, refuse, (HOSTILE,))
        with (
            closing(Relay(int(address.split("/")[2].split(":")[1]))) as relay,
            Browser(tmp_path / "profile") as browser,
        ):
            url = re.sub(r":\d+/", f":{relay.port}/", address)
            browser.open(url)
            browser.shows("live", "#status")
            browser.shows("onerror", "#tables")
            assert browser.js("document.images.length") == 0

            # an object, by the keyboard: Enter in a field; Esc closes the answer
            browser.js("$('id').focus()")
            browser.do("Input.insertText", text="nobody/9")
            browser.press("Enter")
            browser.shows("no reference 'nobody/9'", "dialog")
            browser.press("Escape")
            eventually(lambda: browser.js("document.querySelector('dialog').open") is False)

            # a traceback, by a click
            browser.js("[...document.querySelectorAll('td button.bad')][0].click()")
            browser.shows("in refuse", "dialog pre")
            browser.press("Escape")

            # an edge of the graph: the arrows find it, and Enter its references
            eventually(lambda: browser.js("document.querySelectorAll('.edge').length") == 3)
            browser.js("document.querySelector('.edge').focus()")
            browser.press("ArrowDown", "ArrowDown", "ArrowUp")
            name = browser.js("document.activeElement.ariaLabel")
            assert name == browser.js("document.querySelectorAll('.edge')[1].ariaLabel")
            assert name.startswith("program holds 1 object of <img")
            browser.press("Enter")
            browser.shows("references 1", "dialog")
            browser.shows(str(holder.id), "dialog td button")
            browser.press("Escape")

            # who holds the objects of a type
            browser.js("document.querySelector('#of').focus()")
            browser.do("Input.insertText", text="Model")
            browser.press("Enter")
            browser.shows("1 object with Model, at ", "#tables")
            assert browser.js("document.querySelectorAll('.edge').length") == 2

            # the calls under load, as they come
            browser.js("document.querySelector('#record').click()")
            eventually(lambda: farref.rpc_sync("cook", is_recorded))
            pid = farref.rpc_sync("doomed", os.getpid)
            waits = farref.rpc_async("doomed", time.sleep, (PATIENCE,))
            refs = [RRef(number) for number in range(MANY)]
            farref.rpc_sync("cook", use, (model,))
            eventually(lambda: browser.js(f"Boolean({button('use()')})"))
            eventually(lambda: browser.js("document.querySelectorAll('.call.open').length") == 1)
            browser.js(f"{button('use()')}.click()")
            browser.shows("program called cook at", "dialog")
            browser.shows(str(model.id), "dialog ul")
            browser.press("Escape")

            # 100,000 objects, and why one is there
            browser.shows("100,000", "#tables")
            browser.js(f"{button(str(model.id))}.focus()")
            browser.press("Enter")
            browser.shows(f"why {model.id} is alive", "dialog")
            browser.shows("program has fork", "dialog")
            browser.press("Escape")

            # "/" searches, on the server
            browser.js("document.activeElement.blur()")
            browser.press("/")
            browser.do("Input.insertText", text="cook")
            endpoints = "document.querySelectorAll('main section:first-child tbody tr').length"
            eventually(lambda: browser.js(endpoints) == 1)
            browser.press("Escape")
            eventually(lambda: browser.js(endpoints) == 4)

            # a heading sorts
            heading = (
                "[...document.querySelectorAll('th button')].find(e => e.textContent === 'p99')"
            )
            browser.js(f"{heading}.click()")
            eventually(lambda: browser.js(f"{heading}.parentNode.ariaSort") == "descending")

            # the connection is lost, the worker dies meanwhile, and it comes back by itself
            relay.close()
            browser.shows("The connection is lost; trying again.", "#status")
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(WorkerDiedError):
                waits.result()
            relay.listen(relay.port)
            browser.shows("live", "#status")
            browser.shows("SIGKILL", "#tables")
            eventually(lambda: browser.js(endpoints) == 3)
            eventually(lambda: farref.rpc_sync("cook", is_recorded))  # again
            farref.rpc_sync("cook", use, (model,))
            eventually(lambda: browser.js(f"Boolean({button('use()')})"))

            assert browser.js("document.title") == f"{system.name} - farref dashboard"
            lost = "Failed to load resource"  # the connection, and the object that is not there
            assert [each for each in browser.errors if not each.startswith(lost)] == []
            del refs, model, holder, waits
            system.shutdown()
            browser.shows("These are its last figures.", "#status")
            with pytest.raises(urllib.error.URLError):  # it has ended with the system
                ask(address)


def button(text: str) -> str:
    """The button with this *text* in a table, in JavaScript."""
    buttons = "[...document.querySelectorAll('td button')]"
    return f"{buttons}.find(each => each.textContent === {text!r})"
