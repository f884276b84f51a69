"""The rendezvous machine, rule by rule: values, ranks, clocks, and corrupt states."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farref import FarrefError
from farref.protocol.errors import (
    RendezvousClosedError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    RendezvousTimeoutError,
)
from farref.protocol.ids import WorkerId
from farref.protocol.rendezvous.attendant import Attendant
from farref.protocol.rendezvous.codec import decode, encode
from farref.protocol.rendezvous.limits import RoundLimits, Timeouts
from farref.protocol.rendezvous.observer import Observer, RendezvousRun
from farref.protocol.rendezvous.ranks import natural, ranked
from farref.protocol.rendezvous.state import Beat, Close, Finish, Join, Leave, Membership, State

TWO = RoundLimits(2, 2)


def node(name: str, incarnation: int = 1) -> WorkerId:
    return WorkerId(name, incarnation)


A, B, C = map(node, "abc")


def joined(limits: RoundLimits, *nodes: WorkerId, state: State | None = None) -> State:
    state = state or State(limits)
    for each in nodes:
        state = state.apply(Join(node=each, limits=limits, address=f"at {each}"))
    return state


# ---- numbers


@pytest.mark.parametrize(("least", "most"), [(0, 1), (-1, 1), (2, 1)])
def test_wrong_limits_are_refused(least: int, most: int) -> None:
    with pytest.raises(ValueError, match="node"):
        RoundLimits(least, most)


@pytest.mark.parametrize("number", [1.0, True, "1", None])
def test_limits_are_whole_numbers(number: object) -> None:
    with pytest.raises(TypeError, match="whole number"):
        RoundLimits(number, 1)  # type: ignore[arg-type]  # wrong on purpose


def test_attempts_are_a_whole_number_of_them() -> None:
    for attempts in (0, -1, 1.5):
        with pytest.raises(ValueError, match="attempts"):
            Timeouts(attempts=attempts)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match="join"):
        Timeouts(join="soon")  # type: ignore[arg-type]  # wrong on purpose
    assert Timeouts(keep_alive=2, attempts=3).silence == 6


def test_the_errors_are_one_family() -> None:
    for kind in (RendezvousClosedError, RendezvousGracefulExitError, RendezvousStateError):
        assert issubclass(kind, RendezvousError)
    assert issubclass(RendezvousTimeoutError, TimeoutError)
    assert issubclass(RendezvousError, FarrefError)


# ---- ranks


def test_natural_order() -> None:
    names = ["n10", "n2", "n1", "n02", "m", "n", "10", "9", f"n{'9' * 5000}"]
    first, *rest = sorted(names, key=natural)
    assert [first, *rest] == ["9", "10", "m", "n", "n1", "n2", "n02", "n10", names[-1]]


def test_newcomers_fill_the_gaps_that_members_leave() -> None:
    before = [node("n3"), node("n1"), node("n2")]
    now = dict.fromkeys([node("n10"), node("n2"), node("n3"), node("n9")])
    assert [str(n) for n in ranked(now, before)] == ["n3", "n9", "n2", "n10"]


def test_who_comes_back_under_its_name_has_its_rank() -> None:
    before = [A, B, C]
    again = node("b", 2)
    assert ranked(dict.fromkeys([C, again, A]), before) == [A, again, C]
    other = node("b", 3)  # B itself is there: others of its name are newcomers
    assert ranked(dict.fromkeys([other, B, A]), before) == [A, B, other]


@given(
    st.lists(st.integers(0, 12), unique=True, max_size=8),
    st.lists(st.integers(0, 12), unique=True, min_size=1, max_size=8),
    st.lists(st.one_of(st.none(), st.integers(-2, 2)), min_size=13, max_size=13),
)
def test_ranks_are_stable_and_the_same_in_any_order_of_arrival(
    before: list[int], now: list[int], orders: list[int | None]
) -> None:
    old = [node(f"n{number}") for number in before]
    new = {node(f"n{number}"): orders[number] for number in now}
    places = ranked(new, old)
    assert sorted(places) == sorted(new)
    assert places == ranked(dict(reversed(new.items())), old)
    for rank, each in enumerate(old):
        if each in new and rank < len(new):
            assert places[rank] == each
    fresh = [each for each in places if each not in old]
    assert fresh == sorted(fresh, key=lambda n: (new[n] is None, new[n] or 0, natural(n.name)))


# ---- rounds


def test_a_round_is_complete_at_once_when_all_who_may_come_are_there() -> None:
    state = joined(TWO, B, A)
    assert state.membership(A) == Membership(0, 0, state.members)
    assert state.membership(B) == Membership(0, 1, state.members)
    assert [m.address for m in state.members] == ["at a", "at b"]


def test_who_comes_late_waits_and_the_next_is_spare() -> None:
    limits = RoundLimits(1, 3)
    state = joined(limits, A, B).apply(Finish())
    state = joined(limits, C, node("d"), state=state)
    assert (list(state.waiting), list(state.spares)) == ([C], [node("d")])
    assert state.news(A, 0) == "waiting: c"
    state = state.apply(Leave((B,)))
    assert (list(state.waiting), list(state.spares)) == ([C, node("d")], [])
    assert state.news(A, 0) == "lost: b"
    state = state.apply(Join(node=A, limits=limits, after=0))
    assert (state.round, state.complete) == (1, True)
    assert [m.node for m in state.members] == [A, C, node("d")]


def test_who_waits_for_whom() -> None:
    limits = RoundLimits(1, 3)
    state = joined(limits, A, B).apply(Finish())
    assert [state.waiting_for(node, 0) for node in (A, B)] == [0, 0]
    late = joined(limits, C, state=state)
    assert [late.waiting_for(A, 0), late.waiting_for(C, -1)] == [1, 1]
    lost = state.apply(Leave((B,)))
    assert [lost.waiting_for(A, 0), lost.waiting_for(B, 0)] == [1, 1]
    assert lost.waiting_for(B, -1) == 0  # it is in no round that could be whole
    assert late.apply(Close()).waiting_for(A, 0) == 0


def test_the_members_of_a_round_do_not_change_when_one_dies() -> None:
    state = joined(TWO, A, B)
    after = state.apply(Leave((A,)))
    assert after.members == state.members
    assert after.membership(B) == state.membership(B)
    assert after.membership(A) is None
    assert after.lost() == [A]


def test_who_asks_for_other_numbers_is_refused() -> None:
    state = joined(RoundLimits(2, 3), A)
    with pytest.raises(RendezvousStateError, match="2 to 3 nodes"):
        state.apply(Join(node=B, limits=RoundLimits(2, 4)))
    assert state.apply(Leave((A,))).apply(Join(node=B, limits=TWO)).limits == TWO


def test_a_run_that_is_closed_ends_when_all_have_left_and_its_rounds_go_on() -> None:
    state = joined(RoundLimits(1, 1), A, B).apply(Close())
    with pytest.raises(RendezvousClosedError):
        joined(RoundLimits(1, 1), C, state=state)
    with pytest.raises(RendezvousGracefulExitError):
        joined(RoundLimits(1, 1), B, state=state)
    over = state.apply(Leave((A, B)))
    assert (over.closed, over.round, over.members) == (False, 1, ())
    assert over.empty


def test_a_run_that_is_closed_before_anybody_came_stays_closed_until_its_closer_leaves() -> None:
    attendant = Attendant(A, TWO, Timeouts(), 0)
    state = attendant.close(None)
    other = Attendant(B, TWO, Timeouts(), 0)
    other.begin(0)
    decision = other.look(state, 0)
    assert isinstance(decision.outcome, RendezvousClosedError)
    assert decision.state is state
    assert not attendant.leave(state).closed


def test_what_changes_nothing_is_the_same_state() -> None:
    state = joined(TWO, A, B)
    for command in (Join(node=A, limits=TWO), Leave((C,)), Finish(), Beat(C)):
        assert state.apply(command) is state
    closed = state.apply(Close())
    assert closed.apply(Close()) is closed


# ---- clocks


def test_an_observer_that_was_stopped_does_not_find_everybody_dead() -> None:
    observer = Observer(Timeouts(keep_alive=1, attempts=3), 0)
    state = joined(TWO, A, B)
    assert observer.look(state, 0) == []
    assert observer.look(state, 1000) == []
    assert observer.look(state, 999) == []  # a clock that goes back earns no credit
    assert observer.look(state.apply(Beat(A)), 1001) == []
    assert observer.pause() == 1.0 - 0.0
    assert observer.look(state.apply(Beat(A)), 1002) == [Leave((B,))]


def test_the_last_call_is_timed_by_who_sees_it() -> None:
    observer = Observer(Timeouts(last_call=2, keep_alive=5), 100)
    state = joined(RoundLimits(1, 3), A)
    assert observer.look(state, 101) == []
    assert observer.pause() == 2
    assert observer.look(joined(RoundLimits(1, 3), B, state=state), 102.5) == []
    assert observer.pause() == 0.5
    assert observer.look(state, 103) == [Finish()]


def test_the_last_call_of_a_service_is_timed_from_its_opening() -> None:
    run = RendezvousRun(State(RoundLimits(1, 2)), Timeouts(last_call=2), 0)
    run.do(Join(node=A, limits=RoundLimits(1, 2)), 10)
    run.tick(12)
    assert run.state.complete


def test_who_left_is_not_waited_for() -> None:
    observer = Observer(Timeouts(), 0)
    observer.look(joined(TWO, A), 1)
    observer.look(State(TWO), 2)
    assert observer.pause() is None


def test_a_round_that_is_formed_in_the_last_moment_counts() -> None:
    attendant = Attendant(A, TWO, Timeouts(join=5), 0)
    attendant.begin(0)
    assert isinstance(attendant.look(joined(TWO, B), 5).outcome, Membership)
    assert isinstance(attendant.look(joined(RoundLimits(2, 3), B), 5).outcome, RendezvousStateError)
    assert isinstance(attendant.look(State(TWO), 5).outcome, RendezvousTimeoutError)


def test_a_service_hears_of_its_nodes() -> None:
    run = RendezvousRun(State(TWO), Timeouts(keep_alive=1, attempts=2), 0)
    assert run.pause() is None
    for each in (A, B):
        run.do(Join(node=each, limits=TWO), 0)
    assert [type(each) for each in run.log] == [Join, Join]
    run.tick(0)
    assert run.pause() == 1
    run.tick(1)
    run.heard(A, 1.5)
    run.tick(2)
    assert run.state.lost() == [B]
    assert run.log[2:] == [Leave((B,))]
    run.heard(B, 2)
    run.tick(3.4)
    assert run.state.lost() == [B]


def test_an_attendant_beats_in_time() -> None:
    timeouts = Timeouts(keep_alive=1, attempts=3)
    attendant = Attendant(A, RoundLimits(1, 1), timeouts, 0)
    attendant.begin(0)
    decision = attendant.look(None, 0.2)
    assert isinstance(decision.outcome, Membership)
    attendant.resolved(decision.outcome)
    assert not attendant.joining
    stored = decision.state
    assert attendant.look(stored, 1.0).state is stored
    assert attendant.pause(1.0) == pytest.approx(0.2)
    lost = attendant.look(stored, 1.3).state  # another was faster, so this is never stored
    assert lost is not stored
    beaten = attendant.look(stored, 1.4).state
    assert beaten.participants[A].beat == 1
    assert attendant.look(beaten, 2.3).state is beaten  # the stored beat is of 1.4
    assert attendant.look(beaten, 2.4).state.participants[A].beat == 2


def test_an_attendant_never_gives_itself_up() -> None:
    """Even if the state that it wants to store is never stored for long."""
    attendant = Attendant(A, TWO, Timeouts(keep_alive=1, attempts=2), 0)
    stored = joined(TWO, A, B)
    attendant.begin(0)
    for now in range(4):
        stored = stored.apply(Beat(B))
        wanted = attendant.look(stored, now).state
        assert set(wanted.participants) == {A, B}


# ---- as bytes


STATES = [
    State(TWO),
    joined(TWO, A),
    joined(TWO, A, B, C),
    joined(RoundLimits(1, 3), A, B).apply(Finish()).apply(Join(node=C, limits=RoundLimits(1, 3))),
    joined(TWO, A, B, C).apply(Close()).apply(Leave((B,))),
    joined(TWO, node("\ud800 \u20ac\n"), B),
    State(TWO).apply(Join(node=A, limits=TWO, order=-3)).apply(Beat(A)),
]


@pytest.mark.parametrize("state", STATES)
def test_a_state_comes_back(state: State) -> None:
    assert decode(encode(state)) == state


def test_a_thousand_nodes_take_about_a_hundred_bytes_each() -> None:
    state = joined(RoundLimits(1000, 1000), *(node(f"node{n}", 2**62 + n) for n in range(1000)))
    assert len(encode(state)) < 1000 * 110


PRESENT = joined(TWO, A, B)
CORRUPT = {
    "not bytes of ours": b"\x80\x04N.",
    "empty": b"",
    "no list": b"{}",
    "another version": encode(State(TWO)).replace(b"rendezvous 2", b"rendezvous 3"),
    "a field too few": b'["farref rendezvous 2",2,2,0,false,false,0,[],[],[]]',
    "nested too deep": b"[" * 100_000,
    "a number with many digits": encode(State(TWO)).replace(b"2,2", b"2," + b"9" * 10_000),
    "a number that is too large": encode(State(TWO)).replace(b"2,2", b"2," + b"9" * 30),
    "limits that contradict each other": encode(State(TWO)).replace(b"2,2", b"3,2"),
    "a flag that is a number": encode(State(TWO)).replace(b"false", b"0", 1),
    "a number that is a flag": encode(State(TWO)).replace(b",0,false", b",false,false", 1),
    "a list that is a text": encode(State(TWO)).replace(b"[]", b'""', 1),
    "a node without its incarnation": encode(PRESENT).replace(b'["a",1]', b'["a"]'),
    "a name that is a number": encode(PRESENT).replace(b'["a",1]', b"[7,1]"),
    "an order that is a text": encode(PRESENT).replace(b"null", b'"x"', 1),
    "an order without end": encode(PRESENT).replace(b"null", b"9" * 100, 1),
    "an address that is missing": encode(PRESENT).replace(b'"at a"', b"null"),
    "somebody twice": encode(replace(PRESENT, waiting={A: PRESENT.participants[A]})),
    "a member twice": encode(replace(PRESENT, members=(PRESENT.members[0],) * 2)),
    "too many members": encode(replace(State(RoundLimits(1, 1)), members=PRESENT.members)),
    "too many participants": encode(
        replace(PRESENT, participants=joined(RoundLimits(3, 3), A, B, C).participants)
    ),
    "a spare though there is room": encode(replace(State(TWO), spares=PRESENT.participants)),
    "not complete though it could be": encode(replace(PRESENT, complete=False)),
    "complete, and nobody in it": encode(replace(PRESENT, participants={})),
    "complete, and too few members": encode(replace(PRESENT, members=PRESENT.members[:1])),
    "a participant who is no member": encode(
        replace(PRESENT, participants=joined(TWO, A, C).participants)
    ),
    "enough, and no last call": encode(replace(joined(RoundLimits(1, 2), A), call=0)),
}


@pytest.mark.parametrize("what", CORRUPT)
def test_a_corrupt_state_is_refused(what: str) -> None:
    with pytest.raises(RendezvousStateError, match="corrupt"):
        decode(CORRUPT[what])


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RendezvousStateError):
        decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(st.integers(0, 10), st.integers(0, len(STATES) - 1), JSON)
def test_a_field_that_is_something_else_is_refused_or_makes_a_right_state(
    place: int, which: int, value: object
) -> None:
    row = json.loads(encode(STATES[which]))
    row[place] = value
    data = json.dumps(row).encode()
    try:
        state = decode(data)
    except RendezvousStateError:
        return
    assert decode(encode(state)) == state
