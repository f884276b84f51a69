"""The connections of strangers to the pages: who has not shown the token. A crowd keeps nobody out.

Anybody who reaches the port can open connections and send nothing. Each takes a descriptor of the
process, which also needs some for its system. So only `MOST` are kept: the one that came first goes
when another comes. A browser that was hung up on so connects again.
"""

from __future__ import annotations

from typing import Any

MOST = 64
AT_ONCE = 32
"""Connections that are accepted before anything is read."""


class Strangers:
    def __init__(self) -> None:
        self._all: dict[Any, Any] = {}
        """By the address of the other end; the latest is the last one."""

    def came(self, transport: Any) -> None:
        self._all[self._who(transport)] = transport
        if len(self._all) > MOST:
            self._all.pop(next(iter(self._all))).abort()

    def left(self, transport: Any) -> None:
        if self._all.get(self._who(transport)) is transport:
            del self._all[self._who(transport)]

    def known(self, client: Any) -> None:
        """The one at this address has shown the token."""
        self._all.pop(client, None)

    @staticmethod
    def _who(transport: Any) -> Any:
        return tuple((transport.get_extra_info("peername") or ())[:2])

    def meeting(self, protocol: Any) -> Any:
        """The class *protocol* of a server, for connections that are kept here meanwhile."""
        strangers = self

        class Met(protocol):  # type: ignore[misc]  # an optional package's class
            def connection_made(self, transport: Any) -> None:
                strangers.came(transport)
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                strangers.left(self.transport)
                super().connection_lost(exc)

        return Met
