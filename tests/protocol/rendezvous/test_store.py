"""The store's table against a plain dict, with repeated operations."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from farref.protocol.ids import WorkerId
from farref.protocol.store import Op, Table

ME = WorkerId("me", 1)
KEYS = st.sampled_from("abc")
VALUES = st.sampled_from([b"", b"1", b"x"])
CHANGES = st.one_of(
    st.tuples(st.just("set"), KEYS, st.tuples(VALUES), st.just(0)),
    st.tuples(st.just("add"), KEYS, st.just(()), st.integers(-3, 3)),
    st.tuples(st.just("append"), KEYS, st.tuples(VALUES), st.just(0)),
    st.tuples(st.just("compare_set"), KEYS, st.tuples(VALUES, VALUES), st.just(0)),
    st.tuples(st.just("delete"), KEYS, st.just(()), st.just(0)),
)


def expected(values: dict[str, bytes], what: str, key: str, args: tuple[bytes, ...], n: int) -> Any:
    """Do to a dict the operation of torch's store."""
    if what == "set":
        values[key] = args[0]
    elif what == "add":
        text = values.get(key, b"0")
        if not text.lstrip(b"-").isdigit():
            return str
        values[key] = str(int(text) + n).encode()
        return int(values[key])
    elif what == "append":
        values[key] = values.get(key, b"") + args[0]
    elif what == "delete":
        return values.pop(key, None) is not None
    elif key not in values and args[0] != b"":
        return args[0]
    elif key in values and values[key] != args[0]:
        return values[key]
    else:
        values[key] = args[1]
        return args[1]
    return None


@given(st.lists(st.tuples(CHANGES, st.integers(0, 2)), max_size=20))
def test_it_does_what_a_dict_does_however_often_it_is_told(
    history: list[tuple[Any, int]],
) -> None:
    table, values = Table(), dict[str, bytes]()
    for number, ((what, key, args, amount), again) in enumerate(history):
        right = expected(values, what, key, args, amount)
        op = Op(ME, number, number, what, (key,), args, amount)
        for _ in range(1 + again):
            answer = table.do(op)
            assert isinstance(answer, str) if right is str else answer == right
        assert table.values == values
        assert len(table._answers[ME]) == 1  # settled answers are forgotten


def test_callers_do_not_share_their_numbers() -> None:
    table = Table()
    for caller in (ME, WorkerId("you", 2)):
        table.do(Op(caller, 1, 1, "add", ("n",), amount=1))
    assert table.values == {"n": b"2"}
    table.forget(ME)
    assert list(table._answers) == [WorkerId("you", 2)]


def test_several_keys_are_set_at_once() -> None:
    table = Table()
    table.do(Op(ME, 1, 1, "set", ("a", "b"), (b"1", b"2")))
    assert table.has(("a", "b"))
    assert not table.has(("a", "c"))
