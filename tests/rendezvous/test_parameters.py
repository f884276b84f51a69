"""Every check of the note's parameters, and its registry of handlers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from farref import (
    RendezvousHandler,
    RendezvousHandlerCreator,
    RendezvousHandlerRegistry,
    RendezvousParameters,
)
from farref.elastic import (
    DynamicRendezvousHandler,
    EtcdRendezvousHandler,
    Timeouts,
    create_handler,
    rendezvous_handler_registry,
)

from .kit import MemoryBackend


def params(**more: Any) -> RendezvousParameters:
    given: dict[str, Any] = {
        "backend": "b",
        "endpoint": "e",
        "run_id": "r",
        "min_nodes": 1,
        "max_nodes": 2,
    }
    return RendezvousParameters(**{**given, **more})


def test_what_was_given_is_there() -> None:
    given = params(local_addr="here", colour="red")
    assert (given.backend, given.endpoint, given.run_id) == ("b", "e", "r")
    assert (given.min_nodes, given.max_nodes, given.local_addr) == (1, 2, "here")
    assert given.get("colour") == "red"
    assert given.get("size") is None
    assert given.get("size", 1) == 1


def over_memory(**given: Any) -> DynamicRendezvousHandler:
    return DynamicRendezvousHandler.from_backend(
        given["run_id"], None, MemoryBackend(), given["min_nodes"], given["max_nodes"]
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"backend": ""}, "backend must be a non-empty text"),
        ({"backend": None}, "backend must be a non-empty text"),
        ({"run_id": ""}, "run_id must be a non-empty text"),
        ({"min_nodes": 0}, "at least 1 node"),
        ({"min_nodes": -1}, "at least 1 node"),
        ({"min_nodes": 3}, "less than min_nodes"),
        ({"max_nodes": 0}, "less than min_nodes"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        params(**wrong)
    if "backend" not in wrong:
        with pytest.raises(ValueError, match=says):
            over_memory(**{"run_id": "r", "min_nodes": 1, "max_nodes": 2, **wrong})


@pytest.mark.parametrize("value", [0, -1, "0", "-0.5", "nan", "inf", "soon", []])
@pytest.mark.parametrize(
    "name",
    [
        "join_timeout",
        "last_call_timeout",
        "close_timeout",
        "heartbeat_timeout",
        "keep_alive_interval",
        "keep_alive_max_attempt",
    ],
)
def test_wrong_timeouts_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        params(**{name: value}).timeouts()


YES: list[object] = ["1", "True", "t", "yes", "y", 1, True]
NO: list[object] = ["0", "False", "f", "NO", "n", 0, False]
NEITHER: list[object] = ["maybe", "", 2, 1.0, []]


def test_yes_and_no() -> None:
    assert [params(x=each).get_as_bool("x") for each in YES] == [True] * len(YES)
    assert [params(x=each).get_as_bool("x") for each in NO] == [False] * len(NO)
    assert params().get_as_bool("x") is None
    assert params().get_as_bool("x", True) is True
    for each in NEITHER:
        with pytest.raises(ValueError, match="'x' must be yes or no"):
            params(x=each).get_as_bool("x")


def test_whole_numbers() -> None:
    assert params(x="7").get_as_int("x") == 7
    assert params().get_as_int("x") is None
    assert params().get_as_int("x", 3) == 3
    wrongs: tuple[object, ...] = ("seven", [], "")
    for wrong in wrongs:
        with pytest.raises(ValueError, match="'x' must be a whole number"):
            params(x=wrong).get_as_int("x")


class Named:
    """A handler, with only the parts that a registry looks at."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def get_backend(self) -> str:
        return self.backend


def make(given: RendezvousParameters) -> RendezvousHandler:
    return cast("RendezvousHandler", Named(given.get("says", given.backend)))


