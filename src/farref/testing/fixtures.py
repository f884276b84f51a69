"""The fixtures of `pytest_farref`, for a pytest that loads no plug-ins automatically.

In a ``conftest.py``: ``pytest_plugins = ["farref.testing.fixtures"]``. It does no harm elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_farref

if TYPE_CHECKING:
    import pytest

NAME = "farref"
"""The plug-in's name, for pytest."""


def pytest_configure(config: pytest.Config) -> None:
    """Load the plug-in, unless it is loaded."""
    plugins = config.pluginmanager
    if not plugins.has_plugin(NAME) and not plugins.is_registered(pytest_farref):
        plugins.register(pytest_farref, NAME)
