"""A message without a handler is no silence: the log has one warning, an ask gets an error."""

from __future__ import annotations

import re
from contextlib import redirect_stderr
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from thespian.actors import ActorAddress, ActorTypeDispatcher, WakeupMessage

import farref
from farref import NoHandlerError, RefActor, RRef, System

from ...bases import LINKS, PROCESSES
from ..helpers import Box, until
from ..scripts import started

if TYPE_CHECKING:
    from pathlib import Path


class Reader(RefActor):
    """Has two handlers, and says nothing to anybody."""

    def receiveMsg_int(self, message: int, sender: ActorAddress) -> None:
        self.send(sender, message + 1)

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        if message == "wake":
            self.wakeupAfter(timedelta(seconds=0.01))


class Lenient(Reader):
    """Handles everything."""

    def receiveUnrecognizedMessage(self, message: Any, sender: ActorAddress) -> None:
        if not isinstance(message, WakeupMessage):
            self.send(sender, "whatever")


class Plain(ActorTypeDispatcher):
    """Thespian's own, which drops a message in silence."""


def warnings(lines: list[str], caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of actors in this process, and of others, which are in *lines*."""
    said = [record.getMessage() for record in list(caplog.records)] + lines
    return [line for line in said if "dropped a message" in line]


def test_an_ask_gets_an_error_at_once(system: System) -> None:
    actor = system.create(Reader, "reader-asked")
    expected = "Reader has no handler for a Box; it has receiveMsg_int, receiveMsg_str: add receive"
    for kind in (NoHandlerError, TypeError):
        with pytest.raises(kind, match=re.escape(expected)):
            system.ask(actor, Box(RRef(1)))
    assert system.ask(actor, 1) == 2


@pytest.mark.parametrize("base", LINKS)
def test_the_log_has_one_warning_of_each_type(
    base: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "errors"  # `capfd` would lose what comes while it is read
    with file.open("a") as opened, redirect_stderr(opened), System(base) as system:
        actor = system.create(Reader)
        for _ in range(3):
            system.tell(actor, Box(RRef(1)))
            system.tell(actor, 1.5)
        system.tell(actor, "wake")

        def said() -> list[str]:
            return warnings(file.read_text("utf-8").splitlines(), caplog)

        assert until(system, lambda: len(said()) >= 3)
        assert system.ask(actor, 1) == 2
    assert sorted(line.split("handler for a ")[1].split(";")[0] for line in said()) == [
        "Box",
        "WakeupMessage",
        "float",
    ]


WARNED = """
import sys
from datetime import timedelta
from farref import RefActor, System

class Reader(RefActor):
    def receiveMsg_int(self, message, sender):
        self.send(sender, message + 1)

if __name__ == "__main__":
    with System(sys.argv[1]) as system:
        actor = system.create(Reader)
        for message in (1.5, 2.5, b"bytes"):
            system.tell(actor, message)
        system.ask(actor, 1)
"""


@pytest.mark.parametrize("base", PROCESSES)
def test_the_warnings_come_to_the_standard_error_of_a_program(base: str, tmp_path: Path) -> None:
    with started(tmp_path, WARNED, base) as program:
        _, said = program.communicate(timeout=60)
    lines = [line for line in said.splitlines() if "dropped a message" in line]
    kinds = sorted(line.split("handler for a ")[1].split(";")[0] for line in lines)
    assert kinds == ["bytes", "float"]


def test_an_actor_may_handle_them_itself(system: System) -> None:
    actor = system.create(Lenient)
    assert system.ask(actor, 1.5) == "whatever"
    assert system.ask(actor, 1) == 2


def test_a_worker_names_the_same_error(system: System) -> None:
    with pytest.raises(NoHandlerError, match="a Worker handles no messages, and got a float"):
        system.ask("B", 1.5)
    assert farref.rpc_sync("B", pow, (2, 2)) == 4
