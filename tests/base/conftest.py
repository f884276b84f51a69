"""Every module of these tests leaves no socket behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from thespian.actors import ActorSystem

from farref.actors.base.poller import Poller

from ..waiting import eventually
from .kit import running, sockets


@pytest.fixture(autouse=True, scope="module")
def no_socket_left() -> Iterator[None]:
    before = set(sockets())  # those of an earlier test's system that is just ending may go
    yield
    with contextlib.suppress(AssertionError):
        eventually(lambda: set(sockets()) <= before)
    assert set(sockets()) - before == set()


@pytest.fixture
def poller() -> Iterator[Poller]:
    made = Poller(spin=0.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_system(no_socket_left: None) -> Iterator[ActorSystem]:
    """One system for a module's tests that do not change it."""
    with running() as started:
        yield started


@pytest.fixture
def system(shared_system: ActorSystem) -> Iterator[ActorSystem]:
    """A context of the shared system that gets no messages of former tests."""
    with shared_system.private() as context:
        yield context
