"""The targets: bounds on ratios in one run, or on figures, and whether a row meets them.

Most targets are a bound on the median ratio of farref's figure to a peer's: an upper bound for
times, a lower bound for rates. It is judged if both have figures, and a row that misses one says
so. The others are a bound on farref's own figure, such as that of its memory at rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .catalogue import GB, KB, MB, SMALL
from .figures import digits, shown
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
    alone: bool = False
    """Whether the bound is on the figure of *ours* itself, in the unit of the benchmark."""
    ours: str = OURS
    beside: tuple[str, ...] = ()
    points: tuple[int, ...] = ()
    """The points of the target; all points if empty."""


@dataclass(frozen=True, slots=True)
class Verdict:
    row: Row
    target: Target
    other: str | None
    """The peer that ours is compared with; None if the figure itself is judged."""
    value: float
    """The ratio or the figure."""

    @property
    def met(self) -> bool:
        if self.row.more_is_better:
            return self.value >= self.target.bound
        return self.value <= self.target.bound

    @property
    def compared(self) -> str:
        names = [name for name in (self.target.ours, self.other) if name is not None]
        return " : ".join(PEERS[name].title for name in names)

    @property
    def aim(self) -> str:
        bound = self._shown(self.target.bound)
        return f"{'at least' if self.row.more_is_better else 'at most'} {bound}"

    @property
    def measured(self) -> str:
        return self._shown(self.value)

    def _shown(self, value: float) -> str:
        return digits(value) if self.other else shown(value, self.row.benchmark.unit)

    @property
    def said(self) -> str:
        return "met" if self.met else "not met"

    def as_json(self) -> dict[str, object]:
        aim = {"ratio": self.compared, "aim": self.aim}
        return {**aim, "measured": self.value, "met": self.met}


def _each(
    ours: tuple[str, ...],
    bounds: tuple[tuple[float, tuple[str, ...]], ...],
    points: tuple[int, ...] = (),
) -> tuple[Target, ...]:
    """A target of each of *ours* with each of *bounds*: a bound, and the peers beside it."""
    return tuple(
        Target(bound=bound, ours=name, beside=beside, points=points)
        for name in ours
        for bound, beside in bounds
    )


_ROUND_TRIP = ((0.35, TORCH), (1, ("rpyc",)), (2.5, ("manager",)), (0.3, ("xoscar",)))
"""The bounds of one round trip beside each peer: of a call, and of a fetch of a small array."""
_ONE_CALL = (
    *_each((OURS, OF_MAIN, NO_SPIN), _ROUND_TRIP),
    *_each((OURS, OF_MAIN), ((1, ("least",)),)),
    Target(bound=1.1, ours=TRACED, beside=(OURS,)),
)
_METHOD = _each(
    (OURS, NO_SPIN),
    ((0.3, ("torch",)), (1, ("rpyc",)), (2.5, ("manager",)), (0.3, ("ray",)), (0.3, ("xoscar",))),
)
_REFERENCE = _each((OURS, NO_SPIN), ((0.4, ("torch",)), (0.35, ("xoscar",))))
_LARGE = (10 * MB, GB)
_MAPPED = (MB, 10 * MB, 100 * MB, GB)
"""Below these sizes, the round trip decides a fetch's time."""
_MAPPED_BY_RAY = Target(bound=2, beside=("ray",), points=_MAPPED)

TARGETS: dict[str, tuple[Target, ...]] = {
    "call": _ONE_CALL,
    "method": _METHOD,
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
        *_each((OURS, NO_SPIN), ((0.5, ()),), SMALL),
        *_each((OURS, NO_SPIN), _ROUND_TRIP, (KB,)),
        Target(bound=1, beside=("least",), points=(KB,)),
        Target(bound=0.5, beside=TORCH, points=_LARGE),
    ),
    "bytes": (Target(bound=0.5),),
    "frozen": (
        Target(bound=0.5, points=SMALL),
        _MAPPED_BY_RAY,
        Target(bound=1 / 20, beside=TORCH, points=_MAPPED),
    ),
    "frozen-read": (_MAPPED_BY_RAY,),
    "frozen-again": (_MAPPED_BY_RAY,),
    "memory-holder": (Target(bound=600, alone=True),),
    "import": (Target(bound=0.15, alone=True),),
    "start": (Target(bound=0.1, alone=True),),
    "rest": (Target(bound=0.5, alone=True),),
    "rest-memory": (Target(bound=40 * MB, alone=True),),
}
"""The targets, by benchmark."""


def verdicts(row: Row) -> list[Verdict]:
    """The verdict on each target of *row* that has figures."""
    found = []
    for target in TARGETS.get(row.benchmark.name, ()):
        if target.points and row.point not in target.points:
            continue
        other = None if target.alone else row.best(target.beside)
        value = row.ratio(target.ours, other)
        if target.alone and target.ours in row.figures:
            value = row.median(target.ours)
        if value is not None:
            found.append(Verdict(row, target, other, value))
    return found
