"""Creating workers and actors: from a program, and from functions that run on workers.

The registrar creates them for every asker. So they end with the system, not with the asker.

Thespian makes an actor without arguments, before the actor is an endpoint, and only logs an error
of its ``__init__``. So a class with an ``__init__`` of its own gets a subclass with an empty one,
which holds back the messages that come. Then its creator calls `construct` there, with the
arguments, like any function: so references travel in them, ``__init__`` may use references, and
its errors come back.
"""

from __future__ import annotations

import inspect
import os
import types
from typing import Any

from thespian.actors import ActorAddress, ActorExitRequest

from ...protocol.errors import CreationError, FarrefError
from ...protocol.ids import is_name
from ...serialization.failures import text_of
from ..cluster import hosts
from ..core.current import frame
from ..handles.front import Front
from ..shells import surroundings
from ..shells.ref_actor import RefActor, construct, wait_to_begin
from ..shells.surroundings import Folder, Variables
from ..shells.worker import Worker
from ..wire.messages import WorkerInfo
from ..wire.settings import THREADS


def worker(
    name: str,
    *,
    threads: int = THREADS,
    on: str | dict[str, Any] | None = None,
    env: Variables | None = None,
    cwd: Folder | None = None,
) -> WorkerInfo:
    """Create a worker of this system and wait until it runs, as `System.worker` does.

    For functions that run on workers, and for code without the `System` at hand. The worker ends
    with the system, not with its creator. Blocks. If *on* is None, it runs on the caller's host. It
    begins with the variables, the folder and the search path of the calling process.

    Raises the errors of `System.worker`, and `WouldBlockError` in a handler and in an `async def`
    function: write ``await asyncio.to_thread(farref.worker, name)`` there.
    """
    front: Front = frame().core.front
    advice = "`await asyncio.to_thread(farref.worker, name)`"
    front.core.check_may_block("the new worker", advice)
    return create_worker(front, name, threads, on, env=env, cwd=cwd)


def create(
    actor_class: type[RefActor],
    name: str | None = None,
    *,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    requirements: dict[str, Any] | None = None,
    on: str | dict[str, Any] | None = None,
) -> ActorAddress:
    """Create an actor of this system and wait until it runs, as `System.create` does.

    The same as `worker` is for workers. In a `RefActor`, `createActor` makes a child of that actor;
    this makes an actor that ends with the system.

    Raises the errors of `System.create`, and `WouldBlockError` in a handler and in an `async def`
    function: write ``await asyncio.to_thread(farref.create, actor_class)`` there.
    """
    front: Front = frame().core.front
    advice = "`await asyncio.to_thread(farref.create, actor_class)`"
    front.core.check_may_block("the new actor", advice)
    return create_actor(
        front, actor_class, name, args=args, kwargs=kwargs or {}, requirements=requirements, on=on
    )


def create_worker(
    front: Front,
    name: str,
    threads: int,
    on: str | dict[str, Any] | None,
    *,
    env: Variables | None,
    cwd: Folder | None,
) -> WorkerInfo:
    made = _spawn(front, Worker, name, threads=threads, on=on, env=env, cwd=cwd)
    front.placing.renew()
    return made


def create_actor(
    front: Front,
    actor_class: type,
    name: str | None,
    *,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    requirements: dict[str, Any] | None,
    on: str | dict[str, Any] | None,
) -> ActorAddress:
    if not hasattr(actor_class, "_is_ref_actor"):
        raise TypeError(
            f"farref.create needs a class of RefActors, not {actor_class!r}; a plain actor is "
            "created by System.create, or by the createActor of another actor"
        )
    _check_arguments(actor_class, args, kwargs)
    if name is None:
        name = f"{actor_class.__name__}-{os.urandom(3).hex()}"
    if actor_class.__init__ is RefActor.__init__:  # type: ignore[misc]  # this very class's
        return _spawn(front, actor_class, name, requirements=requirements, on=on).address
    actor = _spawn(front, _waiting(actor_class), name, requirements=requirements, on=on)
    plain = not args and not kwargs
    try:
        front.calls.call(actor, (construct, args, kwargs), None, ()).result()
    except BaseException as error:
        front.core.port.post(actor.address, ActorExitRequest())
        if plain and not isinstance(error, FarrefError) and isinstance(error, Exception):
            text = text_of(error)
            kind = type(error).__name__ + (f": {text}" if text else "")
            raise CreationError(
                f"actor {name!r} could not be created: its __init__ raised {kind}"
            ) from error
        raise
    return actor.address


def _check_arguments(actor_class: Any, args: Any, kwargs: Any) -> None:
    if not isinstance(args, tuple | list) or not isinstance(kwargs, dict):
        raise TypeError(f"args must be a tuple and kwargs a dict, not {args!r} and {kwargs!r}")
    try:
        signature = inspect.signature(actor_class.__init__)
    except ValueError:  # it is written in C: the call itself will tell
        return
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"{actor_class.__name__}.__init__: {error}; pass its arguments to `create` as "
            "args=(...) and kwargs={...}"
        ) from None


def _waiting(actor_class: type) -> type:
    """A subclass of *actor_class*. Its instances get that class when `construct` begins."""

    def fill(body: dict[str, Any]) -> None:
        body |= {
            # Its name is for errors. In the class's own module it would take the class's place.
            "__module__": f"{actor_class.__module__}.to_construct",
            "__slots__": (),  # so an instance can become one of *actor_class*
            "__init__": wait_to_begin,
        }

    return types.new_class(actor_class.__name__, (actor_class,), {}, fill)


def _spawn(
    front: Front,
    actor_class: type,
    name: str,
    *,
    on: str | dict[str, Any] | None,
    requirements: dict[str, Any] | None = None,
    threads: int | None = None,
    env: Variables | None = None,
    cwd: Folder | None = None,
) -> WorkerInfo:
    if not is_name(name):
        raise ValueError(f"a worker's name must be a non-empty text in UTF-8, not {name!r}")
    if threads is not None and threads < 1:
        raise ValueError(f"a worker needs at least 1 thread, not {threads}")
    there = surroundings.of_this_process(env, cwd, apart=front.core.port.runs_by_itself)
    registrar_client, settings = front.registrar_client, front.core.settings
    with front.core.pool.waiting():
        if on is not None:
            on = hosts.wait_for(registrar_client, on, settings.system, settings.timeout)
        return registrar_client.spawn(
            actor_class,
            name=name,
            requirements=requirements,
            threads=threads,
            on=on,
            surroundings=there,
        )
