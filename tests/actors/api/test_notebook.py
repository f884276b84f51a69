"""A real kernel of Jupyter runs cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Cell = Callable[[str], list[tuple[str, str]]]

BUSY = """
import threading
def call_on():
    while busy:
        farref.rpc_sync("B", pow, (2, 2))
busy = True
threading.Thread(target=call_on, daemon=True).start()
"""

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def cell() -> Iterator[Cell]:
    """Runs a cell: what it shows, each piece with its kind."""
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    try:

        def run(code: str) -> list[tuple[str, str]]:
            shown: list[tuple[str, str]] = []

            def show(message: dict[str, Any]) -> None:
                content = message["content"]
                match message["msg_type"]:
                    case "stream":
                        shown.append((content["name"], content["text"]))
                    case "error":
                        shown.append(("error", content["evalue"]))
                    case "execute_result":
                        shown.extend(sorted(content["data"].items()))

            client.execute_interactive(code, output_hook=show, timeout=60)
            return shown

        run("import farref\nsystem = farref.System()\nsystem.worker('B')")
        yield run
        run("system.shutdown()")
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def test_a_cell_may_block(cell: Cell) -> None:
    """The kernel's loop runs it, and waits for it anyway."""
    assert cell("ref = farref.remote('B', list)\nref.rpc_sync().append(1)\nref.to_here()") == [
        ("text/plain", "[1]")
    ]
    assert cell("farref.get([ref, ref]), len(farref.wait([ref])[0])") == [
        ("text/plain", "([[1], [1]], 1)")
    ]


def test_a_coroutine_in_a_cell_may_not(cell: Cell) -> None:
    [(kind, text)] = cell("async def fetch():\n    ref.to_here()\n\nawait fetch()")
    assert kind == "stderr"
    assert "stops the asyncio loop" in text
    assert "ref.to_here()" in text


def test_objects_show_themselves_as_tables(cell: Cell) -> None:
    page = dict(cell(f"odd = farref.RRef(1)\n{BUSY}\nsystem"))["text/html"]
    assert "; 1 host</caption>" in page
    assert "<th>endpoint</th><th>host</th><th>calls/s</th><th>queue</th><th>objects</th>" in page
    assert re.search(r"<td>B</td><td></td><td>[1-9][\d,]*</td><td>\d+</td><td>1</td>", page)
    assert "<td>program</td><td></td><td>0</td><td>0</td><td>1</td>" in page
    shown = dict(cell("farref.references()"))
    assert "<th>owner</th>" in shown["text/html"]
    shown = dict(cell("odd"))
    assert shown["text/html"] == "<code>RRef(program/2 at program)</code>"
    assert cell("busy = False\ndel odd") == []


def test_a_function_of_a_cell_has_its_source(cell: Cell) -> None:
    text = "def inverse(x):\n    return 1 / x  # mine\n"
    assert cell(text) == []
    source = "import inspect\n\ndef source(what):\n    return inspect.getsource(what)\n\n"
    [(_, shown)] = cell(f"{source}farref.rpc_sync('B', source, (inverse,))")
    assert shown == repr(text)


def test_what_comes_back_leaves_a_cell_its_source(cell: Cell) -> None:
    text = "def one():\n    return 1\n\n\nclass Two:\n    def two(self):\n        return 2\n"
    assert cell(text) == []
    assert cell("farref.remote('B', Two).to_here().two()") == [("text/plain", "2")]
    shown = cell("import inspect\ninspect.getsource(one)")
    assert shown == [("text/plain", repr("def one():\n    return 1\n"))]
