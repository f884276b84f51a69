"""The peers, by name: the module of each, and the packages that it needs."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any


@dataclass(frozen=True, slots=True)
class Spec:
    """A peer. Its module is imported in its own process only."""

    name: str
    title: str
    module: str
    kind: str
    needs: tuple[str, ...]
    """Modules that the peer needs."""
    distribution: str
    options: dict[str, Any] = field(default_factory=dict)
    works: tuple[str, ...] = ()
    """The works that the peer is for; empty for all that it offers."""
    ours: bool = False
    """Whether it is farref or a part of farref, not a peer to compare with."""
    asked: bool = False
    """Whether it is measured only if it is asked for by name."""
    restless: bool = False
    """Its processes compute while they wait, and so take the cores from the other peers."""

    def does(self, work: str) -> bool:
        """Whether the peer is for *work*."""
        return not self.works or work in self.works

    def missing(self) -> str:
        """Why the peer cannot run here; empty if it can."""
        gone = [name for name in self.needs if importlib.util.find_spec(name) is None]
        return f"{', '.join(gone)} is not installed" if gone else ""

    def version(self) -> str:
        """The version of the measured library."""
        return version(self.distribution)


OURS = "farref"
VARIANTS = ("sites", "traced")
"""farref with something switched on: the ratio to farref without it is its cost."""
RAW = "base"
"""The same by raw messages on our base: the ratio is the cost of references and calls on top."""

_SPECS = (
    Spec(OURS, "farref", "ours", "Ours", (), "farref", ours=True),
    Spec(
        "no-spin",
        "farref, no spin",
        "ours",
        "Ours",
        (),
        "farref",
        {"spin": False},
        works=("call", "in_flight", "one_way", "remote_fetch", "share", "share_fetch"),
        ours=True,
    ),
    Spec(
        "late",
        "farref, packets 2 ms late",
        "ours",
        "Ours",
        (),
        "farref",
        {"late": True},
        works=("call", "chained", "stepwise", "alias_again"),
        ours=True,
        asked=True,
    ),
    *(
        Spec(name, f"farref, {name}", "ours", "Ours", (), "farref", {name: True}, (), True, True)
        for name in VARIANTS
    ),
    Spec(RAW, "raw, our base", "raw", "Raw", (), "farref", {"base": "ours"}, ours=True),
    Spec(
        "base-no-spin",
        "raw, our base, no spin",
        "raw",
        "Raw",
        (),
        "farref",
        {"base": "ours, no spin"},
        ours=True,
        asked=True,
    ),
    Spec(
        "least",
        "the least call",
        "raw",
        "Least",
        (),
        "farref",
        {"base": "ours"},
        works=("call",),
        ours=True,
    ),
    Spec("thespian", "raw, Thespian", "raw", "Raw", (), "thespian", {"base": "stock"}),
    Spec("torch", "PyTorch RPC", "pytorch", "PyTorch", ("torch", "numpy"), "torch", restless=True),
    Spec(
        "torch-tensor",
        "PyTorch, tensor",
        "pytorch",
        "PyTorch",
        ("torch", "numpy"),
        "torch",
        {"tensors": True},
        works=("value", "value_read", "frozen", "frozen_read", "frozen_again"),
        restless=True,
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
)
PEERS = {spec.name: spec for spec in _SPECS}
