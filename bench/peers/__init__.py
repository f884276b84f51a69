"""The peers, by name: the module of each, and the packages that it needs."""

from __future__ import annotations

import importlib.util
import platform
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..catalogue import Benchmark


class NotOffered(Exception):
    """A peer has no equivalent of the work; the message says why."""


class PeerFailed(Exception):
    """A peer did not do its work; the message says how."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A peer. Its module is imported in its own process only."""

    name: str
    title: str
    module: str
    kind: str
    needs: tuple[str, ...] = ()
    """Modules that the peer needs."""
    distribution: str = "farref"
    """Its distribution, or Python itself."""
    options: dict[str, Any] = field(default_factory=dict)
    works: tuple[str, ...] = ()
    """The works that the peer is for; empty for all that it offers."""
    brief: bool = False
    """Whether only brief work shows anything of the peer, and so no array of 1 MB or more."""
    ours: bool = False
    """Whether it is farref or a part of farref, not a peer to compare with."""
    asked: bool = False
    """Whether it is measured only if it is asked for by name."""
    restless: bool = False
    """Its processes compute while they wait, and so take the cores from the other peers."""

    def does(self, benchmark: Benchmark, point: int) -> bool:
        """Whether the peer is measured in *benchmark* at *point*."""
        return (
            (not self.works or benchmark.work in self.works)
            and (not benchmark.peers or self.name in benchmark.peers)
            and (not self.brief or benchmark.brief_at(point))
        )

    def missing(self) -> str:
        """Why the peer cannot run here; empty if it can."""
        gone = [name for name in self.needs if importlib.util.find_spec(name) is None]
        return f"{', '.join(gone)} is not installed" if gone else ""

    def version(self) -> str:
        if self.distribution == "Python":
            return platform.python_version()
        return version(self.distribution)


OURS = "farref"
VARIANTS = ("sites", "traced")
"""farref with something switched on: the ratio to farref without it is its cost."""
RAW = "base"
"""The same by raw messages on our base: the ratio is the cost of references and calls on top."""

_TORCH = Spec(
    "torch", "PyTorch RPC", "pytorch", "PyTorch", ("torch", "numpy"), "torch", restless=True
)
_RAW = Spec(RAW, "raw, our base", "raw", "RawPeer", options={"base": "ours"}, ours=True)
_OURS = Spec(OURS, "farref", "ours", "Ours", ours=True)
_SPECS = (
    _OURS,
    replace(
        _OURS,
        name="no-spin",
        title="farref, no spin",
        options={"spin": False},
        works=(
            *("call", "method", "in_flight", "methods_in_flight", "one_way"),
            *("remote_fetch", "share", "share_fetch", "value"),
        ),
        brief=True,
    ),
    replace(
        _OURS,
        name="main",
        title="farref, of `__main__`",
        options={"main": True},
        works=("call",),
    ),
    replace(
        _OURS,
        name="late",
        title="farref, packets 2 ms late",
        options={"late": True},
        works=("call", "chained", "stepwise", "alias_again"),
        asked=True,
    ),
    replace(
        _OURS,
        name="traced",
        title="farref, traced",
        options={"traced": True},
        works=("call", "share", "create_drop"),
    ),
    replace(_OURS, name="sites", title="farref, sites", options={"sites": True}, asked=True),
    _RAW,
    replace(
        _RAW,
        name="base-no-spin",
        title="raw, our base, no spin",
        options={"base": "ours, no spin"},
        asked=True,
    ),
    replace(
        _RAW,
        name="least",
        title="the least call",
        kind="Least",
        works=("call", "value"),
        brief=True,
    ),
    Spec("thespian", "raw, Thespian", "raw", "RawPeer", (), "thespian", {"base": "stock"}),
    _TORCH,
    replace(
        _TORCH,
        name="torch-tensor",
        title="PyTorch, tensor",
        options={"tensors": True},
        works=("value", "value_read", "frozen", "frozen_read", "frozen_again"),
    ),
    Spec(
        "torch-rendezvous",
        "torch's rendezvous",
        "torch_rendezvous",
        "TorchRendezvous",
        ("torch",),
        "torch",
        works=("rendezvous",),
        asked=True,
    ),
    Spec("ray", "Ray", "ray_actors", "Ray", ("ray", "numpy"), "ray"),
    Spec("xoscar", "Xoscar", "xoscar_pool", "Xoscar", ("xoscar", "numpy"), "xoscar"),
    Spec("manager", "Manager", "objects", "Manager", ("numpy",), "Python"),
    Spec("rpyc", "RPyC", "objects", "RPyC", ("rpyc", "numpy"), "rpyc"),
    Spec("dask", "Dask actors", "objects", "Dask", ("distributed", "numpy"), "distributed"),
)
PEERS = {spec.name: spec for spec in _SPECS}
