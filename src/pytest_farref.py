"""The fixture ``farref_system`` for pytest, which finds it by itself where farref is installed.

::

    @pytest.mark.farref(faults=Faults(drop(0.2), seed=7))
    def test_it(farref_system):
        farref_system.worker("B")
        ...

The marker's arguments are those of `farref.System`.

Every run of pytest loads this module. So it is no part of the package: the first test that wants a
system imports farref.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from farref import System

_FAILED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "farref(**arguments): of the System that a test gets")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether the test failed: then its traceback holds what it held."""
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest.fixture
def farref_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system for this test, in which nothing is held when the test has passed."""
    from farref import System  # noqa: PLC0415 - see the module
    from farref.testing import assert_nothing_held  # noqa: PLC0415 - see the module

    marker = request.node.get_closest_marker("farref")
    with System(**({} if marker is None else marker.kwargs)) as system:
        yield system
        # Fixtures that depend on this one are over, but pytest keeps their values for the test.
        request.node.funcargs.clear()
        if request.node.stash.get(_FAILED, False):
            system.shutdown(timeout=0)  # nobody wants to wait for the work of a test that failed
        else:
            assert_nothing_held(system)
