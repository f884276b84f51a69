"""The names of PyTorch that `farref.rpc` lacks, each with its replacement.

Some are in other modules of torch, and so are there although the import of `rpc` was replaced.
There they would say that RPC has not been initialized. While this process is a rank, they name the
replacement instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

GRADIENTS = (
    "send gradients as values, and apply them where the parameters are, as in "
    "docs/howto/port-pytorch.md"
)
OPTIMIZERS = "give each process an optimizer of its own, and call its step()"
INSTEAD = {
    "autograd": GRADIENTS,
    "dist_autograd": GRADIENTS,
    "backward": GRADIENTS,
    "context": GRADIENTS,
    "get_gradients": GRADIENTS,
    "DistributedOptimizer": OPTIMIZERS,
    "server_process_global_profile": "use OpenTelemetry spans: docs/observability.md",
    "new_method": "call `rref.rpc_sync()`",
    "method_factory": "call `rref.rpc_sync()`",
}
_OF_TORCH = {
    ("torch.distributed.rpc.api", "_is_current_rpc_agent_set"): (
        "torch.distributed.rpc, and with it DistributedOptimizer: call farref.rpc; instead of a "
        f"distributed optimizer, {OPTIMIZERS}"
    ),
    ("torch.distributed.nn.api.remote_module.RemoteModule", "_prepare_init"): (
        "torch.distributed.nn.RemoteModule: use farref.rpc.RemoteModule"
    ),
    ("torch.distributed.autograd", "_new_context"): f"torch.distributed.autograd: {GRADIENTS}",
}
"""For functions of torch's (or methods of a class) that fail without its RPC: the replacement."""
_theirs: dict[tuple[str, str], Any] = {}


def refuse(name: str) -> NoReturn:
    """Name the replacement of *name*.

    Raises:
        ImportError: *name* is imported: Python would replace the text of an `AttributeError`.
        AttributeError: otherwise.
    """
    instead = INSTEAD.get(name)
    said = f"module 'farref.rpc' has no attribute {name!r}"
    if instead is None:
        raise AttributeError(said)
    said = f"{said}; instead, {instead}"
    if sys._getframe(2).f_code.co_name == "_handle_fromlist":
        raise ImportError(said)
    raise AttributeError(said)


def name_replacements(rank: bool) -> None:
    """Have torch's functions name the replacement while this process is a *rank*."""
    for (place, name), instead in _OF_TORCH.items():
        module = sys.modules.get(place) or getattr(
            sys.modules.get(place.rpartition(".")[0]), place.rpartition(".")[2], None
        )
        if module is None:
            continue
        theirs = _theirs.pop((place, name), None)
        if rank:
            theirs = _theirs[place, name] = getattr(module, name)
            setattr(module, name, _naming(theirs, instead))
        elif theirs is not None:
            setattr(module, name, theirs)


def _naming(theirs: Callable[..., Any], instead: str) -> Callable[..., Any]:
    def ask(*args: Any) -> Any:
        cause = None
        try:
            answer = theirs(*args)
        except (RuntimeError, AssertionError) as error:
            answer, cause = None, error
        if answer is None or (answer is False and not args):
            raise NotImplementedError(
                f"this process is a rank of farref.rpc, not of {instead}"
            ) from cause
        return answer

    return ask
