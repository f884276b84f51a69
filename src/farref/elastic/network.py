"""An agent's address, its threads, and calls that may hang."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from ..actors.base import addresses, tcp
from ..actors.base.errors import BaseError
from ..actors.base.lacks import hint
from ..protocol.errors import RendezvousConnectionError

T = TypeVar("T")


def own_address(host: str, port: int) -> str:
    """The address by which others reach this machine, given one that all of them reach."""
    if addresses.is_here(host):
        return host
    try:
        return tcp.address_seen_by(host, port)
    except BaseError:
        return socket.getfqdn()


def start_thread(name: str, run: Callable[..., object], *arguments: Any) -> threading.Thread:
    """Start a thread that runs *run*. Raises `RendezvousConnectionError` if that is impossible."""
    thread = threading.Thread(target=run, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise RendezvousConnectionError(f"{error} for {name}{hint(error)}") from error
    return thread


def within(
    seconds: float, what: str, call: Callable[[], T], unless: Callable[[], bool] = lambda: False
) -> T:
    """The result of *call*, which may hang; else `RendezvousConnectionError`, about *what*.

    The wait also ends when *unless* becomes true. The call then hangs on in its thread: a client of
    a `TCPStore` waits for ever if it connects to another program that never answers.
    """
    done: Future[T] = Future()

    def run(done: Future[T]) -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # for the caller
            done.set_exception(error)

    start_thread("farref-rendezvous-connect", run, done)
    end = time.monotonic() + seconds
    while not done.done():
        if time.monotonic() >= end:
            raise RendezvousConnectionError(f"{what} did not answer in {seconds:g} s")
        if unless():
            raise RendezvousConnectionError(f"{what} did not answer before the group changed")
        wait((done,), min(0.1, seconds))
    try:
        return done.result()
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RendezvousConnectionError(f"{what} cannot be reached: {said}") from error
    finally:
        del done  # an error's traceback holds this frame
