"""The connections of strangers to the pages: who has not shown the token. A crowd keeps nobody out.

Anybody who reaches the port can open connections and send nothing. Each takes a descriptor of the
process, which also needs some for its system. So only `MOST` are kept: the one that came first goes
when another comes. A browser that was hung up on so connects again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST = 64
AT_ONCE = 32
"""Connections that are accepted before anything is read."""


class Strangers:
    """Those that are connected."""

    def __init__(self) -> None:
        self._all: dict[Any, Any] = {}
        """By the address of the other end; the latest is the last one."""

    def came(self, transport: Any) -> None:
        """Somebody has connected."""
        self._all[self._who(transport)] = transport
        if len(self._all) > MOST:
            self._all.pop(next(iter(self._all))).abort()

    def left(self, transport: Any) -> None:
        """A connection has ended."""
        if self._all.get(self._who(transport)) is transport:
            del self._all[self._who(transport)]

    def known(self, client: Any) -> None:
        """The one at this address has shown the token."""
        self._all.pop(client, None)

    @staticmethod
    def _who(transport: Any) -> Any:
        return tuple((transport.get_extra_info("peername") or ())[:2])

    def meeting(self, protocol: Callable[..., Any]) -> Callable[..., Any]:
        """The class *protocol* of a server, for connections that are kept here meanwhile."""

        def made(*args: Any, **options: Any) -> Any:
            return _Met(self, protocol(*args, **options))

        return made


class _Met:
    """The server's protocol of one connection. Whatever comes is passed on to it."""

    def __init__(self, strangers: Strangers, protocol: Any) -> None:
        self._strangers = strangers
        self._transport: Any = None
        self._protocol = protocol
        self.data_received = protocol.data_received
        self.eof_received = protocol.eof_received
        self.pause_writing = protocol.pause_writing
        self.resume_writing = protocol.resume_writing

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._strangers.came(transport)
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._strangers.left(self._transport)
        self._protocol.connection_lost(exc)
