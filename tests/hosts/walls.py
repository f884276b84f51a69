"""Hosts behind walls: a container with one published port, and a machine at the end of a tunnel.

::

    first 10.79.0.1 --- 10.79.0.2 machine 172.30.0.1 --- 172.30.0.2 box
      lets 22, 1900, 1901 in           NAT: 31900 is the box's 1900
                                    lets the box out to port 1900 only

    far                             no link at all
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import uuid
from pathlib import Path

from .network import run, sweep

FIRST = "10.79.0.1"
MACHINE = "10.79.0.2"
PUBLISHED = 31900
NAMES = {FIRST: "first.test", MACHINE: "machine.test"}
AT_MACHINE = f"""
table ip nat {{
    chain before {{
        type nat hook prerouting priority -100
        tcp dport {PUBLISHED} dnat to 172.30.0.2:1900
    }}
    chain after {{
        type nat hook postrouting priority 100
        oifname tofirst masquerade
    }}
}}
table inet wall {{
    chain through {{
        type filter hook forward priority 0; policy drop
        ct state established,related accept
        ip saddr 172.30.0.2 ip daddr {FIRST} tcp dport 1900 accept
        ip daddr 172.30.0.2 tcp dport 1900 accept
    }}
}}
"""
AT_FIRST = """
table inet wall {
    chain into {
        type filter hook input priority 0; policy drop
        iifname lo accept
        ct state established,related accept
        meta l4proto ipv6-icmp accept
        tcp dport { 22, 1900, 1901 } accept
    }
}
"""
SIX = {"first": "fd79::1", "machine": "fd79::2"}


class Walled:
    """The namespaces."""

    def __init__(self) -> None:
        self._prefix = f"farref-{os.getpid()}-{uuid.uuid4().hex[:4]}"

    def name(self, host: str) -> str:
        return f"{self._prefix}-{host}"

    def make(self) -> None:
        sweep()
        for host in ("first", "machine", "box", "far"):
            run("ip", "netns", "add", self.name(host))
            run(*f"ip -n {self.name(host)} link set lo up".split())
            etc = Path("/etc/netns", self.name(host))
            etc.mkdir(parents=True)
            lines = [f"{address} {name}" for address, name in NAMES.items()]
            lines += [f"{address} {host}6.test" for host, address in SIX.items()]
            # A machine with several addresses: one of them does not answer.
            lines += [f"127.0.0.9 {NAMES[FIRST]}", "127.0.0.1 localhost"]
            (etc / "hosts").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._link("first", FIRST, "machine", MACHINE)
        self._link("machine", "172.30.0.1", "box", "172.30.0.2")
        for host, address in SIX.items():
            where = self.name(host)
            run(*f"ip -n {where} addr add {address}/64 dev to{_other(host)} nodad".split())
        run(*f"ip -n {self.name('box')} route add default via 172.30.0.1".split())
        self._in("machine", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        self._in("machine", "nft", "-f", "-", text=AT_MACHINE)
        self._in("first", "nft", "-f", "-", text=AT_FIRST)

    def _link(self, one: str, at: str, other: str, there: str) -> None:
        mine, theirs = self.name(one), self.name(other)
        run(*f"ip link add to{other} netns {mine} type veth peer to{one} netns {theirs}".split())
        for where, link, address in ((mine, f"to{other}", at), (theirs, f"to{one}", there)):
            run(*f"ip -n {where} addr add {address}/24 dev {link}".split())
            run(*f"ip -n {where} link set {link} up".split())

    def _in(self, host: str, *command: str, text: str = "") -> None:
        done = subprocess.run(
            [*self.command(host), *command], input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def command(self, host: str) -> list[str]:
        """The words that make the rest of a command run on *host*."""
        return ["ip", "netns", "exec", self.name(host)]

    def remove(self) -> None:
        for host in ("first", "machine", "box", "far"):
            command = ["ip", "netns", "del", self.name(host)]
            subprocess.run(command, capture_output=True, check=False)
            shutil.rmtree(Path("/etc/netns", self.name(host)), ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir("/etc/netns")  # if nobody else uses it


def _other(host: str) -> str:
    return "machine" if host == "first" else "first"
