"""The meeting point of the ranks, as PyTorch's init_method names it."""

import pytest

from farref.rpc.meeting import meet

ENV = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "FARREF_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.usefixtures("env")
def test_the_environment_says_all() -> None:
    found = meet("env://", -1, None)
    assert (found.rank, found.size, found.host, found.port) == (1, 3, "127.0.0.1", 29500)
    assert found.is_here
    assert not found.is_open
    assert meet("env://", 2, 4).size == 4, "arguments win"


@pytest.mark.usefixtures("env")
def test_all_ranks_find_the_same_system() -> None:
    assert meet("env://", 0, 2).system == meet("tcp://127.0.0.1:29500", 1, 2).system
    assert meet("env://", 0, 2).system != meet("tcp://127.0.0.1:29501", 1, 2).system


def test_torchruns_agent_listens_on_the_port_itself(env: pytest.MonkeyPatch) -> None:
    env.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    assert meet("env://", -1, None).port == 29501


def test_a_restarted_world_is_another_one(env: pytest.MonkeyPatch) -> None:
    before = meet("env://", -1, None).system
    env.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert meet("env://", -1, None).system != before


def test_a_url_may_have_the_rank() -> None:
    found = meet("tcp://127.0.0.1:1234?rank=1&world_size=2", -1, None)
    assert (found.rank, found.size) == (1, 2)
    found = meet("file:///tmp/meeting?rank=0&world_size=2", -1, -1)
    assert (found.rank, found.size, found.host) == (0, 2, None)
    assert found.is_here


@pytest.mark.parametrize("variable", ENV)
def test_a_missing_variable_is_named(variable: str, env: pytest.MonkeyPatch) -> None:
    env.delenv(variable)
    with pytest.raises(ValueError, match=variable):
        meet("env://", -1, None)


@pytest.mark.parametrize(
    ("method", "rank", "size", "said"),
    [
        ("http://a:1", 0, 1, "must be env://"),
        ("tcp://a", 0, 1, "tcp://host:port"),
        ("tcp://a:99999", 0, 1, "range"),
        ("file://", 0, 1, "names no file"),
        ("tcp://127.0.0.1:1", -1, 2, "rank"),
        ("tcp://127.0.0.1:1", -3, None, "rank -3"),
        ("tcp://127.0.0.1:1?rank=x", -1, 2, "number"),
        ("tcp://127.0.0.1:1", 2, 2, "0 to world_size - 1"),
        ("tcp://127.0.0.1:1", 0, 0, "0 to world_size - 1"),
    ],
)
def test_what_makes_no_sense(method: str, rank: int, size: int | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        meet(method, rank, size)


def test_ranks_of_other_machines_need_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FARREF_KEY", raising=False)
    afar = meet("tcp://192.0.2.1:1234", 1, 2)  # an address for documentation: nobody has it
    assert not afar.is_here
    assert not afar.is_open
    monkeypatch.setenv("FARREF_KEY", "farref.key")
    assert meet("tcp://192.0.2.1:1234", 1, 2).is_open
    assert not meet("tcp://127.0.0.1:1234", 1, 2).is_open, "nobody else can dial a loopback"
