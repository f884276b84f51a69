"""A tunnel of TCP connections between two network namespaces, as ``ssh -L`` and ``-R`` make them.

``python tunnel.py NAMESPACE ADDRESS PORT NAMESPACE ADDRESS PORT`` listens at the first three, and
connects to the last three for each connection.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import sys
import threading

CLONE_NEWNET = 0x40000000


def enter(namespace: str) -> None:
    """This thread is in *namespace* from now on."""
    with open(f"/run/netns/{namespace}", encoding="ascii") as there:
        if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "cannot enter the namespace")


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until the end."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(guest: socket.socket, namespace: str, address: tuple[str, int]) -> None:
    """Connect *guest* to *address*."""
    enter(namespace)
    try:
        host = socket.create_connection(address, 10)
    except OSError:
        guest.close()
        return
    host.settimeout(None)
    with guest, host:
        back = threading.Thread(target=pump, args=(host, guest), daemon=True)
        back.start()
        pump(guest, host)
        back.join()


def main() -> None:
    """Run the tunnel until this process is ended."""
    here, address, port, there, to_address, to_port = sys.argv[1:]
    enter(here)
    with socket.create_server((address, int(port))) as server:
        print("ready", flush=True)  # noqa: T201 (its reader waits for it)
        while True:
            guest, _ = server.accept()
            arguments = (guest, there, (to_address, int(to_port)))
            threading.Thread(target=serve, args=arguments, daemon=True).start()


if __name__ == "__main__":
    main()
