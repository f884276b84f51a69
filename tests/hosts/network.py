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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE_NEWNET = 0x40000000
HOSTS = "ABC"


def address(host: str) -> str:
    return f"10.77.{HOSTS.index(host) + 1}.1"


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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


class Network:
    """The namespaces, for one test session."""

    def __init__(self) -> None:
        self._prefix = f"farref-{os.getpid()}-{uuid.uuid4().hex[:4]}"
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def name(self, host: str) -> str:
        return f"{self._prefix}-{host}"

    def make(self) -> None:
        sweep()
        router = self.name("router")
        run("ip", "netns", "add", router)
        self._in(router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for host in HOSTS:
            me, gateway = self.name(host), address(host)[:-1] + "254"
            run("ip", "netns", "add", me)
            run(*f"ip link add net0 netns {me} type veth peer name to{host} netns {router}".split())
            run(*f"ip -n {me} addr add {address(host)}/24 dev net0".split())
            run(*f"ip -n {router} addr add {gateway}/24 dev to{host}".split())
            for where, link in ((me, "lo"), (me, "net0"), (router, f"to{host}")):
                run(*f"ip -n {where} link set {link} up".split())
            run(*f"ip -n {me} route add default via {gateway}".split())
        self._in(router, "nft", "add table ip faults")
        hook = "{ type filter hook forward priority 0; }"
        self._in(router, "nft", f"add chain ip faults forward {hook}")

    def remove(self) -> None:
        for host in (*HOSTS, "router"):
            command = ["ip", "netns", "del", self.name(host)]
            subprocess.run(command, capture_output=True, check=False)
        os.close(self._home)

    @staticmethod
    def _in(namespace: str, *command: str) -> None:
        run("ip", "netns", "exec", namespace, *command)

    def command(self, host: str) -> list[str]:
        """The words that make the rest of a command run on *host*."""
        return ["ip", "netns", "exec", self.name(host)]

    @contextlib.contextmanager
    def on(self, host: str) -> Iterator[None]:
        """In this context, this thread and all threads and processes it starts are on *host*."""
        with open(f"/run/netns/{self.name(host)}") as there:
            _enter(there.fileno())
        try:
            yield
        finally:
            _enter(self._home)

    # ---- faults of links

    def cut(self, one: str, *others: str) -> None:
        """No packet passes between *one* and any of *others* (by default all), until `heal`."""
        for other in others or [host for host in HOSTS if host != one]:
            for source, target in ((one, other), (other, one)):
                self._rule(source, target, "drop")

    def lose(self, percent: int) -> None:
        """The network loses *percent* of all packets, until `heal`."""
        rule = f"numgen random mod 100 < {percent} drop"
        self._in(self.name("router"), "nft", f"add rule ip faults forward {rule}")

    def _rule(self, source: str, target: str, verdict: str) -> None:
        rule = f"ip saddr {address(source)} ip daddr {address(target)} {verdict}"
        self._in(self.name("router"), "nft", f"add rule ip faults forward {rule}")

    def heal(self) -> None:
        """Every packet passes again."""
        self._in(self.name("router"), "nft", "flush chain ip faults forward")

    def processes(self, host: str) -> list[int]:
        """All processes on *host*."""
        return [int(pid) for pid in run("ip", "netns", "pids", self.name(host)).split()]


class Pair:
    """Two hosts with given addresses, and a cable between them."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses
        self._prefix = f"farref-{os.getpid()}-{uuid.uuid4().hex[:4]}"

    def make(self) -> None:
        sweep()
        one, other = names = [f"{self._prefix}-{name}" for name in self._addresses]
        for name in names:
            run("ip", "netns", "add", name)
        run(*f"ip link add net0 netns {one} type veth peer name net0 netns {other}".split())
        for name, where in zip(names, self._addresses.values(), strict=True):
            run(*f"ip -n {name} addr add {where}/24 dev net0".split())
            for link in ("lo", "net0"):
                run(*f"ip -n {name} link set {link} up".split())

    def remove(self) -> None:
        for name in self._addresses:
            command = ["ip", "netns", "del", f"{self._prefix}-{name}"]
            subprocess.run(command, capture_output=True, check=False)

    def command(self, name: str) -> list[str]:
        """The words that make the rest of a command run on the host *name*."""
        return ["ip", "netns", "exec", f"{self._prefix}-{name}"]


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
