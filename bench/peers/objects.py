"""The peers with one object in a process of its own, and a proxy for it: what Python has for that.

``multiprocessing.Manager``, RPyC and Dask's actors. Such an object has no references that travel
on, so these peers do calls and fetches only.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from abc import abstractmethod
from contextlib import suppress
from multiprocessing.managers import BaseManager
from typing import TYPE_CHECKING, Any

from ..peer import PATIENCE, Peer, timed, until
from ..things import added_up, array, checked, echo, some_bytes
from . import NotOffered

if TYPE_CHECKING:
    from collections.abc import Callable

COMPRESSED_BYTES = 100_000_000
"""RPyC takes 20 seconds for a larger array."""


TOGETHER = 100
"""RPyC sends a message for each proxy that ends, and does not wait for the answer. After some
hundreds of them the sockets are full: each end waits until the other one reads."""


class Server:
    def echo(self, number: int) -> int:
        return echo(number)

    def array(self, size: int) -> Any:
        """See `things.array`: a new one each time, as nothing here holds an earlier one."""
        return array(size)

    def some_bytes(self, size: int) -> bytes:
        return some_bytes(size)


class ObjectPeer(Peer):
    """A peer that has a proxy for a `Server`."""

    proxy: Any

    def call(self, amount: int, _: int) -> float:
        return timed(amount, self.ask)

    method = call
    """A call by a proxy is one of a method."""

    @abstractmethod
    def ask(self, number: int) -> Any:
        """One round trip."""

    def value(self, amount: int, point: int) -> float:
        return self._fetch(amount, checked, point)

    def value_read(self, amount: int, point: int) -> float:
        return self._fetch(amount, added_up, point)

    def _fetch(self, amount: int, look: Callable[[Any, int], None], size: int) -> float:
        return timed(amount, lambda _: look(self.array(size), size))

    def array(self, size: int) -> Any:
        """A copy of a new array of the object's."""
        return self.proxy.array(size)

    def fetch_bytes(self, amount: int, point: int) -> float:
        return timed(amount, lambda _: checked(self.some_bytes(point), point))

    def some_bytes(self, size: int) -> Any:
        """A copy of a `bytes` object of the other process."""
        return self.proxy.some_bytes(size)


class Manager(ObjectPeer):
    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.manager = _Manager()
        self.manager.start()
        self.proxy = self.manager.Server()  # type: ignore[attr-defined]  # it was registered

    def close(self) -> None:
        self.manager.shutdown()

    def ask(self, number: int) -> Any:
        return self.proxy.echo(number)


class _Manager(BaseManager):
    """A manager that makes a `Server`."""


_Manager.register("Server", Server)


class RPyC(ObjectPeer):
    """RPyC, with a server of one thread for each connection, as in its documentation.

    Its objects stay where they are; its `obtain` copies one. It compresses what it sends.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        import rpyc  # noqa: PLC0415 (optional)

        self.folder = tempfile.TemporaryDirectory(prefix="farref-bench-")
        path = f"{self.folder.name}/socket"
        spawn = multiprocessing.get_context("spawn")
        self.process = spawn.Process(target=_serve_rpyc, args=(path,), daemon=True)
        self.process.start()
        patient = {"sync_request_timeout": PATIENCE}

        def connects() -> bool:
            with suppress(OSError):
                self.connection = rpyc.utils.factory.unix_connect(path, config=patient)
            return hasattr(self, "connection")

        until(connects)
        self.proxy = self.connection.root.echo
        self.later: Callable[[int], Any] = rpyc.async_(self.proxy)

    def close(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join(10)
        self.folder.cleanup()

    def ask(self, number: int) -> Any:
        return self.proxy(number)

    def some_bytes(self, size: int) -> Any:
        return self.connection.root.some_bytes(size)

    def in_flight(self, amount: int, _: int) -> float:
        return timed(1, lambda _: [each.value for each in map(self.later, range(amount))])

    methods_in_flight = in_flight

    def method(self, amount: int, _: int) -> float:
        """Calls of a method of a netref, which looks the method up at its object each time."""
        root = self.connection.root
        return timed(amount, lambda number: root.echo(number))  # noqa: PLW0108 (not only once)

    def _fetch(self, amount: int, look: Callable[[Any, int], None], size: int) -> float:
        """Copies of arrays that the server holds for this process, as `obtain` makes them."""
        from rpyc.utils.classic import obtain  # noqa: PLC0415 (optional)

        if size > COMPRESSED_BYTES:
            raise NotOffered("it compresses arrays, and that took too long")
        arrays = [self.connection.root.array(size) for _ in range(amount)]
        seconds = timed(amount, lambda number: look(obtain(arrays[number]), size))
        while arrays:
            del arrays[-TOGETHER:]
            self.ask(0)  # this reads the answers
        return seconds


def _serve_rpyc(path: str) -> None:
    import rpyc  # noqa: PLC0415 (optional)
    from rpyc.utils.server import ThreadedServer  # noqa: PLC0415 (optional)

    works = (Server.echo, Server.array, Server.some_bytes)
    exposed = {f"exposed_{work.__name__}": work for work in works}
    service = type("Service", (rpyc.Service,), exposed)
    copies = {"allow_pickle": True}
    ThreadedServer(service(), socket_path=path, protocol_config=copies).start()


class Dask(ObjectPeer):
    """An actor of Dask's, on a worker process of a local cluster."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        from distributed import Client  # noqa: PLC0415 (optional)

        start: Any = Client  # it has no types
        self.client = start(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        )
        self.proxy = self.client.submit(Server, actor=True).result(PATIENCE)

    def close(self) -> None:
        self.client.shutdown()

    def ask(self, number: int) -> Any:
        return self.proxy.echo(number).result()

    def in_flight(self, amount: int, _: int) -> float:
        return timed(1, lambda _: [each.result() for each in map(self.proxy.echo, range(amount))])

    methods_in_flight = in_flight

    def array(self, size: int) -> Any:
        return self.proxy.array(size).result()

    def some_bytes(self, size: int) -> Any:
        return self.proxy.some_bytes(size).result()
