"""A worker logs as the program does: its records reach the program's handlers, in order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ..scripts import run, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes

BEGIN = """
    import logging, sys, time
    import farref

    log = logging.getLogger("my.app")

    def say(*words):
        for word in words:
            log.info("it is %s", word)
            log.warning("now %s", word, extra={"odd": object()})

    def configure(handler=None, **options):
        form = "%(levelname)s|%(processName)s|%(message)s"
        handlers = [handler or logging.StreamHandler(sys.stdout)]
        logging.basicConfig(format=form, handlers=handlers, **options)
"""


def test_levels_and_format_are_the_programs(tmp_path: Path) -> None:
    program = """
    configure(level=logging.INFO)
    logging.getLogger("noise").setLevel(logging.ERROR)

    def fail():
        logging.getLogger("noise").warning("not shown")
        logging.getLogger("noise").error("shown")
        try:
            [][1]
        except IndexError:
            log.exception("no item")

    with farref.System() as system:
        system.worker("B")
        farref.rpc_sync("B", say, ("one", "two"))
        farref.rpc_sync("B", fail)
        system.logging("WARNING")
        farref.rpc_sync("B", say, ("three",))
        system.logging("INFO", "my.app")
        system.worker("C")
        farref.rpc_sync("C", say, ("four",))
    """
    out = run(tmp_path, BEGIN + program)
    assert not re.search(r"\|(admin|logger)\||Thespian|Actor ?System", out)
    said = [line for line in out.splitlines() if "|B|" in line or "|C|" in line]
    assert said == [
        *("INFO|B|it is one", "WARNING|B|now one", "INFO|B|it is two", "WARNING|B|now two"),
        *("ERROR|B|shown", "ERROR|B|no item"),
        "WARNING|B|now three",
        *("INFO|C|it is four", "WARNING|C|now four"),
    ]
    assert "IndexError: list index out of range" in out
    assert re.search(r'program_0\.py", line \d+, in fail\n    \[\]\[1\]', out)


def test_a_program_without_handlers_sees_warnings(tmp_path: Path) -> None:
    program = """
    with farref.System() as system:
        system.worker("B")
        farref.rpc_sync("B", say, ("one",))
    """
    with started(tmp_path, BEGIN + program) as process:
        out, err = process.communicate(timeout=60)
    assert (out, err) == ("", "WARNING B my.app: now one\n")


def test_a_worker_may_have_handlers_of_its_own(tmp_path: Path) -> None:
    program = """
    configure(level=logging.INFO)

    def to_a_file(path):
        added = logging.FileHandler(path)
        logging.getLogger().addHandler(added)
        say("in both")
        logging.getLogger().removeHandler(added)
        logging.basicConfig(filename=path, level=logging.INFO, force=True)
        say("in the file")

    with farref.System() as system:
        system.worker("B")
        farref.rpc_sync("B", to_a_file, (sys.argv[0] + ".log",))
    """
    out = run(tmp_path, BEGIN + program)
    [path] = tmp_path.glob("*.log")
    text = path.read_text()
    assert "it is in both" in text
    assert "it is in the file" in text
    assert "INFO|B|it is in both" in out
    assert "in the file" not in out


@pytest.mark.parametrize(("count", "held"), [(3_000, False), (10_000, True)])
def test_no_record_is_lost_without_a_word(tmp_path: Path, count: int, held: bool) -> None:
    """If the program shows them too slowly, what waits is bounded: the others are counted."""
    program = """
    import threading

    goes_on, dropped = threading.Event(), threading.Event()

    class Slow(logging.StreamHandler):
        def emit(self, record):
            goes_on.wait()
            super().emit(record)
            if "dropped" in record.getMessage():
                dropped.set()

    configure(Slow(sys.stdout), level=logging.INFO)

    def flood(count):
        for number in range(count):
            log.info("%d %s", number, "x" * 100)

    count, held, later = *map(int, sys.argv[1:]), 0
    with farref.System() as system:
        system.worker("B")
        if not held:
            goes_on.set()
        farref.rpc_sync("B", flood, (count,))
        goes_on.set()
        while held and not dropped.wait(0.1):  # they are counted with a later record
            farref.rpc_sync("B", log.info, ("later",))
            later += 1
    print(f"{later} later ones")
    """
    out = run(tmp_path, BEGIN + program, str(count), str(int(held)), seconds=110)
    numbers = [int(each) for each in re.findall(r"^INFO\|B\|(\d+) x", out, re.MULTILINE)]
    dropped = [int(each) for each in re.findall(r"B\|(\d+) records .* dropped", out)]
    [later] = re.findall(r"(\d+) later ones", out)
    assert numbers == sorted(set(numbers))
    assert (len(numbers) < count) == held
    assert count <= len(numbers) + sum(dropped) <= count + int(later) - out.count("|later\n")


def test_the_end_waits_for_the_last_records(tmp_path: Path) -> None:
    program = """
    class Slow(logging.StreamHandler):
        def emit(self, record):
            time.sleep(0.004)
            super().emit(record)

    configure(Slow(sys.stdout), level=logging.INFO)
    with farref.System() as system:
        system.worker("B")
        farref.rpc_sync("B", say, tuple(range(100)))
    print("the end")
    """
    out = run(tmp_path, BEGIN + program)
    assert [int(each) for each in re.findall(r"it is (\d+)\n", out)] == [*range(100)]
    assert out.endswith("\nthe end\n")
