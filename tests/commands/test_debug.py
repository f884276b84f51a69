"""`breakpoint()` in workers and actors: sessions in the program's terminal, and `farref debug`."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from bdb import BdbQuit
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import farref
from farref import DebuggerError, RefActor, RRef, System
from farref.testing import assert_nothing_held

from ..actors.scripts import run, write
from ..bases import PROCESSES
from .kit import FARREF, PATIENCE, Terminal
from .kit import farref as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from thespian.actors import ActorAddress

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("own_folder")]

NAME = "bugs"
PROGRAM = """
import asyncio
import sys

import farref


def plain(number):
    breakpoint()
    return number + 1


class Counter:
    count = 0

    def add(self, number):
        breakpoint()
        self.count += number
        return self.count


async def later(number):
    await asyncio.sleep(0.01)
    return number


async def awaiting(number):
    breakpoint()
    first = await later(number)
    return first + 1


class Actor(farref.RefActor):
    def receiveMsg_int(self, number, sender):
        breakpoint()
        self.send(sender, number + 1)


def outer(number):
    breakpoint()
    return farref.rpc_sync("C", plain, (number,))


def main(kinds):
    with farref.System(name="bugs", silence=0.3, timeout=2) as system:
        for name in "BC":
            system.worker(name)
        answer = None
        for kind in kinds:
            print(f"\\033[2J\\033[H{kind}, after {answer}", flush=True)  # on an empty screen
            answer = answer_of(system, kind)
        print(f"the answer is {answer}", flush=True)


def answer_of(system, kind):
    match kind:
        case "method":
            return farref.remote("B", Counter).rpc_sync().add(2)
        case "actor":
            return system.ask(system.create(Actor), 1)
        case "several":
            calls = [farref.rpc_async(name, plain, (1,)) for name in "BBC"]
            return max(call.result() for call in calls)
        case "awaited":
            return asyncio.run(program())
        case _:
            return farref.rpc_sync("B", globals()[kind], (1,))


async def program():
    return await farref.rpc_async("B", plain, (1,))


if __name__ == "__main__":
    main(sys.argv[1:])
"""


class Debugger:
    """`farref debug` with pipes."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*FARREF, "debug", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._seen = ""

    def sees(self, text: str) -> str:
        """The output up to *text*, since the last one."""
        assert self.process.stdout is not None
        end = time.monotonic() + PATIENCE
        while text not in self._seen:
            left = max(0.0, end - time.monotonic())
            assert select.select([self.process.stdout], [], [], left)[0], self._seen
            more = os.read(self.process.stdout.fileno(), 65536)
            assert more, self._seen
            self._seen += more.decode()
        seen, _, self._seen = self._seen.partition(text)
        return seen

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()


@contextmanager
def debugging(*arguments: str) -> Iterator[Debugger]:
    """`farref debug`, as soon as it waits. Ctrl-C ends it in order."""
    debugger = Debugger(*arguments)
    with debugger.process as process:
        try:
            debugger.sees("Ctrl-C leaves")
            yield debugger
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=PATIENCE)
                assert process.returncode == 0
        finally:
            process.kill()


@contextmanager
def in_terminal(folder: Path, *kinds: str) -> Iterator[Terminal]:
    """The program in a real terminal. Afterwards Ctrl-C has its usual meaning there."""
    program = write(folder, PROGRAM)
    with Terminal() as terminal:
        run = f"{sys.executable} {program} {' '.join(kinds)}"
        command = f"{run}; echo code $?; stty -a | grep -o 'intr = ..'"
        terminal.open("w", command)
        yield terminal
        assert "intr = ^C" in terminal.screen("intr")


# ---- in the program's terminal


def test_a_session_in_the_programs_terminal(tmp_path: Path) -> None:
    with in_terminal(tmp_path, "plain") as terminal:
        first = terminal.screen("(Pdb)")
        assert "farref: B stands at a breakpoint, plain (" in first
        time.sleep(3)  # longer than `silence`, and the timeout of the call
        terminal.type("w", "number = 41", "list")
        assert "def plain(number):" in terminal.screen("count = 0")
        terminal.tmux("send-keys", "-t", "w", "half a line", "C-c")
        terminal.screen("--KeyboardInterrupt--")
        terminal.type("w", "next", "next")
        terminal.screen("->42")
        terminal.type("w", "continue")
        assert "the answer is 42" in terminal.screen("code 0")


AT_THE_CALL = ("n",) if sys.version_info >= (3, 13) else ()
"""The step from `breakpoint()` to the next line: from Python 3.13 on pdb stops before it."""


KINDS = {
    "method": ("n", "p self.count", "c"),
    "awaiting": (*AT_THE_CALL, "n", "p first", "n"),
    "awaited": ("p number", "c"),
    "actor": ("w", "p number", "c"),
    "several": ("c", "c", "p number", "c"),
    "outer": ("n", "p number", "c", "c"),
}


def test_every_kind_of_code_has_sessions(tmp_path: Path) -> None:
    with in_terminal(tmp_path, *KINDS) as terminal:
        before: int | None = None
        for kind, typed in KINDS.items():
            terminal.screen(f"{kind}, after {before}")
            for number, line in enumerate(typed, 1):
                terminal.screen("(Pdb)", times=number)
                terminal.type("w", line)
            before = 2
        assert "the answer is 2" in terminal.screen("code 0")


