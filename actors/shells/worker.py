"""`Worker`: an actor that runs functions, for programs that need no actor of their own."""

from __future__ import annotations

from typing import Any

from thespian.actors import ActorAddress, ActorSystemMessage

from ...protocol.errors import NoHandlerError
from .ref_actor import RefActor


class Worker(RefActor, handlers=False):
    """Runs functions for `remote`, `rpc_sync` and `rpc_async`; owns the objects of `remote`."""

    def receiveUnrecognizedMessage(self, message: Any, _sender: ActorAddress) -> None:
        """Refuse: a worker has no handlers. The sender gets the error."""
        if isinstance(message, ActorSystemMessage):
            return  # a message of the framework, for instance an exit request
        raise NoHandlerError(
            f"a Worker handles no messages, and got a {type(message).__name__}; call functions on "
            "it with remote or rpc_sync, or create a RefActor with a handler for it"
        )
