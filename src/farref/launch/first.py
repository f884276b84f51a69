"""The agent of the first node: it gathers the others, runs the program, and decides the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable
from typing import Any

import psutil

from ..actors.base import addresses
from ..actors.hosting import directory, launched, versions
from . import notes
from .children import Child
from .connections import Line, LineError, answer, listener
from .errors import FAILED, LaunchError
from .joining import free_port
from .options import SIGNALS, Options, say

LOOK = 0.05
"""Seconds between two looks for the program's system."""
FAREWELL = 10.0
"""Seconds that the others have to end, once they have been told."""
STRANGERS = 64
"""Connections that may be unproved at once."""


class First:
    """The first agent. Everything runs in one event loop."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._others: dict[int, Line] = {}
        """The connections of the nodes that are there, by number."""
        self._all = asyncio.Event()
        """All nodes are there."""
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets an error if the run cannot begin."""
        self._program: Child | None = None
        self._why = ""
        """The reason of the end, if it is not the program's own."""
        self._code: int | None = None
        """The exit code of all agents, if the program's does not count."""
        self._signalled = False
        self._up: dict[str, Any] | None = None
        """The address of the program's system, while it runs."""
        self._ended = False
        """The others have been told the end."""
        self._empty = asyncio.Event()
        """And have all gone."""
        self._unproved = 0

    async def run(self) -> int:
        """Run the program on all nodes. Returns the exit code. Raises `LaunchError`."""
        options = self._options
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._got, number, 0)
        listening = listener(options.bind, 0 if options.note else options.launch.port)
        server = await asyncio.start_server(self._came, sock=listening)
        port: int = listening.getsockname()[1]
        if options.note:
            notes.write(options.note, notes.RunNote(own_addresses(), port, options.key))
        try:
            return await self._run(port)
        except LaunchError as error:
            self._why = str(error)
            self._code = error.code
            raise
        finally:
            server.close()
            await self._part(FAILED if self._code is None else self._code)
            if options.note:
                options.note.unlink(missing_ok=True)

    async def _run(self, port: int) -> int:
        await self._gather(port)
        host, at = self._place()
        hosts = 1 if self._options.no_kill else self._options.nnodes
        env = {
            **os.environ,
            **launched.environment(hosts, host, at, self._options.key, self._options.registry),
        }
        self._program = await Child.start(self._options.words, env)
        if self._over.done():  # just now
            self._program.kill()
            await self._program.wait()
            self._over.result()
        looking = asyncio.create_task(self._look(host, at))
        try:
            code = await self._program.wait()
        finally:
            looking.cancel()
        if self._code is None:
            self._code = code
        return self._code

    async def _gather(self, port: int) -> None:
        """Wait until all nodes are there. Raises `LaunchError`."""
        seconds = self._options.timeout
        there = asyncio.create_task(self._all.wait())
        try:
            either: set[asyncio.Future[Any]] = {there, self._over}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there.cancel()
        if self._over.done():
            self._over.result()
        elif not self._all.is_set():
            late = [str(n) for n in range(1, self._options.nnodes) if n not in self._others]
            raise LaunchError(
                f"of {self._options.nnodes} nodes {', '.join(late)} did not come to port {port} of"
                f" the first node within {seconds:g} s; see whether farref run was started there,"
                " and raise --timeout if that takes longer"
            )

    def _place(self) -> tuple[str, int]:
        """The address for the program's system: the one at which the others reached this node."""
        options = self._options
        host = options.host or options.bind or self._others[min(self._others)].local
        return host, options.port or free_port(host)

    # ---- the others

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._unproved >= STRANGERS:
            writer.close()
            return
        self._unproved += 1
        try:
            line, hello = await answer(reader, writer, self._options.key)
        except (LineError, LaunchError, ValueError):
            writer.close()  # a stranger
            return
        finally:
            self._unproved -= 1
        with contextlib.suppress(LineError):
            rank = await self._admit(line, hello)
            if rank is not None:
                await self._serve(rank, line)
        await line.close()

    async def _admit(self, line: Line, hello: dict[str, Any]) -> int | None:
        """Welcome or refuse a node; returns its number, or None. Raises `LineError`."""
        options, rank = self._options, hello["rank"]
        if hello["run"] != options.launch.run:
            await line.send(refused="this is another run", again=True)
            return None
        wrong = versions.conflict(hello["versions"], f"node {rank} at {line.peer}")
        if hello["nnodes"] != options.nnodes:
            wrong = (
                f"node {rank} at {line.peer} was started for {hello['nnodes']} nodes, and the"
                f" first one for {options.nnodes}; give all the same --nnodes"
            )
        elif rank in self._others:
            wrong = (
                f"two nodes have the number {rank}, at {self._others[rank].peer} and {line.peer};"
                " give each its own --node-rank"
            )
        if wrong:
            await line.send(refused=wrong, again=False)
            if self._program is None:
                self._fail(LaunchError(wrong))
            return None
        self._others[rank] = line
        await line.send(welcome=rank)
        if self._up is not None:  # a node that was lost, and came again
            await line.send(up=self._up)
        if len(self._others) == options.nnodes - 1:
            self._all.set()
        return int(rank)

    async def _serve(self, rank: int, line: Line) -> None:
        """Take the messages of node *rank*, until its connection ends."""
        why = ""
        try:
            while True:
                said = await line.receive()
                if "stop" in said:
                    self._got(said["stop"], rank)
                elif "failed" in said:
                    why = said["failed"]
                elif "left" in said:
                    why = f"it got {signal.Signals(said['left']).name}"
        except LineError as error:
            why = why or str(error)
        finally:
            del self._others[rank]
            if self._ended and not self._others:
                self._empty.set()
        if not self._ended:
            self._lost(rank, line, why)

    def _lost(self, rank: int, line: Line, why: str) -> None:
        text = f"node {rank} ({line.peer}) is lost: {why}"
        if self._program is None:
            self._fail(LaunchError(text))
        elif self._options.no_kill:
            say(f"{text}; the program goes on")
        elif self._code is None:
            self._why, self._code = text, FAILED
            say(text)
            self._program.stop(signal.SIGTERM)

    # ---- the end

    def _got(self, number: int, rank: int) -> None:
        """The node *rank* got a signal that ends the run. This node's second one kills."""
        name = signal.Signals(number).name
        if self._program is None:
            self._fail(LaunchError(f"node {rank} got {name}", 128 + number))
        elif rank:
            say(f"node {rank} got {name}: the program gets it")
            self._program.stop(number)
        elif self._signalled:
            self._program.kill()
        else:
            self._signalled = True
            self._program.stop(number)

    def _fail(self, error: LaunchError) -> None:
        """End the run before its program has begun."""
        if not self._over.done():
            self._over.set_exception(error)

    async def _part(self, code: int) -> None:
        """Tell the others the exit code, and wait until they have ended."""
        self._ended = True
        telling: list[Awaitable[None]] = [
            line.send(exit=code, why=self._why) for line in self._others.values()
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await asyncio.gather(*telling, return_exceptions=True)
                if self._others:
                    await self._empty.wait()
        for rank, line in list(self._others.items()):
            say(f"node {rank} ({line.peer}) did not end within {FAREWELL:g} s")
            await line.close()

    # ---- the program's system

    async def _look(self, host: str, port: int) -> None:
        """Tell the others of each system that the program starts at *host* and *port*."""
        folder = directory.folder()
        seen, name = -1, None
        while True:
            now = folder.stat().st_mtime_ns
            if now != seen:
                found = directory.at(host, port)
                if found is not None and found != name:
                    entry = directory.find(found)
                    registry = entry.get("registry")
                    first = f"{registry}/{found}" if registry else addresses.at(host, port)
                    self._up = {"first": first, "path": entry.get("path", [])}
                    for line in list(self._others.values()):
                        with contextlib.suppress(LineError):
                            await line.send(up=self._up)
                elif found is None:
                    self._up = None
                name, seen = found, now
            await asyncio.sleep(LOOK)


def own_addresses() -> tuple[str, ...]:
    """The addresses of this machine, those for itself excepted."""
    interfaces = psutil.net_if_addrs().values()
    found = [one.address for each in interfaces for one in each if one.family == socket.AF_INET]
    return tuple(one for one in found if not addresses.is_loopback(one))