@pytest.mark.parametrize("how", ["q", "C-d"])
def test_to_quit_is_an_error_of_the_call(tmp_path: Path, how: str) -> None:
    with in_terminal(tmp_path, "plain") as terminal:
        terminal.screen("(Pdb)")
        terminal.tmux("send-keys", "-t", "w", how, "Enter")
        shown = " ".join(terminal.screen("code 1").split())
        assert "BdbQuit: the call was ended in the debugger, plain (" in shown


def test_farref_debug_takes_a_session_over(tmp_path: Path) -> None:
    with in_terminal(tmp_path, "plain") as terminal:
        terminal.screen("(Pdb)")
        terminal.open("d", " ".join([*FARREF, "debug", "B"]))
        terminal.screen("(Pdb)", "d")
        terminal.screen("it goes on in another terminal")
        terminal.type("d", "number = 5", "c")
        assert "the answer is 6" in terminal.screen("code 0")
        terminal.screen("bugs has ended", "d")


def test_a_program_in_the_background_does_not_read_the_terminal(tmp_path: Path) -> None:
    program = write(tmp_path, PROGRAM)
    with Terminal() as terminal:
        terminal.open("w", "bash --norc -i")
        terminal.type("w", f"{sys.executable} {program} plain &")
        terminal.screen("or run `farref debug B`")
        terminal.type("w", "fg")
        terminal.screen("(Pdb)")
        terminal.type("w", "c")
        terminal.screen("the answer is 2")


# ---- without a terminal


def stop(value: Any) -> Any:
    breakpoint()
    return value


class Stopping(RefActor):
    def receiveMsg_int(self, number: int, sender: ActorAddress) -> None:
        breakpoint()
        self.send(sender, number)


def test_without_a_terminal_an_error_says_what_to_do(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        """
        import farref

        def f():
            breakpoint()

        with farref.System() as system:
            system.worker("B")
            try:
                farref.rpc_sync("B", f)
            except farref.DebuggerError as error:
                print(error)
            system.worker("C", env={"PYTHONBREAKPOINT": "0"})
            print(farref.rpc_sync("C", f))
        """,
    )
    assert "B stands at a breakpoint, f (" in output
    assert "run `farref debug B` on the first host" in output
    assert output.endswith("\nNone\n")


@pytest.mark.parametrize("base", PROCESSES)
def test_farref_debug_waits_for_breakpoints(base: str) -> None:
    with System(base, name=NAME) as system:
        system.worker("B")
        with debugging("B", "--system", NAME) as debugger:
            here = RRef([1])
            call = farref.rpc_async("B", stop, (here,))
            assert "B stands at a breakpoint, stop (" in debugger.sees("(Pdb) ")
            listed = json.loads(command("debug", "--json").stdout)
            assert [each["worker"] for each in listed] == ["B"]
            assert "B stands at a breakpoint, stop (" in command("debug", "--list").stdout
            debugger.type("p value.to_here()")
            assert debugger.sees("(Pdb) ") == "[1]\n"
            debugger.type("c")
            assert call.result().to_here() == [1]
            assert json.loads(command("debug", "--json").stdout) == []
            del call, here
        assert_nothing_held(system)


def test_breakpoints_of_others_are_not_taken() -> None:
    with System(name=NAME) as system:
        for name in "BC":
            system.worker(name)
        with debugging("C") as debugger:
            call = farref.rpc_async("C", stop, (1,))
            debugger.sees("(Pdb) ")
            with pytest.raises(DebuggerError):
                farref.rpc_sync("B", stop, (2,))
            debugger.type("c")
            assert call.result() == 1
        assert command("debug", "X").returncode == 1


def test_a_killed_worker_ends_its_session() -> None:
    with System(name=NAME) as system, debugging() as debugger:
        worker = system.worker("B")
        pid = farref.rpc_sync(worker, os.getpid)
        call = farref.rpc_async(worker, stop, (1,))
        debugger.sees("(Pdb) ")
        os.kill(pid, signal.SIGKILL)
        debugger.sees("B has died")
        with pytest.raises(farref.WorkerDiedError):
            call.result()


def test_a_killed_debugger_lets_the_thread_go_on() -> None:
    with System(name=NAME) as system, debugging() as debugger:
        system.worker("B")
        call = farref.rpc_async("B", stop, (1,))
        debugger.sees("(Pdb) ")
        debugger.process.kill()
        debugger.process.communicate()
        assert call.result() == 1


def test_the_end_of_the_system_ends_a_session() -> None:
    with System(name=NAME) as system, debugging() as debugger:
        actor = system.create(Stopping)
        system.tell(actor, 1)
        debugger.sees("(Pdb) ")
        system.shutdown(graceful=False)
        debugger.sees("bugs has ended")
        assert debugger.process.wait(PATIENCE) == 0


def test_piped_commands() -> None:
    with System(name=NAME) as system, debugging() as debugger:
        system.worker("B")
        call = farref.rpc_async("B", stop, (1,))
        output, _ = debugger.process.communicate(b"p value + 1\nq\n", timeout=PATIENCE)
        assert b"(Pdb) 2\n" in output
        assert debugger.process.returncode == 0
        with pytest.raises(BdbQuit, match="the call was ended in the debugger, stop"):
            call.result()
