"""Two holders of one iterator, and its owner: every order of pulls, items, answers and uses.

The world of `farref.protocol.streams`. The owner runs the iterator for one pull at a time, in the
order in which they came, and may send items before the answer. It may end a pull early, as if its
time were over. A holder may stop, or die. The links keep their order, as `delivery` sees to that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import astuple

from farref.protocol.streams import GROWTH, StreamFlow

from .explorer import Exploration, Mistake, Model, explore


@dataclass(frozen=True, slots=True, eq=False)
class Streaming:
    """A program: how many items the iterator has, and how far ahead each holder asks."""

    name: str
    items: int
    ahead: tuple[int | None, ...]
    early: int = 0
    """How often the owner may send items before the answer, or end a pull before its credit."""
    fits: int = 1000
    """The items that take as many bytes as a holder asks for ahead."""
    stops: bool = False
    """Holders may stop at any moment."""
    reaches: tuple[str, ...] = ()
    slow: bool = False


class Holder(NamedTuple):
    frozen: tuple[Any, ...]
    """The fields of its `StreamFlow`."""
    here: int = 0
    """The items that are not used yet."""
    got: tuple[int, ...] = ()
    """All items that have come."""
    stopped: bool = False
    coming: tuple[tuple[str, tuple[int, ...], bool], ...] = ()
    """What is on its way to it: items, or an answer, and whether the iterator has ended."""

    @property
    def flow(self) -> StreamFlow:
        """A copy that may be changed."""
        ahead, most, asked, *others = self.frozen
        return StreamFlow(ahead, most, deque(asked), *others)


class StreamState(NamedTuple):
    holders: tuple[Holder, ...]
    queue: tuple[tuple[int, int], ...]
    """The pulls that have come to the owner: the holder, and the credit that is left."""
    made: int
    ready: tuple[int, ...]
    """The items of the first pull that have not been sent."""
    early: int


class StreamModel(Model[StreamState]):
    def start(self) -> StreamState:
        flows = [StreamFlow(ahead, self.program.fits) for ahead in self.program.ahead]
        holders = tuple(Holder(_frozen(flow)) for flow in flows)
        return StreamState(holders, (), 0, (), self.program.early)

    def moves(self, state: StreamState) -> Iterator[tuple[str, StreamState]]:
        for place, holder in enumerate(state.holders):
            name = "AB"[place]
            if holder.coming:
                yield f"{name} gets {holder.coming[0]}", self._got(state, place)
            if holder.stopped:
                continue
            if holder.here:
                yield f"{name} uses an item", _with(state, place, here=holder.here - 1)
            if not holder.flow.over:
                asked = self._asked(state, place)
                if asked != state:
                    yield f"{name} asks", asked
            if self.program.stops:
                yield f"{name} stops", _with(state, place, stopped=True)
        if state.queue:
            yield from self._owner(state)

    def _asked(self, state: StreamState, place: int) -> StreamState:
        """It asks when it wants an item, and after each answer."""
        holder = state.holders[place]
        flow = holder.flow
        credit = flow.ask(holder.here)
        if not credit:
            return state
        self.see({"there is one pull at a time": len(flow.asked) > 1})
        after = _with(state, place, frozen=_frozen(flow))
        return after._replace(queue=(*state.queue, (place, credit)))

    def _got(self, state: StreamState, place: int) -> StreamState:
        holder = state.holders[place]
        (kind, items, over), *rest = holder.coming
        flow = holder.flow
        if kind == "items":
            flow.came(len(items))
        elif flow.asked:  # after an end the answers of further pulls change nothing
            flow.answered(len(items), 0, 1.0 if items else None, over=over)
        got, here = (*holder.got, *items), holder.here + len(items)
        return _with(state, place, frozen=_frozen(flow), got=got, here=here, coming=tuple(rest))

    def _owner(self, state: StreamState) -> Iterator[tuple[str, StreamState]]:
        (place, credit), *rest = state.queue
        later = state._replace(queue=tuple(rest), ready=())
        made, end = state.made, self.program.items
        if credit and made < end:
            ready = (*state.ready, made)
            after = state._replace(made=made + 1, ready=ready)
            yield "the owner makes an item", after._replace(queue=((place, credit - 1), *rest))
        else:
            over = made == end and credit > 0
            yield "the owner answers", _send(later, place, "answer", state.ready, over)
        if state.early and state.ready:
            early = state._replace(early=state.early - 1, ready=())
            self.see({"no item comes before the answer": True})
            yield "the owner sends", _send(early, place, "items", state.ready)
            early = later._replace(early=state.early - 1)
            yield "a pull's time is over", _send(early, place, "answer", state.ready)

    # ---- properties

    def judge(self, state: StreamState) -> Mistake | None:
        got = [each for holder in state.holders for each in holder.got]
        if len(set(got)) < len(got):
            return Mistake("each item goes to one holder (G3)", f"{got}")
        for holder in state.holders:
            if list(holder.got) != sorted(holder.got):
                return Mistake("a holder has its items in order (G3)", f"{holder.got}")
        self.see({"only one holder gets items": all(holder.got for holder in state.holders)})
        for place, holder in enumerate(state.holders):
            coming = [each for kind in holder.coming for each in kind[1]]
            mine = [each for pull in state.queue[:1] if pull[0] == place for each in state.ready]
            ahead = holder.flow.ahead
            most = 2 * holder.flow.items if ahead is None else min(ahead, self.program.fits)
            out = holder.here + len(coming) + len(mine)
            if out > max(1, most) and len(holder.got) > 1:
                return Mistake("no more is made than was asked for", f"{out} are not used")
            if len(holder.flow.asked) > 2:
                return Mistake("two pulls are enough", f"{holder.flow.asked} are under way")
            if holder.flow.items > GROWTH ** (1 + len(holder.got)):
                return Mistake("the credit grows step by step", f"it is {holder.flow.items}")
        return None

    def judge_end(self, state: StreamState) -> Mistake | None:
        stopped = [holder for holder in state.holders if holder.stopped]
        for holder in state.holders:
            if not holder.stopped and not holder.flow.over:
                return Mistake("who waits has a pull under way", "it waits for ever (G6)")
        got = sorted(each for holder in state.holders for each in holder.got)
        if not stopped and got != list(range(self.program.items)):
            return Mistake("no item is lost", f"{got}")
        return None

    def need_not(self, move: str) -> bool:
        return move.endswith("stops")

    def show(self, before: StreamState, move: str, after: StreamState) -> str:
        return move


def _frozen(flow: StreamFlow) -> tuple[Any, ...]:
    ahead, most, asked, *others = astuple(flow)
    return ahead, most, tuple(asked), *others


def _with(state: StreamState, place: int, **changes: object) -> StreamState:
    holders = list(state.holders)
    holders[place] = holders[place]._replace(**changes)  # type: ignore[arg-type]  # of these fields
    return state._replace(holders=tuple(holders))


def _send(
    state: StreamState, place: int, kind: str, items: tuple[int, ...], over: bool = False
) -> StreamState:
    coming = (*state.holders[place].coming, (kind, items, over))
    return _with(state, place, coming=coming)


def explore_streaming(program: Streaming, limit: int) -> Exploration:
    return explore(StreamModel(program), limit=limit, progress=True)


NEVER_STREAMED = frozenset(
    {
        "there is one pull at a time",
        "no item comes before the answer",
        "only one holder gets items",
    }
)

STREAMINGS = (
    Streaming("one holder, on demand", 3, (0,), early=2),
    Streaming("one holder, two ahead", 4, (2,), early=2, reaches=("there is one pull at a time",)),
    Streaming("one holder, by time", 5, (None,), early=1, reaches=("there is one pull at a time",)),
    Streaming("one holder, few bytes ahead", 5, (4,), early=1, fits=2),
    Streaming("two holders", 4, (2, 1), early=1, reaches=("only one holder gets items",)),
    Streaming("two holders, by time", 4, (None, None), early=1),
    Streaming("two that stop", 3, (1, 2), early=1, stops=True),
    Streaming("nothing", 0, (3, 0)),
)
