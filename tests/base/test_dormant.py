"""The process that starts when somebody first dials it: the logger."""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from thespian.actors import Actor, ActorAddress, ActorSystemMessage

from farref.actors.base import addresses, rundir
from farref.actors.base.dormant import Dormant
from farref.actors.base.listener import Sockets
from farref.actors.base.poller import Poller

from ..marks import NAMES
from ..waiting import eventually
from .kit import PATIENCE, Echo, running


@pytest.fixture
def sockets(tmp_path: Path) -> Iterator[Sockets]:
    path = str(tmp_path / "asleep")
    made = Sockets(addresses.Address("asleep", path, "", 0), rundir.listen_at(path), None)
    yield made
    made.close()


class Starts(list[str]):
    """Counts the starts of a process; each may fail."""

    error: OSError | None = None

    def __call__(self) -> None:
        self.append("started")
        if self.error is not None:
            raise self.error


def dialled(sockets: Sockets) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(sockets.address.path)
    return peer


def test_it_starts_once(sockets: Sockets, poller: Poller) -> None:
    starts = Starts()
    Dormant(sockets, poller, starts)
    poller.wait(0.0)
    assert not starts
    with dialled(sockets), dialled(sockets):
        poller.wait(PATIENCE)
        poller.wait(0.0)
    assert starts == ["started"]
    assert sockets.local.fileno() >= 0  # they are the process's


def test_its_successor_has_the_same_address(sockets: Sockets, poller: Poller) -> None:
    starts = Starts()
    dormant = Dormant(sockets, poller, starts)
    with dialled(sockets) as peer:
        poller.wait(PATIENCE)
        sockets.local.accept()[0].close()
        assert peer.recv(1) == b""
    assert starts == ["started"]
    with dialled(sockets):
        poller.wait(0.0)
        assert starts == ["started"], "the process accepts it"
        dormant.watch()  # the process has ended
        poller.wait(PATIENCE)
    assert starts == ["started", "started"]


def test_at_the_end_a_running_process_keeps_its_sockets(sockets: Sockets, poller: Poller) -> None:
    dormant = Dormant(sockets, poller, Starts())
    with dialled(sockets):
        poller.wait(PATIENCE)
    dormant.finish()
    assert sockets.local.fileno() == -1
    assert Path(sockets.address.path).exists()


@pytest.mark.parametrize("dials", [True, False])
def test_at_the_end_it_starts_only_if_somebody_has_dialled(
    sockets: Sockets, poller: Poller, dials: bool
) -> None:
    starts = Starts()
    dormant = Dormant(sockets, poller, starts)
    peer = dialled(sockets) if dials else None
    dormant.finish()
    assert len(starts) == dials
    assert Path(sockets.address.path).exists() == dials
    if peer is not None:
        peer.close()


def test_if_it_cannot_start_its_peers_are_told(sockets: Sockets, poller: Poller) -> None:
    starts = Starts()
    starts.error = OSError(errno.EAGAIN, "too many processes")
    Dormant(sockets, poller, starts)
    with dialled(sockets) as peer:
        poller.wait(PATIENCE)
        with pytest.raises(ConnectionResetError):
            peer.recv(1)
    assert not Path(sockets.address.path).exists()


class Logging(Actor):
    """Writes a record for each message, and answers it; for a number, so many records."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if not isinstance(message, ActorSystemMessage):
            for number in range(message) if isinstance(message, int) else [message]:
                logging.getLogger("a test").warning("%s", number)
            self.send(sender, message)


@pytest.mark.processes
@pytest.mark.parametrize("runs", [False, pytest.param(True, marks=NAMES)])
def test_no_other_child_of_the_admin_listens_for_it(*, runs: bool) -> None:
    with running() as system:
        if runs:
            system.ask(system.createActor(Logging), "the logger starts", PATIENCE)
        actor = psutil.Process(system.ask(system.createActor(Echo), "pid", PATIENCE))
        admin = actor.parent()
        assert admin is not None
        if runs:
            eventually(lambda: "farref: logger" in {each.name() for each in admin.children()})
            actor = psutil.Process(system.ask(system.createActor(Echo), "pid", PATIENCE))
        listening = {each.laddr for each in admin.net_connections("unix")} - {""}
        assert len(listening) == 2  # its own, and the logger's
        assert not listening & {each.laddr for each in actor.net_connections("unix")}


class SlowHandler(logging.FileHandler):
    """Takes its time: longer for the first record than the actor waits at its end."""

    def emit(self, record: logging.LogRecord) -> None:
        time.sleep(
            1.5 if record.getMessage() == "0" else 0.05
        )  # an actor waits 1 s for its records
        super().emit(record)


@pytest.mark.processes
def test_the_last_records_are_shown(tmp_path: Path) -> None:
    """The admin tells the logger to end by another stream, which overtakes the records."""
    log, many = tmp_path / "log", 20
    shown = {
        "version": 1,
        "handlers": {"file": {"()": SlowHandler, "filename": str(log)}},
        "root": {"handlers": ["file"], "level": "WARNING"},
    }
    with running(log_defs=shown) as system:
        system.ask(system.createActor(Logging), many, PATIENCE)
    assert log.read_text().splitlines() == [str(each) for each in range(many)]
