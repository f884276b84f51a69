"""The targets: bounds on ratios in one run, and whether a row meets them.

A target is a bound on the median ratio of farref's figure to a peer's: an upper bound for times, a
lower bound for rates. It is judged if both have figures, and a row that misses one says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .catalogue import GB, KB, MB
from .peers import OURS, PEERS

if TYPE_CHECKING:
    from .rounds import Row

NO_SPIN, OF_MAIN, TRACED = "no-spin", "main", "traced"
TORCH = ("torch", "torch-tensor")
"""PyTorch with arrays, and with its faster tensors: the better of both counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bound on the ratio of *ours* to the best of *beside*, or of all peers without it."""

    bound: float
    ours: str = OURS
    beside: tuple[str, ...] = ()
    points: tuple[int, ...] = ()
    """The points of the target; all points if empty."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a target in a row."""

    row: Row
    target: Target
    other: str
    """The peer that ours is compared with."""
    ratio: float

    @property
    def met(self) -> bool:
        """Whether the ratio is within the bound."""
        if self.row.more_is_better:
            return self.ratio >= self.target.bound
        return self.ratio <= self.target.bound

    @property
    def compared(self) -> str:
        """The compared peers."""
        return f"{PEERS[self.target.ours].title} : {PEERS[self.other].title}"

    @property
    def aim(self) -> str:
        """The bound in words."""
        return f"{'at least' if self.row.more_is_better else 'at most'} {self.target.bound:g}"

    @property
    def said(self) -> str:
        """Met or not."""
        return "met" if self.met else "not met"

    def as_json(self) -> dict[str, object]:
        """As JSON."""
        aim = {"ratio": self.compared, "aim": self.aim}
        return {**aim, "measured": self.ratio, "met": self.met}


_ROUND_TRIP = ((0.35, TORCH), (1, ("rpyc",)), (2.5, ("manager",)), (0.3, ("xoscar",)))
"""The bounds of one round trip beside each peer: of a call, and of a fetch of a small array."""
_ONE_CALL = (
    *(
        Target(bound=bound, ours=ours, beside=beside)
        for ours in (OURS, OF_MAIN)
        for bound, beside in _ROUND_TRIP
    ),
    Target(bound=1, beside=("least",)),
    Target(bound=0.35, ours=NO_SPIN, beside=("torch",)),
    Target(bound=1.1, ours=TRACED, beside=(OURS,)),
)
_REFERENCE = (Target(bound=0.4, beside=("torch",)), Target(bound=0.35, beside=("xoscar",)))
_SMALL, _LARGE = (KB, 100 * KB), (10 * MB, GB)
_MAPPED = (MB, 10 * MB, 100 * MB, GB)
"""Below these sizes, the round trip decides a fetch's time."""
_MAPPED_BY_RAY = Target(bound=2, beside=("ray",), points=_MAPPED)

TARGETS: dict[str, tuple[Target, ...]] = {
    "call": _ONE_CALL,
    "in-flight": (Target(bound=2.5, beside=("torch",)), Target(bound=2.5, beside=("xoscar",))),
    "remote-fetch": _REFERENCE,
    "share": _REFERENCE,
    "share-fetch": _REFERENCE,
    "references": (
        Target(bound=0.1, beside=("torch",), points=(1_000,)),
        Target(bound=0.3, beside=("ray",), points=(1_000,)),
        Target(bound=0.5, beside=("ray",), points=(100_000,)),
    ),
    "values": (
        Target(bound=0.5, points=_SMALL),
        *(Target(bound=bound, beside=beside, points=(KB,)) for bound, beside in _ROUND_TRIP),
        Target(bound=0.5, beside=TORCH, points=_LARGE),
    ),
    "frozen": (
        Target(bound=0.5, points=_SMALL),
        _MAPPED_BY_RAY,
        Target(bound=1 / 20, beside=TORCH, points=_MAPPED),
    ),
    "frozen-read": (_MAPPED_BY_RAY,),
    "frozen-again": (_MAPPED_BY_RAY,),
}
"""The targets, by benchmark."""


def verdicts(row: Row) -> list[Verdict]:
    """The verdict on each target of *row* that has figures."""
    found = []
    for target in TARGETS.get(row.benchmark.name, ()):
        if target.points and row.point not in target.points:
            continue
        other = row.best(target.beside)
        ratio = row.ratio(target.ours, other)
        if other is not None and ratio is not None:
            found.append(Verdict(row, target, other, ratio))
    return found
