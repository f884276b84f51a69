"""By which name an HTTP request asks for a server of ours.

A page of another site can make its own name resolve to this address. Its scripts then reach the
server as their own, but their requests carry that name.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable

LOOPBACK = "127.0.0.1"
HOST = re.compile(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^:\[\]]+))(?::[0-9]*)?")


def are_ours(hosts: Iterable[str], reached: str, names: Iterable[str]) -> bool:
    """Whether each of these headers ``Host`` names the address that was *reached*, or a known name.

    Known are *names* and ``localhost``, with any port.
    """
    known = {"localhost", reached.removeprefix("::ffff:").lower(), *map(str.lower, names)}
    found = (HOST.fullmatch(host.lower()) for host in hosts)
    return all(each is not None and (each[1] or each[2]) in known for each in found)


def url(listening: socket.socket) -> str:
    """The address of the server at this socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
