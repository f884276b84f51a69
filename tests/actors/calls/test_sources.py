"""Code that goes by value keeps its file and its lines, for tracebacks, `inspect` and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..scripts import run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes

USER = """
import inspect
import warnings


def fail(number):
    return number / 0  # the line of fail


class Model:
    rate = 1

    def step(self):
        def inner():
            raise LookupError("in step")  # the line of step

        return inner()


def source_of(thing):
    return inspect.getsource(thing)


def warn():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("careful")
    return caught[0].filename, caught[0].lineno
"""

PROGRAM = """
    import linecache, os, sys, traceback, types
    import farref

    way, folder = sys.argv[1:]
    os.chdir(folder)
    text = open("user.py").read()
    names = {"file": os.path.abspath("user.py"), "elsewhere": "user.py", "cell": "<cell 7>"}
    name = names[way]
    if way == "cell":
        linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name, "exec"), globals())

    def shown(call):
        try:
            call()
        except Exception as error:
            return "".join(traceback.format_exception(error))

    with farref.System() as system:
        for worker in "BC":
            system.worker(worker)
            farref.rpc_sync(worker, os.chdir, ("/",))
        model = farref.remote("B", Model)
        for what, line in (
            (lambda: farref.rpc_sync("B", fail, (1,)), "return number / 0  # the line of fail"),
            (lambda: model.rpc_sync().step(), 'raise LookupError("in step")  # the line of step'),
        ):
            number = text.splitlines().index(next(x for x in text.splitlines() if line in x)) + 1
            found = shown(what)
            assert f'File "{name}", line {number}, in ' in found, found
            assert line in found, found
        fails = text[text.index("def fail") : text.index("class Model")].rstrip() + "\\n"
        assert farref.rpc_sync("B", source_of, (fail,)) == fails

        def passed_on(function):
            return farref.rpc_sync("C", source_of, (function,))

        assert farref.rpc_sync("B", passed_on, (fail,)) == fails
        number = text.splitlines().index('        warnings.warn("careful")') + 1
        assert farref.rpc_sync("B", warn) == (name, number)
"""


@pytest.mark.parametrize("way", ["file", "elsewhere", "cell"])
def test_code_by_value_keeps_its_file_and_its_lines(way: str, tmp_path: Path) -> None:
    """It is in a file of this machine, in one that the workers do not find, or in a cell."""
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "user.py").write_text(USER)
    run(tmp_path, PROGRAM, way, str(folder))
