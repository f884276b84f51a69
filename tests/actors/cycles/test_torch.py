"""Rings through PyTorch's objects, which C++ code may know and give out."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from farref import System, remote, rpc_sync

from .test_collecting import HELD, Node, assert_goes, assert_stays, ids
from .test_kinds import open_all

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.long,
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="torch is not installed here"
    ),
]


class Model(Node):
    """A node that holds its neighbour through an object of torch's; *kept* is what code keeps."""

    def enclose(self, how: str, ref: Any, keep: bool) -> None:
        inside, kept = MAKE[how](ref)
        self.links.append(inside)
        if keep:
            HELD["kept"] = kept, how


def _module(ref: Any) -> Any:
    import torch

    module = torch.nn.Linear(2, 2)
    module.ref = ref
    return module, module


def _buffer(ref: Any) -> Any:
    """Code keeps the module; the value has only a tensor of it."""
    import torch

    module = torch.nn.Linear(2, 2)
    module.weight.ref = ref
    return module.weight, module


def _graph(ref: Any) -> Any:
    """Code keeps a result; the graph behind it, in C++, leads to the tensor."""
    import torch

    leaf = torch.ones(2, requires_grad=True)
    leaf.ref = ref
    return leaf, leaf * 2


def _hook(ref: Any) -> Any:
    """Code keeps a result; the graph behind it leads to a hook."""
    import torch

    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(lambda grad: grad * bool(ref.owner_name()))
    return leaf, leaf.sum()


def _function(ref: Any) -> Any:
    """Code keeps a result; the function that made it has the reference."""
    import torch

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, given: Any) -> Any:
            ctx.ref = ref
            return given * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    result = Twice.apply(torch.ones(2, requires_grad=True))
    return result.grad_fn, result


def _view(ref: Any) -> Any:
    """Code keeps a view; C++ leads from it to its base."""
    import torch

    base = torch.ones(4)
    base.ref = ref
    return base, base[:2]


def _grad(ref: Any) -> Any:
    """Code keeps a tensor; C++ leads from it to its gradient."""
    import torch

    leaf = torch.ones(2, requires_grad=True)
    leaf.grad = torch.ones(2)
    leaf.grad.ref = ref
    return leaf.grad, leaf


MAKE: dict[str, Any] = {
    "module": _module,
    "parameter": _buffer,
    "graph": _graph,
    "hook": _hook,
    "function": _function,
    "view": _view,
    "gradient": _grad,
}
FIND: dict[str, Any] = {
    "module": lambda module: module.ref,
    "parameter": lambda module: module.weight.ref,
    "graph": lambda result: result.grad_fn.next_functions[0][0].variable.ref,
    "hook": lambda result: result.backward(),
    "function": lambda result: result.grad_fn.ref,
    "view": lambda view: view._base.ref,
    "gradient": lambda leaf: leaf.grad.ref,
}


class Other(Node):
    """The neighbour of a `Model`."""

    def further(self) -> int:
        """Use the model."""
        count: int = self.links[0].rpc_sync().count()
        return count


def use() -> int:
    """Find the reference from the kept object, and use the whole ring."""
    kept, how = HELD["kept"]
    found = FIND[how](kept)
    if how == "hook":
        return 1  # the hook has used it
    count: int = found.rpc_sync().further()
    return count


def let_go() -> None:
    del HELD["kept"]


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(timeout=60) as made:
        made.worker("B")
        made.worker("C")
        yield made


def ring(how: str, *, keep: bool) -> list[Any]:
    nodes = [remote("B", Model), remote("C", Other)]
    nodes[1].rpc_sync().link(nodes[0])
    nodes[0].rpc_sync().enclose(how, nodes[1], keep)
    return nodes


@pytest.mark.parametrize("how", MAKE)
def test_a_ring_that_code_reaches_through_torch_stays(system: System, how: str) -> None:
    names = ids(nodes := ring(how, keep=True))
    nodes.clear()
    assert_stays(system, names)
    assert rpc_sync("B", use) == 1
    rpc_sync("B", let_go)


@pytest.mark.parametrize("how", MAKE)
def test_a_ring_through_torch_goes_when_it_is_opened(system: System, how: str) -> None:
    names = ids(nodes := ring(how, keep=False))
    nodes.clear()
    if how != "module":  # that is an object of Python's, and needs no help
        assert_stays(system, names)
        rpc_sync("B", open_all)
    assert_goes(system, names)
