"""What `farref.rpc` says to wrong arguments, and about the things it lacks."""

import concurrent.futures
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

import farref
from farref import System, rpc

from ..ports import free_port


def test_before_init_rpc_everything_says_so() -> None:
    calls: list[Callable[[], object]] = [
        *(rpc.shutdown, rpc.get_worker_info, rpc.get_rpc_timeout, lambda: rpc.RRef(1)),
        *(lambda: rpc.rpc_sync(0, int), lambda: rpc.rpc_async("a", int)),
        lambda: rpc.remote(rpc.WorkerInfo("a", 0), int),
        lambda: rpc.RemoteModule("rank:0", dict),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"call farref.rpc.init_rpc\(\) first"):
            call()
    with one_rank():
        left = rpc.RRef(1)
    for use in (left.rpc_sync().bit_length, left._get_type):
        with pytest.raises(
            RuntimeError, match=r"left by rpc.shutdown\(\).*call init_rpc\(\) again"
        ):
            use()
    with pytest.raises(RuntimeError, match=r"call farref.rpc.init_rpc\(\) first"):
        rpc.RRef(1)


@contextmanager
def one_rank(name: str = "a", timeout: float = 60) -> Iterator[None]:
    """A world of this process alone."""
    options = rpc.TensorPipeRpcBackendOptions(
        init_method=f"tcp://127.0.0.1:{free_port('127.0.0.1')}", rpc_timeout=timeout
    )
    rpc.init_rpc(
        name, backend=rpc.BackendType.TENSORPIPE, rank=0, world_size=1, rpc_backend_options=options
    )
    try:
        yield
    finally:
        rpc.shutdown()


def test_there_is_no_such_rank() -> None:
    with one_rank(timeout=30):
        assert rpc.get_rpc_timeout() == 30
        for rank in (1, -1):
            for call in (rpc.rpc_sync, rpc.rpc_async, rpc.remote):
                with pytest.raises(RuntimeError, match=f"there is no rank {rank}"):
                    call(rank, int)
        for wrong in (0.5, None, True):
            with pytest.raises(ValueError, match="must be a name, a rank or"):
                rpc.rpc_sync(wrong, int)  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(RuntimeError, match="already initialized"), one_rank("b"):
            pass
    with one_rank(timeout=0):
        assert rpc.get_rpc_timeout() == 0


class Scale:
    """As a `torch.nn.Module`."""

    def __init__(self, by: int, *, bias: int = 0) -> None:
        self.by, self.bias = by, bias
        self.training = True

    def __call__(self, x: int) -> int:
        return x * self.by + (self.bias if self.training else 0)

    def parameters(self, recurse: bool) -> list[int]:
        return [self.by, self.bias] if recurse else [self.by]

    def train(self, mode: bool) -> None:
        self.training = mode


def test_a_remote_module() -> None:
    with one_rank():
        for place in ("a", "a/cpu", "rank:0", "rank:0/cpu"):
            module = rpc.RemoteModule(place, Scale, args=(2,), kwargs={"bias": 1})
            assert module.forward(3) == module(3) == module.forward_async(3).wait() == 7
            assert rpc.rpc_sync(0, module.forward, args=(3,)) == 7, "it can be sent"
            assert [each.to_here() for each in module.remote_parameters()] == [2, 1]
            assert [each.to_here() for each in module.remote_parameters(recurse=False)] == [2]
            assert module.eval() is module
            assert not module.training
            assert module(3) == 6
            assert module.train().get_module_rref().rpc_sync()(3) == 7
        with pytest.raises(NotImplementedError, match="cpu"):
            rpc.RemoteModule("a/cuda:0", Scale)
        with pytest.raises(RuntimeError, match="'nobody'"):
            rpc.RemoteModule("nobody", Scale)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchs_modules_name_the_replacement() -> None:
    """Their imports stay torch's, when that of rpc is replaced."""
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    import torch.distributed.autograd as dist_autograd
    from torch.distributed.nn import RemoteModule
    from torch.distributed.optim import DistributedOptimizer

    def uses() -> list[str]:
        said = []
        for use in (
            lambda: dist_autograd.context().__enter__(),
            lambda: DistributedOptimizer(torch.optim.SGD, [rpc.RRef(1)], lr=0.1),
            lambda: RemoteModule("a/cpu", torch.nn.Linear, args=(1, 1)),
            torch.distributed.rpc.get_worker_info,
        ):
            with pytest.raises((NotImplementedError, RuntimeError, AssertionError)) as caught:
                use()
            said.append(str(caught.value))
        return said

    before = uses()
    with one_rank():
        now = uses()
    gradients, optimizer, module, call = now
    assert "send gradients as values" in gradients
    assert "optimizer of its own" in optimizer
    assert "use farref.rpc.RemoteModule" in module
    assert "call farref.rpc" in call
    assert uses() == before, "they are as they were"


