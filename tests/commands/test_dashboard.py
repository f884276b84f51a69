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
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import RRef, System, SystemDownError, WorkerDiedError
from farref.actors.inspect.overview import LOOKED_AT

from ..waiting import eventually
from .browser import CHROMIUM, Browser
from .kit import FARREF, PATIENCE, piped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytest.importorskip("uvicorn", reason="no uvicorn here: pip install 'farref[web]'")
HOSTILE = "<img src=x onerror=document.title='pwned'>\x1b]0;x\x07\u202e</script>&amp;\n'\""
MANY = 20 * LOOKED_AT


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


class Page:
    """Reads the events as a page does."""

    def __init__(self, address: str, query: str = "") -> None:
        self._answer = urllib.request.urlopen(f"{address}events?{query}", timeout=PATIENCE)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()

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
@pytest.mark.parametrize("path", ["", "events", "why?id=cook/1"])
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
@pytest.mark.parametrize("path", ["", "events", "why?id=cook/1", "page.html", "../etc/passwd"])
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
    host, port = address.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), PATIENCE) as old:  # it need name no host
        old.sendall(f"GET /{address.split('/')[3]}/ HTTP/1.0\r\n\r\n".encode())
        assert old.makefile("rb").readline().split()[1] == b"421"
    bare = HTTPConnection(host, int(port), timeout=PATIENCE)
    bare.request("OPTIONS", "*")
    assert bare.getresponse().status == 403
    bare.close()
    twice = HTTPConnection(host, int(port), timeout=PATIENCE)
    twice.putrequest("GET", f"/{address.split('/')[3]}/", skip_host=True)
    twice.putheader("Host", "localhost")
    twice.putheader("Host", "evil.example")
    twice.endheaders()
    assert twice.getresponse().status in (400, 421)
    twice.close()


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
    assert [*tables] == ["endpoints", "events", "who holds what", "objects", "newest"]
    assert {"cook", "program"} <= set(texts(tables["endpoints"]))
    (mine,) = (row for row in tables["objects"]["rows"] if row[1][0] == "Model")
    assert [mine[0][0], mine[2][0]] == ["3", "cook"]
    assert "test_dashboard.py" in mine[3][0]
    assert ["program", "3", "cook"] in [
        [cell for cell, _ in row] for row in tables["who holds what"]["rows"]
    ]
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
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    with System(silence=None, sites=True, timeout=PATIENCE) as system:
        for name in ("cook", "doomed", HOSTILE):
            system.worker(name)
        model = farref.remote("cook", Model)
        refs = [RRef(number) for number in range(MANY)]
        with pytest.raises(ValueError, match="onerror"):
            farref.rpc_sync(HOSTILE, refuse, (HOSTILE,))
        with (
            served(system) as (address, _),
            closing(Relay(int(address.split("/")[2].split(":")[1]))) as relay,
            Browser(tmp_path / "profile") as browser,
        ):
            url = re.sub(r":\d+/", f":{relay.port}/", address)
            browser.open(url)
            browser.shows("live", "#status")
            browser.shows("onerror", "#tables")
            browser.shows("100,000", "#tables")
            assert browser.js("document.images.length") == 0

            # an object, by the keyboard: Enter on its button; Esc closes the answer
            browser.js(
                "[...document.querySelectorAll('td button')]"
                f".find(each => each.textContent === {str(model.id)!r}).focus()"
            )
            browser.press("Enter")
            browser.shows(f"why {model.id} is alive", "dialog")
            browser.shows("program has fork", "dialog")
            browser.press("Escape")
            eventually(lambda: browser.js("document.querySelector('dialog').open") is False)
            browser.js("$('id').focus()")
            browser.do("Input.insertText", text="nobody/9")
            browser.press("Enter")
            browser.shows("no reference 'nobody/9'", "dialog")
            browser.press("Escape")

            # a traceback, by a click
            browser.js("[...document.querySelectorAll('td button.bad')][0].click()")
            browser.shows("in refuse", "dialog pre")
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
            os.kill(farref.rpc_sync("doomed", os.getpid), signal.SIGKILL)
            with pytest.raises(WorkerDiedError):
                farref.rpc_sync("doomed", os.getpid)
            relay.listen(relay.port)
            browser.shows("live", "#status")
            browser.shows("SIGKILL", "#tables")
            eventually(lambda: browser.js(endpoints) == 3)

            assert browser.js("document.title") == f"{system.name} - farref dashboard"
            lost = "Failed to load resource"  # the connection, and the object that is not there
            assert [each for each in browser.errors if not each.startswith(lost)] == []
            del refs, model
            system.shutdown()
            browser.shows("These are its last figures.", "#status")
