"""Rings through PyTorch's objects, which C++ code may know and give out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from farref import System, remote, rpc_sync

from ...marks import TORCH
from .rings import HELD, Node, assert_goes, assert_stays, ids, release
from .test_kinds import open_all, with_ref

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.long,
    pytest.mark.processes,
    pytest.mark.timeout(300),
    TORCH,
]


def _ones() -> Any:
    import torch

    return torch.ones(2, requires_grad=True)


def _linear() -> Any:
    import torch

    return torch.nn.Linear(2, 2)


def _module(ref: Any) -> Any:
    module = with_ref(_linear(), ref)
    return module, lambda: module.ref


def _parameter(ref: Any) -> Any:
    """Code keeps the module; the value has only a parameter of it."""
    module = _linear()
    return with_ref(module.weight, ref), lambda: module.weight.ref


def _graph(ref: Any) -> Any:
    """Code keeps a result; the graph behind it, in C++, leads to the tensor."""
    leaf = with_ref(_ones(), ref)
    result = leaf * 2
    return leaf, lambda: result.grad_fn.next_functions[0][0].variable.ref


def _hook(ref: Any) -> Any:
    """Code keeps a result; the graph behind it leads to a hook, which gives out the reference."""
    leaf, given = _ones(), list[Any]()

    def hook(_: Any) -> None:
        given.append(ref)

    leaf.register_hook(hook)
    result = leaf.sum()
    return leaf, lambda: (result.backward(), given.pop())[1]


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

    result = Twice.apply(_ones())
    return result.grad_fn, lambda: result.grad_fn.ref


def _view(ref: Any) -> Any:
    """Code keeps a view; C++ leads from it to its base."""
    base = with_ref(_ones().detach(), ref)
    view = base[:1]
    return base, lambda: view._base.ref


def _grad(ref: Any) -> Any:
    """Code keeps a tensor; C++ leads from it to its gradient."""
    leaf = _ones()
    leaf.grad = with_ref(_ones().detach(), ref)
    return leaf.grad, lambda: leaf.grad.ref


MAKE: dict[str, Callable[[Any], Any]] = {
    "module": _module,
    "parameter": _parameter,
    "graph": _graph,
    "hook": _hook,
    "function": _function,
    "view": _view,
    "gradient": _grad,
}
"""Each returns what the value holds, and a function that finds the reference by what code keeps."""


class Model(Node):
    """A node that holds its neighbour through an object of torch's."""

    def enclose(self, how: str, ref: Any, keep: bool) -> None:
        inside, find = MAKE[how](ref)
        self.links.append(inside)
        if keep:
            HELD["find"] = find


def use() -> int:
    """Find the reference from the kept object, and use the whole ring."""
    count: int = HELD["find"]().rpc_sync().count_next()
    return count


def ring(how: str, *, keep: bool) -> set[str]:
    """The names of a ring that no program has in a variable."""
    nodes: list[Any] = [remote("B", Model), remote("C", Node)]
    nodes[1].rpc_sync().link(nodes[0])
    nodes[0].rpc_sync().enclose(how, nodes[1], keep)
    return ids(nodes)


@pytest.mark.parametrize("how", MAKE)
def test_a_ring_that_code_reaches_through_torch_stays(system: System, how: str) -> None:
    names = ring(how, keep=True)
    assert_stays(system, names)
    assert rpc_sync("B", use) == 1
    rpc_sync("B", release, args=("find",))


@pytest.mark.parametrize("how", MAKE)
def test_a_ring_through_torch_goes_when_it_is_opened(system: System, how: str) -> None:
    names = ring(how, keep=False)
    if how != "module":  # that is an object of Python's, and needs no help
        assert_stays(system, names)
        rpc_sync("B", open_all)
    assert_goes(system, names)
