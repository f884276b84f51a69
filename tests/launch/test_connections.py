"""Connections between agents, and the note of the first: who is believed, and who is not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from farref.launch import notes
from farref.launch.connections import (
    HELLO,
    MAC,
    NONCE,
    Line,
    LineError,
    WrongKeyError,
    answer,
    dial,
)
from farref.launch.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY = secrets.token_bytes(32)


class Served:
    """A listening agent: what came, or the reason why nothing did."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[Any] = asyncio.Queue()
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line, hello = await answer(reader, writer, KEY)
            self.came.put_nowait(hello)
            while True:
                self.came.put_nowait(await line.receive())
        except LineError as error:
            self.came.put_nowait(str(error))
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[Served]:
    it = Served()
    server = await asyncio.start_server(it.take, "127.0.0.1", 0)
    it.port = server.sockets[0].getsockname()[1]
    async with server:
        yield it


def test_frames_arrive_in_order() -> None:
    async def scene() -> None:
        async with served() as there:
            line = await dial("127.0.0.1", there.port, KEY)
            await line.send(rank=1)
            await line.send(stop=15)
            assert await there.came.get() == {"rank": 1}
            assert await there.came.get() == {"stop": 15}
            await line.close()
            assert await there.came.get() == "its connection was closed"

    asyncio.run(scene())


def test_the_dialler_refuses_another_key() -> None:
    async def scene() -> None:
        async with served() as there:
            with pytest.raises(WrongKeyError, match="an agent with another key"):
                await dial("127.0.0.1", there.port, secrets.token_bytes(32))

    asyncio.run(scene())


def test_the_first_agent_refuses_a_stranger() -> None:
    """He has read the agent's proof, and cannot sign a frame."""

    async def scene() -> None:
        async with served() as there:
            reader, writer = await asyncio.open_connection("127.0.0.1", there.port)
            writer.write(HELLO + bytes(NONCE))
            await reader.readexactly(NONCE + MAC)
            writer.write((2).to_bytes(4, "big") + bytes(MAC) + b"{}")
            assert await there.came.get() == "it sent a frame that is not signed by the key"
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", there.port)
            writer.write(b"GET / HTTP/1.1\r\n" + bytes(NONCE))
            assert await there.came.get() == "it is not an agent of farref run"
            writer.close()

    asyncio.run(scene())


@pytest.mark.parametrize("wrong", ["altered", "repeated", "dropped", "long"])
def test_a_man_in_the_middle_cannot_change_frames(wrong: str) -> None:
    async def scene() -> None:
        async with served() as there:
            line = await dial("127.0.0.1", there.port, KEY)
            await line.send(rank=1)
            assert await there.came.get() == {"rank": 1}
            sent = Recorder(line)
            await line.send(exit=0)
            await line.send(exit=1)
            one, other = sent.frames
            bad = {
                "altered": one[:-2] + b"1}",
                "repeated": one + one,
                "dropped": other,
                "long": b"\xff" * len(one),
            }
            sent.pass_on(bad[wrong])
            if wrong == "repeated":
                assert await there.came.get() == {"exit": 0}
            error = await there.came.get()
            assert error in {
                "it sent a frame that is not signed by the key",
                "it sent too long a frame",
            }
            await line.close()

    asyncio.run(scene())


class Recorder:
    """Holds the frames back that *line* sends."""

    def __init__(self, line: Line) -> None:
        self.frames: list[bytes] = []
        self.pass_on = line._writer.write
        line._writer.write = self.frames.append  # type: ignore[method-assign, assignment]  # the man in the middle


# --- The note -----------------------------------------------------------------------------


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, note = notes.path_in(tmp_path, "run"), notes.RunNote(("10.0.0.1",), 5, KEY)
    assert notes.read(path) is None
    notes.write(path, note)
    assert path.stat().st_mode & 0o777 == 0o600
    assert notes.read(path) == note
    notes.write(path, notes.RunNote((), 6, KEY))  # the one of a run that was killed is replaced
    assert notes.read(path) == notes.RunNote((), 6, KEY)
    assert list(tmp_path.iterdir()) == [path]
    assert path != notes.path_in(tmp_path, "another run")


def test_a_note_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = notes.path_in(tmp_path, "run")
    notes.write(path, notes.RunNote((), 5, KEY))
    path.chmod(0o640)
    with pytest.raises(LaunchError, match="other users may read"):
        notes.read(path)
    path.chmod(0o600)
    path.write_text("{")
    assert notes.read(path) is None


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"No such file or directory; name a folder .* --shared"):
        notes.write(tmp_path / "no" / "note", notes.RunNote((), 5, KEY))
    assert os.listdir(tmp_path) == []