def test_names_and_options_that_make_no_sense() -> None:
    with pytest.raises(TypeError, match="Argument backend must be a member of BackendType"):
        rpc.init_rpc("a", "TENSORPIPE", rank=0, world_size=1)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match="a number of seconds"):
        rpc.TensorPipeRpcBackendOptions(rpc_timeout=timedelta(1))  # type: ignore[arg-type]  # wrong on purpose
    for name, why in [("", "non-empty"), ("a b", "must match"), ("a" * 128, "shorter than 128")]:
        with pytest.raises(RuntimeError, match=why):
            rpc.init_rpc(name, rank=0, world_size=1)
        with pytest.raises(ValueError, match=why):
            rpc.WorkerInfo(name, 0)
    with pytest.raises(TypeError, match="must be a text"):
        rpc.init_rpc(1, rank=0, world_size=1)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match="TensorPipeRpcBackendOptions"):
        rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=5)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="rpc_timeout"):
        rpc.TensorPipeRpcBackendOptions(rpc_timeout=-1)
    with pytest.raises(ValueError, match="num_worker_threads"):
        rpc.TensorPipeRpcBackendOptions(num_worker_threads=0)


def test_what_it_lacks_names_the_replacement() -> None:
    options = rpc.TensorPipeRpcBackendOptions()
    with pytest.raises(NotImplementedError, match="cpu"):
        options.set_device_map("worker1", {0: 1})
    with pytest.raises(NotImplementedError, match="cpu"):
        rpc.TensorPipeRpcBackendOptions(devices=[0])
    with pytest.raises(NotImplementedError, match="cpu"):
        rpc.RRef(1, devices=[0])
    for name in ("DistributedOptimizer", "autograd", "backward", "context"):
        with pytest.raises(AttributeError, match="instead"):
            getattr(rpc, name)
        assert not hasattr(rpc, name)
        with pytest.raises(ImportError, match="instead"):
            exec(f"from farref.rpc import {name}", {})
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        rpc.nonsense  # noqa: B018 - it is the test


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
    options = rpc.TensorPipeRpcBackendOptions(init_method=point)
    rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
    rpc.shutdown()
    options = rpc.TensorPipeRpcBackendOptions(
        init_method="tcp://no-such-host.invalid:1", rpc_timeout=0.1
    )
    with pytest.raises(ValueError, match=r"cannot resolve host 'no-such-host.invalid'"):
        rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)


def test_async_execution_needs_a_future() -> None:
    with pytest.raises(RuntimeError, match="must return"):
        rpc.functions.async_execution(lambda: 5)()
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


def test_a_type_hint() -> None:
    with System("simpleSystemBase"):
        for hint in (list, list[int], list[int] | None, None):
            ref = rpc.RRef([1], hint)
            assert ref.local_value() == [1]
            assert isinstance(ref, rpc.RRef)
        with pytest.raises(TypeError, match="on_delete"):
            rpc.RRef([1], print)
        ours: Any = farref.RRef
        for wrong, said in ((list, r"farref\.rpc\.RRef"), (list[int], "rpc"), (5, "function")):
            with pytest.raises(TypeError, match=said):
                ours([1], wrong)
