"""Hosts behind walls: a container with one published port, and two with few open ports.

::

    first 10.79.0.1 --- 10.79.0.2 machine 172.30.0.1 --- 172.30.0.2 box
      lets 22, 1900, 1901 in           NAT: 31900 is the box's 1900
                                    lets the box out to port 1900 only
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from .network import Namespaces, run

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


class Walled(Namespaces):
    """The namespaces."""

    def __init__(self) -> None:
        super().__init__("first", "machine", "box")

    def make(self) -> None:
        super().make()
        for host in self._hosts:
            etc = Path("/etc/netns", self.name(host))
            etc.mkdir(parents=True)
            lines = [f"{address} {name}" for address, name in NAMES.items()]
            lines += [f"{address} {host}6.test" for host, address in SIX.items()]
            # A machine with several addresses: one of them does not answer.
            lines += [f"127.0.0.9 {NAMES[FIRST]}", "127.0.0.1 localhost"]
            (etc / "hosts").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.link(("first", "tomachine", FIRST), ("machine", "tofirst", MACHINE))
        self.link(("machine", "tobox", "172.30.0.1"), ("box", "tomachine", "172.30.0.2"))
        for host, device in (("first", "tomachine"), ("machine", "tofirst")):
            self.run(host, f"ip addr add {SIX[host]}/64 dev {device} nodad")
        self.run("box", "ip route add default via 172.30.0.1")
        run(*self.command("machine"), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for host, rules in (("machine", AT_MACHINE), ("first", AT_FIRST)):
            run(*self.command(host), "nft", "-f", "-", text=rules)

    def remove(self) -> None:
        super().remove()
        for host in self._hosts:
            shutil.rmtree(Path("/etc/netns", self.name(host)), ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir("/etc/netns")  # if nobody else uses it
