"""The agent of each node but the first: it makes the node a host of the program's system.

It ends when the first agent tells it the exit code, or is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Any

from ..actors.hosting import launched, versions
from . import notes
from .children import GRACE, Child
from .connections import Line, LineError, WrongKeyError, dial
from .errors import LaunchError
from .joining import ErrorPipe, command, free_port
from .options import SIGNALS, Options, say

AGAIN = 0.2
"""Seconds between two tries to reach the first node."""
NEWS = 3.0
"""Seconds in which the first node may tell why the program's system has ended."""
LEAVING = 3.0
"""Seconds that a member has to end with the system, before it is told to."""


class Other:
    """The agent. Everything runs in one event loop."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._key = options.key
        self._line: Line | None = None
        self._member: Child | None = None
        self._watching: asyncio.Task[None] | None = None
        self._signal = 0
        """The first signal that this agent got."""
        self._asking: asyncio.Task[None] | None = None
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done if this node ends without the first one's word."""

    async def run(self) -> int:
        """Take part. Returns the exit code of the run. Raises `LaunchError`."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._got, number)
        taking = asyncio.create_task(self._take_part())
        try:
            either: set[asyncio.Future[Any]] = {taking, self._left}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return taking.result() if taking.done() else 128 + self._signal
        finally:
            taking.cancel()
            with contextlib.suppress(asyncio.CancelledError, LaunchError):
                await taking
            await self._end_member()
            if self._line is not None:
                await self._line.close()

    async def _take_part(self) -> int:
        line = self._line = await self._reach()
        try:
            while True:
                said = await line.receive()
                if "up" in said:
                    await self._join(said["up"])
                elif "exit" in said:
                    if said["why"]:
                        say(said["why"])
                    return int(said["exit"])
        except LineError as error:
            raise LaunchError(f"the first node ({line.peer}) is lost: {error}") from error

    # ---- the first node

    async def _reach(self) -> Line:
        """The connection to the first agent, which has welcomed this node. Raises `LaunchError`."""
        options = self._options
        end = asyncio.get_running_loop().time() + options.timeout
        why = "it has not begun"
        while asyncio.get_running_loop().time() < end:
            try:
                line = await self._dial()
            except OSError as error:
                why = str(error)
            else:
                try:
                    return await self._greet(line)
                except LineError as error:
                    why = str(error)
                    await line.close()
            await asyncio.sleep(AGAIN)
        where = f"{options.launch.first}:{options.launch.port}"
        if options.note:
            where = f"an address in {options.note}, which the first node writes"
        raise LaunchError(
            f"the first node did not answer at {where} within {options.timeout:g} s ({why}); see"
            " whether farref run was started there"
            + ("; if the nodes do not share that folder, give --shared" if options.note else "")
        )

    async def _dial(self) -> Line:
        """A connection to the first agent.

        Raises:
            OSError: it is not there.
            WrongKeyError: at its address is another one.
        """
        options = self._options
        if not options.note:
            return await dial(options.launch.first, options.launch.port, options.key)
        note = notes.read(options.note)
        if note is None:
            raise FileNotFoundError("it has not written that file")
        self._key = note.key
        # At once: of its networks, this node may not be on each.
        tries = [asyncio.create_task(dial(each, note.port, note.key)) for each in note.addresses]
        try:
            for one in asyncio.as_completed(tries):
                with contextlib.suppress(OSError, WrongKeyError):
                    return await one
        finally:
            for each in tries:
                each.cancel()
        raise ConnectionError(f"nobody answered at {', '.join(note.addresses)}:{note.port}")

    async def _greet(self, line: Line) -> Line:
        launch = self._options.launch
        await line.send(
            rank=launch.node_rank, nnodes=launch.nnodes, run=launch.run, versions=versions.mine()
        )
        try:
            async with asyncio.timeout(self._options.timeout):
                said = await line.receive()
        except TimeoutError as error:
            raise LineError("it did not answer") from error
        if "refused" in said:
            if said["again"]:
                raise LineError(said["refused"])
            await line.close()
            raise LaunchError(said["refused"])
        return line

    # ---- the member

    async def _join(self, up: dict[str, Any]) -> None:
        """Start the member that joins the program's system."""
        await self._end_member()
        options, line = self._options, self._line
        assert line is not None  # noqa: S101 - it brought this message
        host = options.host or line.local
        how = {
            "first": up["first"],
            "path": up["path"],
            "host": host,
            "port": options.port or free_port(host),
            "capabilities": {**options.capabilities, launched.NODE: options.rank},
        }
        env, report = {**os.environ, launched.KEY: self._key.hex()}, ErrorPipe()
        with report.given() as theirs:
            self._member = await Child.start(command(how, theirs), env, report=theirs)
        self._watching = asyncio.create_task(self._watch(self._member, report))

    async def _watch(self, member: Child, report: ErrorPipe) -> None:
        """Wait for the member's end. If it fails, tell the first node."""
        with contextlib.closing(report):
            code, why = await member.wait(), report.taken()
        if not code or self._line is None:
            return
        await asyncio.sleep(NEWS)  # mostly the program has ended otherwise, and its code comes
        with contextlib.suppress(LineError):
            await self._line.send(failed=why or f"its part of the system ended with {code}")
            await self._line.close()

    async def _end_member(self) -> None:
        """Wait until the member has ended by itself, with the system; or end it."""
        if self._member is None or self._watching is None:
            return
        waiting = asyncio.ensure_future(self._member.wait())
        done, _ = await asyncio.wait({waiting}, timeout=LEAVING)
        if not done:
            self._member.stop(signal.SIGTERM)
            await waiting
        self._watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watching
        self._member = self._watching = None

    # ---- signals

    def _got(self, number: int) -> None:
        """Ask the first node to end the run; the second time, or without an answer, leave."""
        if self._signal or self._line is None:
            self._signal = self._signal or number
            if not self._left.done():
                self._left.set_result(None)
            return
        self._signal = number
        self._asking = asyncio.create_task(self._ask_to_end(self._line, number))

    async def _ask_to_end(self, line: Line, number: int) -> None:
        alone = self._options.no_kill
        with contextlib.suppress(LineError):
            await line.send(**{"left" if alone else "stop": number})
            await asyncio.sleep(0 if alone else GRACE + LEAVING)
        if not self._left.done():
            self._left.set_result(None)
