"""What `farref.rpc` says to wrong arguments, and about the things it lacks."""

import concurrent.futures
import math
import socket
import subprocess
import sys
from typing import Any

import pytest

import farref
from farref import System, rpc

from ..ports import free_port


def test_before_init_rpc_everything_says_so() -> None:
    for call in (rpc.shutdown, rpc.get_worker_info, lambda: rpc.rpc_sync(0, int)):
        with pytest.raises(RuntimeError, match="init_rpc"):
            call()


def test_names_and_options_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="non-empty"):
        rpc.init_rpc("", rank=0, world_size=1)
    with pytest.raises(TypeError, match="TensorPipeRpcBackendOptions"):
        rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=5)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="rpc_timeout"):
        rpc.TensorPipeRpcBackendOptions(rpc_timeout=-1)
    with pytest.raises(ValueError, match="num_worker_threads"):
        rpc.TensorPipeRpcBackendOptions(num_worker_threads=0)


def test_no_limit() -> None:
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=0)
    assert options.limit == math.inf
    options.rpc_timeout = 5
    assert options.limit == 5


def test_what_it_lacks_names_the_replacement() -> None:
    options = rpc.TensorPipeRpcBackendOptions()
    with pytest.raises(NotImplementedError, match="cpu"):
        options.set_device_map("worker1", {0: 1})
    with pytest.raises(NotImplementedError, match="cpu"):
        rpc.TensorPipeRpcBackendOptions(devices=[0])
    with pytest.raises(NotImplementedError, match="cpu"):
        rpc.RRef(1, devices=[0])
    for name in ("DistributedOptimizer", "RemoteModule", "autograd"):
        with pytest.raises(AttributeError, match="instead"):
            getattr(rpc, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        rpc.nonsense  # noqa: B018 - it is the test


def test_it_has_all_of_its_names() -> None:
    for name in rpc.__all__:
        assert getattr(rpc, name) is not None


def test_ranks_far_away_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FARREF_KEY", raising=False)
    options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://192.0.2.1:1234")
    with pytest.raises(ValueError, match="FARREF_KEY"):
        rpc.init_rpc("worker1", rank=1, world_size=2, rpc_backend_options=options)


def test_a_name_that_does_not_resolve_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank may start before the DNS record of rank 0's machine."""
    tried, real = [], socket.getaddrinfo

    def later(host: Any, *args: Any, **more: Any) -> Any:
        if host != "first.job":
            return real(host, *args, **more)
        tried.append(host)
        if len(tried) < 3:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real("127.0.0.1", *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", later)
    point = f"tcp://first.job:{free_port('127.0.0.1')}"
    rpc.init_rpc(
        "a",
        rank=0,
        world_size=1,
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=point),
    )
    rpc.shutdown()
    options = rpc.TensorPipeRpcBackendOptions(
        init_method="tcp://no-such-host.invalid:1", rpc_timeout=0.1
    )
    with pytest.raises(ValueError, match=r"cannot resolve host 'no-such-host.invalid'"):
        rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)


def test_async_execution_needs_a_future() -> None:
    wrong = rpc.functions.async_execution(lambda: 5)
    with pytest.raises(RuntimeError, match="must return"):
        wrong()


def test_other_futures_become_ours() -> None:
    with System("simpleSystemBase"):
        theirs: concurrent.futures.Future[int] = concurrent.futures.Future()
        ours = rpc.functions.async_execution(lambda: theirs)()
        assert not ours.done()
        theirs.set_result(5)
        assert ours.wait() == 5
        broken: concurrent.futures.Future[int] = concurrent.futures.Future()
        broken.set_exception(KeyError("x"))
        with pytest.raises(KeyError):
            rpc.functions.async_execution(lambda: broken)().wait()


def test_waiting_for_all() -> None:
    with System("simpleSystemBase"):
        futures: list[rpc.Future[int]] = [rpc.Future() for _ in range(3)]
        together = rpc.collect_all(futures)
        for number, future in enumerate(futures):
            assert not together.done()
            future.set_result(number)
        assert [each.wait() for each in together.wait()] == [0, 1, 2]
        assert rpc.wait_all(futures) == [0, 1, 2]
        assert rpc.collect_all([]).wait() == []
        failed: rpc.Future[int] = rpc.Future()
        failed.set_exception(KeyError("x"))
        with pytest.raises(KeyError):
            rpc.wait_all([futures[0], failed])


def test_farref_alone_does_not_import_it() -> None:
    code = "import sys, farref; sys.exit('farref.rpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("hint", [list, list[int], list[int] | None, None])
def test_a_type_hint(hint: object) -> None:
    with System("simpleSystemBase"):
        ref = rpc.RRef([1], hint)
        assert ref.local_value() == [1]
        assert isinstance(ref, rpc.RRef)


def test_a_function_is_no_type_hint() -> None:
    with System("simpleSystemBase"), pytest.raises(TypeError, match="on_delete"):
        rpc.RRef([1], print)


@pytest.mark.parametrize("hint", [list, list[int]])
def test_a_type_hint_in_farref_itself(hint: Any) -> None:
    with System("simpleSystemBase"), pytest.raises(TypeError, match=r"farref\.rpc\.RRef"):
        farref.RRef([1], hint)
    with System("simpleSystemBase"), pytest.raises(TypeError, match="function"):
        farref.RRef([1], 5)  # type: ignore[arg-type]  # wrong on purpose