def test_a_registry_makes_handlers_by_name() -> None:
    registry = RendezvousHandlerRegistry()
    registry.register("b", make)
    registry.register("b", make)
    assert registry.create_handler(params()).get_backend() == "b"
    with pytest.raises(ValueError, match="registered already"):
        registry.register("b", lambda _: make(params()))
    with pytest.raises(ValueError, match="must be a non-empty text"):
        registry.register("", make)
    with pytest.raises(ValueError, match="there are: b"):
        registry.create_handler(params(backend="c"))
    with pytest.raises(RuntimeError, match="'other'"):
        registry.create_handler(params(says="other"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("c10d", r"C10dRendezvousBackend\(store, run_id\)"),
        ("etcd", r"EtcdRendezvousBackend\(client, run_id\)"),
        ("etcd-v2", r"EtcdRendezvousBackend\(client, run_id\)"),
        ("static", "order=rank"),
    ],
)
def test_a_name_of_torchs_registry_has_its_replacement(name: str, says: str) -> None:
    with pytest.raises(NotImplementedError, match=says):
        rendezvous_handler_registry.create_handler(params(backend=name))
    registry = RendezvousHandlerRegistry()
    creator: RendezvousHandlerCreator = make
    registry.register(name, creator)  # a user's own
    assert registry.create_handler(params(backend=name)).get_backend() == name


def test_torchs_handler_over_etcd_2_has_its_replacement() -> None:
    with pytest.raises(NotImplementedError, match=r"DynamicRendezvousHandler.from_backend"):
        EtcdRendezvousHandler(None, "127.0.0.1")


class OfTorch:
    """An object as torch's `RendezvousTimeout`, which some installations lack."""

    join = timedelta(seconds=9)
    last_call = timedelta(seconds=8)
    close = timedelta(seconds=7)
    heartbeat = timedelta(milliseconds=500)


def test_torchs_timeouts_are_converted() -> None:
    converted = Timeouts(join=9, last_call=8, close=7, heartbeat=0.5)
    assert Timeouts.of(OfTorch()) == converted
    assert Timeouts.of(converted) is converted
    assert Timeouts.of(None) == Timeouts()
    assert Timeouts(keep_alive=cast("Any", timedelta(seconds=2))).silence == 6
    wrongs: tuple[object, ...] = (5, {"join": 5}, timedelta(seconds=5), object())
    for wrong in wrongs:
        with pytest.raises(TypeError, match="timeouts must be"):
            Timeouts.of(wrong)
    with pytest.raises(ValueError, match="join must be more than 0"):
        Timeouts(join=cast("Any", timedelta(0)))
    with pytest.raises(TypeError, match="attempts must be a number"):
        Timeouts(attempts=cast("Any", timedelta(1)))


@pytest.mark.parametrize("own", [True, False], ids=["ours", "torchs"])
def test_a_handler_by_parameters(own: bool) -> None:
    """As torch's `create_handler`, and its `from_backend` with all arguments by position."""
    kind: Any = RendezvousParameters
    if not own:
        torch = pytest.importorskip("torch.distributed.elastic.rendezvous", reason="no torch here")
        kind = torch.RendezvousParameters
    more = {"last_call_timeout": "0.1", "join_timeout": "5"} if own else {"last_call_timeout": "1"}
    node = create_handler(None, MemoryBackend(), kind("any", "", "run", 1, 1, "here", **more))
    assert (node.get_run_id(), node.get_backend()) == ("run", "memory")
    assert not node.use_agent_store
    assert node.next_rendezvous().world_size == 1
    assert node.shutdown()
    with pytest.raises(ValueError, match="last_call_timeout"):
        create_handler(
            None, MemoryBackend(), kind("any", "", "run", 1, 1, last_call_timeout="soon")
        )
    timeout: Any = OfTorch()
    node = DynamicRendezvousHandler.from_backend(
        "run", None, MemoryBackend(), 1, 1, "here", timeout, 0.1, 2
    )
    assert node.next_rendezvous().rank == 0
    assert node.shutdown()
    with pytest.raises(TypeError, match="timeouts must be"):
        DynamicRendezvousHandler.from_backend(
            "run", None, MemoryBackend(), 1, 1, timeout=cast("Any", 30.0)
        )
