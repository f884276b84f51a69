"""Several hosts on one machine: network namespaces, and a router between them.

::

    A 10.77.1.1 --- 10.77.1.254
    B 10.77.2.1 --- 10.77.2.254   router
    C 10.77.3.1 --- 10.77.3.254

Nothing of it is in the machine's own namespace. The router makes all faults of links.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE_NEWNET = 0x40000000
HOSTS = "ABC"
ROUTER = "10.77.1.254"
"""The router's address, as host A sees it."""


def address(host: str) -> str:
    return f"10.77.{HOSTS.index(host) + 1}.1"


def run(*command: str, text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@functools.cache
def why_not() -> str:
    """Why there can be no namespaces here; empty if there can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.getuid() != 0:
        return "only root can make network namespaces"
    if shutil.which("ip") is None:
        return "there is no `ip` (Debian: iproute2)"
    name = f"farref-{os.getpid()}-try"
    try:
        run("ip", "netns", "add", name)
        try:
            run("ip", "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        finally:
            run("ip", "netns", "del", name)
    except AssertionError as error:
        return f"no network namespaces here: {error}"
    return "" if shutil.which("nft") else "there is no `nft` (Debian: nftables)"


class Namespaces:
    """Network namespaces, one for each of *hosts*, and links between them."""

    def __init__(self, *hosts: str) -> None:
        self._hosts = hosts
        self._prefix = f"farref-{os.getpid()}-{uuid.uuid4().hex[:4]}"

    def __enter__(self) -> Self:
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def make(self) -> None:
        sweep()
        for host in self._hosts:
            run("ip", "netns", "add", self.name(host))
            self.run(host, "ip link set lo up")

    def remove(self) -> None:
        for host in self._hosts:
            command = ["ip", "netns", "del", self.name(host)]
            subprocess.run(command, capture_output=True, check=False)

    def name(self, host: str) -> str:
        return f"{self._prefix}-{host}"

    def command(self, host: str) -> list[str]:
        """The words that make the rest of a command run on *host*."""
        return ["ip", "netns", "exec", self.name(host)]

    def run(self, host: str, line: str) -> None:
        """Run a command without quotes on *host*."""
        run(*self.command(host), *line.split())

    def link(self, *ends: tuple[str, str, str]) -> None:
        """Connect two hosts. Each end is a host, its new device and its address on that."""
        (one, device, _), (other, there, _) = ends
        at = f"netns {self.name(one)} type veth peer name {there} netns {self.name(other)}"
        run(*f"ip link add {device} {at}".split())
        for host, device, address in ends:
            self.run(host, f"ip addr add {address}/24 dev {device}")
            self.run(host, f"ip link set {device} up")


class Network(Namespaces):
    """The hosts A, B and C, and the router, for one test session."""

    def __init__(self) -> None:
        super().__init__(*HOSTS, "router")

    def make(self) -> None:
        super().make()
        run(*self.command("router"), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for host in HOSTS:
            gateway = address(host)[:-1] + "254"
            self.link((host, "net0", address(host)), ("router", f"to{host}", gateway))
            self.run(host, f"ip route add default via {gateway}")
        self.run("router", "nft add table ip faults")
        hook = "{ type filter hook forward priority 0; }"
        self.run("router", f"nft add chain ip faults forward {hook}")

    @contextlib.contextmanager
    def on(self, host: str) -> Iterator[None]:
        """In this context, this thread and all threads and processes it starts are on *host*."""
        with open("/proc/thread-self/ns/net") as here:
            with open(f"/run/netns/{self.name(host)}") as there:
                _enter(there.fileno())
            try:
                yield
            finally:
                _enter(here.fileno())

    # ---- faults of links

    def cut(self, one: str, *others: str) -> None:
        """No packet passes between *one* and any of *others* (by default all), until `heal`."""
        for other in others or [host for host in HOSTS if host != one]:
            for source, target in ((one, other), (other, one)):
                self._rule(f"ip saddr {address(source)} ip daddr {address(target)} drop")

    def lose(self, percent: int) -> None:
        """The network loses *percent* of all packets, until `heal`."""
        self._rule(f"numgen random mod 100 < {percent} drop")

    def _rule(self, rule: str) -> None:
        self.run("router", f"nft add rule ip faults forward {rule}")

    def heal(self) -> None:
        """Every packet passes again."""
        self.run("router", "nft flush chain ip faults forward")

    def processes(self, host: str) -> list[int]:
        """All processes on *host*."""
        return [int(pid) for pid in run("ip", "netns", "pids", self.name(host)).split()]


class Pair(Namespaces):
    """Two hosts with given addresses, and a cable between them."""

    def __init__(self, addresses: dict[str, str]) -> None:
        super().__init__(*addresses)
        self._addresses = addresses

    def make(self) -> None:
        super().make()
        self.link(*((host, "net0", address) for host, address in self._addresses.items()))


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # `os.setns` is Python 3.12's
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot enter the namespace")


def sweep() -> None:
    """Remove the namespaces of test sessions that were killed."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0]
        parts = name.split("-")
        if parts[0] == "farref" and len(parts) == 4 and not Path("/proc", parts[1]).exists():
            run("ip", "netns", "del", name)
