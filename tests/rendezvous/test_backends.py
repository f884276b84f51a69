"""The promises of every backend: the same tests for each of them, and a run over each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from farref.elastic import DynamicRendezvousHandler, RendezvousStateError
from farref.elastic.c10d import C10dRendezvousBackend
from farref.elastic.etcd import EtcdRendezvousBackend

from ..waiting import eventually
from .kit import FAIR, SHORT, MemoryStore, joining, meet

if TYPE_CHECKING:
    from collections.abc import Callable

    from farref.elastic import RendezvousBackend

    Backends = Callable[[str], RendezvousBackend]

MALFORMED = [object, -1, 2.5, "", "text", b"", b"bytes", b"\xff\xfe", [], {"a": 1}, 1 << 70, True]


def test_the_token_of_what_is_stored_lets_one_store(backend_of: Backends) -> None:
    backend, other = backend_of("run"), backend_of("run")
    assert backend.get_state() is None
    tokens: list[object] = [None]
    for each in (b"\x00first\xff", b"second", b"third"):
        state, token, has_set = backend.set_state(each, tokens[-1]) or pytest.fail("none stored")
        assert (state, has_set) == (each, True)
        assert other.get_state() == (each, token)
        for stale in tokens:  # so without a token only the first is stored
            assert other.set_state(b"other", stale) == (each, token, False)
        assert backend.get_state() == (each, token)
        tokens.append(token)
    assert backend_of("other").get_state() is None  # runs are apart


@pytest.mark.parametrize("token", MALFORMED, ids=repr)
def test_a_malformed_token_fits_nothing(backend_of: Backends, token: object) -> None:
    backend = backend_of("run")
    assert backend.set_state(b"first", token) is None
    assert backend.get_state() is None
    current = backend.set_state(b"second")
    assert current is not None
    assert backend.set_state(b"third", token) == (*current[:2], False)


def test_of_many_who_store_at_once_one_does(backend_of: Backends) -> None:
    threads, each = 8, 10
    backend_of("run").set_state(b"0")

    def count(backend: RendezvousBackend) -> None:
        done = 0
        while done < each:
            found = backend.get_state()
            assert found is not None
            stored = backend.set_state(str(int(found[0]) + 1).encode(), found[1])
            assert stored is not None
            done += stored[2]

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(count, [backend_of("run") for _ in range(threads)]))
    found = backend_of("run").get_state()
    assert found is not None
    assert found[0] == str(threads * each).encode()


@pytest.mark.parametrize("kind", [EtcdRendezvousBackend, C10dRendezvousBackend])
def test_a_run_has_an_id(kind: Callable[[object, str], RendezvousBackend]) -> None:
    with pytest.raises(ValueError, match="run_id must be"):
        kind(object(), "")


def test_a_corrupt_state_is_named(backend_of: Backends) -> None:
    backend = backend_of("run")
    backend.set_state(b"what is this?")
    handler = DynamicRendezvousHandler.from_backend(
        "run", MemoryStore(), backend_of("run"), 1, 1, "a", SHORT
    )
    with pytest.raises(RendezvousStateError, match="corrupt"):
        handler.next_rendezvous()
    with pytest.raises(RendezvousStateError, match="corrupt"):
        handler.is_closed()
    assert not handler.shutdown()


def test_a_run_over_it(backend_of: Backends) -> None:
    store = MemoryStore()
    nodes = [
        DynamicRendezvousHandler.from_backend("run", store, backend_of("run"), 2, 3, name, FAIR)
        for name in ("node10", "node2", "node1")
    ]
    a, b, c = nodes
    first = meet(a, b)
    assert [info.rank for info in first] == [1, 0]  # the natural order of their names
    assert len({info.members for info in first}) == 1
    assert len({info.bootstrap_store_info for info in first}) == 1
    first[0].store.set("key", "value")
    assert first[1].store.get("key") == b"value"

    late = joining(c)
    eventually(lambda: a.num_nodes_waiting() == b.num_nodes_waiting() == 1, "both see who waits")
    second = [*meet(a, b), late.result(60)]
    assert [info.rank for info in second] == [1, 0, 2]  # a node that was there keeps its rank
    assert not second[0].store.check(["key"])

    assert a.shutdown()
    eventually(b.is_closed, "the others are told")
    assert b.num_nodes_waiting() == 0
    assert b.shutdown()
    assert c.shutdown()
