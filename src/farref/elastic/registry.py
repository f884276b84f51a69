"""Rendezvous handlers by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .api import RendezvousHandler, RendezvousHandlerCreator
    from .parameters import RendezvousParameters


class RendezvousHandlerRegistry:
    """Who makes the handler of which name."""

    def __init__(self) -> None:
        self._creators: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Let *creator* make the handlers called *backend*.

        Raises:
            ValueError: the name is empty, or somebody else's already.
        """
        if not backend:
            raise ValueError("the name of the rendezvous backend is empty")
        known = self._creators.setdefault(backend, creator)
        if known != creator:
            raise ValueError(f"rendezvous backend {backend!r} is {known}, not {creator}")

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """The handler that *params* ask for.

        Raises:
            ValueError: nobody makes it.
            RuntimeError: what was made has another name.
        """
        if params.backend not in self._creators:
            known = ", ".join(sorted(self._creators)) or "none"
            raise ValueError(f"rendezvous backend {params.backend!r} is not registered ({known})")
        handler = self._creators[params.backend](params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"rendezvous backend {params.backend!r} made a handler that is called "
                f"{handler.get_backend()!r}"
            )
        return handler
