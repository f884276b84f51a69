"""The asyncio of a loop, loaded when the first loop of a process begins.

It takes a sixth of the time and of the memory of `import farref`, and most processes need none.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from .turns import in_turns

LAST_AWAITS = 1.0
"""Seconds that cancelled work has to end."""


class NamedTask(asyncio.Task[Any]):
    """A task of `make_task`. From Python 3.12 on, a loop sets its name to None if none is given."""

    def set_name(self, value: object) -> None:
        """Set the name, unless *value* is None."""
        if value is not None:
            super().set_name(value)


def make_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(make_task)
    return loop


def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a task on an endpoint's loop. A task that a method starts takes turns, too."""
    return NamedTask(in_turns(coroutine, options.get("context")), loop=loop, **options)


def run(loop: asyncio.AbstractEventLoop, *, cancels: bool) -> None:
    """Run *loop* in this thread until it is stopped.

    With *cancels*, work that still awaits then is cancelled, and has `LAST_AWAITS` to clean up.
    """
    asyncio.set_event_loop(loop)
    loop.run_forever()
    if cancels:
        _cancel_all(loop)


def close(loop: asyncio.AbstractEventLoop) -> Iterator[asyncio.Task[Any]]:
    """Close *loop*, after its coroutines that have not started. Yields the tasks of these."""
    # The remaining tasks wait for nothing any more. Python would only complain about them,
    # wherever the collector happens to run.
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio has it, typeshed does not
        coroutine = task.get_coro()
        if (
            inspect.iscoroutine(coroutine)
            and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
        ):
            coroutine.close()
            yield task
    loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what still awaits, and give its `except` and `finally` a moment."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_AWAITS))
    with contextlib.suppress(Exception):
        loop.run_until_complete(loop.shutdown_asyncgens())
