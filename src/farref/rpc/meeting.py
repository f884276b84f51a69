"""The point where ranks meet: PyTorch's *init_method*, and the actor system that it leads to.

Rank 0 starts a system, whose name is made from the meeting point. On one machine the others attach
to it by that name; nobody but the user can. On several machines the user gives all of them a key
(``FARREF_KEY``, the path of a file). Then rank 0 opens the system to other hosts, at the address of
the meeting point. Ranks on other machines join it there.

A system of farref has a port of its own. It is the meeting point's, or the next one if torchrun's
agent already listens there.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import url2pathname

from ..actors.base import addresses
from ..actors.base.errors import BaseError
from ..actors.hosting import launched

KEY = launched.KEY


@dataclass(frozen=True, slots=True)
class Meeting:
    """The point where *size* ranks meet; this process is one of them, *rank*.

    A size of 0 means that the number is not fixed: each rank comes and leaves when it likes.
    """

    point: str
    """In words, for errors."""
    rank: int
    size: int
    system: str
    """The name of the actor system."""
    host: str | None = None
    """The address of rank 0's machine; None for a file."""
    port: int = 0

    @property
    def key(self) -> bytes | None:
        """The key, if ranks on other machines may join."""
        return launched.key()

    @property
    def is_open(self) -> bool:
        """Whether ranks on other machines may join."""
        return bool(os.environ.get(KEY)) and self.host is not None and not self._loopback

    @property
    def is_here(self) -> bool:
        """Whether this machine is rank 0's."""
        alone = self.rank == 0 or self.host is None or self._loopback
        return alone or addresses.is_here(self._resolve())

    def wait_for_name(self, seconds: float) -> None:
        """Wait until the name of rank 0's machine resolves. Raises `ValueError`."""
        if self.host is not None:
            self._resolve(seconds)

    def _resolve(self, seconds: float = 0) -> str:
        try:
            return addresses.numeric_within(self.host or "", seconds)
        except BaseError as error:
            raise ValueError(f"{self.point}: {error}") from error

    @property
    def _loopback(self) -> bool:
        return addresses.is_loopback(self._resolve())


def meet(init_method: str, rank: int, size: int | None) -> Meeting:
    """The meeting point of *init_method*. *rank* -1 and *size* None or -1 are looked up there.

    Raises:
        ValueError: the method is malformed, or a variable of the environment or an argument is
            missing or out of range. The text says which. A size may be missing, except for
            ``env://``.
    """
    url = urlsplit(init_method)
    if url.scheme == "env":
        known = {"rank": "RANK", "world_size": "WORLD_SIZE"}
        asked = {name: os.environ.get(variable) for name, variable in known.items()}
        where = "set {} in the environment, as torchrun does, or pass {}= to init_rpc"
    elif url.scheme in {"tcp", "file"}:
        known = {"rank": "?rank=", "world_size": "?world_size="}
        query = parse_qs(url.query)
        asked = {name: query.get(name, [None])[0] for name in known}
        where = "add {} to init_method, or pass {}= to init_rpc"
    else:
        raise ValueError(
            f"init_method must be env://, tcp://host:port or file:///path, not {init_method!r}"
        )

    def number(name: str, given: int | None) -> int:
        value = asked[name] if given in {None, -1} else given
        if value is None:
            raise ValueError(f"the {name} is missing: {where.format(known[name], name)}")
        try:
            return int(value)
        except ValueError:
            raise ValueError(f"{known[name]} must be a number, not {value!r}") from None

    rank = number("rank", rank)
    if size in {None, -1} and asked["world_size"] is None and url.scheme != "env":
        size = 0
        if rank < 0:
            raise ValueError(f"rank {rank}: a rank is 0 or more")
    else:
        size = number("world_size", size)
        if size < 1 or not 0 <= rank < size:
            raise ValueError(f"rank {rank} of {size} ranks: a rank is from 0 to world_size - 1")
    if url.scheme == "file":
        path = url2pathname(url.netloc + url.path)
        if not path:
            raise ValueError(f"{init_method!r} names no file; write file:///path")
        path = str(Path(path).resolve())
        return Meeting(f"the file {path}", rank, size, _system_at("file", path))
    host, port = _host_and_port(init_method)
    run = [os.environ.get(f"TORCHELASTIC_{each}", "") for each in ("RUN_ID", "RESTART_COUNT")]
    taken = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    name = _system_at("tcp", host, str(port), *run)
    return Meeting(f"{host}:{port}", rank, size, name, host, port + taken)


def _host_and_port(init_method: str) -> tuple[str, int]:
    url = urlsplit(init_method)
    if url.scheme == "tcp":
        try:
            host, port = url.hostname, url.port
        except ValueError as error:
            raise ValueError(f"init_method {init_method!r}: {error}") from None
        if not host or not port:
            raise ValueError(f"init_method must be tcp://host:port, not {init_method!r}")
        return host, port
    given = {each: os.environ.get(each, "") for each in ("MASTER_ADDR", "MASTER_PORT")}
    for variable, value in given.items():
        if not value:
            raise ValueError(
                f"{variable} is not set; ranks meet at MASTER_ADDR and MASTER_PORT, or at the "
                "init_method of the rpc_backend_options"
            )
    if not given["MASTER_PORT"].isdigit() or not 0 < int(given["MASTER_PORT"]) < 65536:
        raise ValueError(f"MASTER_PORT must be a port, not {given['MASTER_PORT']!r}")
    return given["MASTER_ADDR"], int(given["MASTER_PORT"])


def _system_at(*point: str) -> str:
    return f"rpc-{hashlib.sha256(repr(point).encode()).hexdigest()[:12]}"
