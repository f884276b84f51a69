"""The fixtures of `pytest_farref` where pytest loads no plug-ins by itself.

In a ``conftest.py``: ``pytest_plugins = ["farref.testing.fixtures"]``. It does no harm elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_farref

if TYPE_CHECKING:
    import pytest

NAME = "farref"
"""Of the plug-in, as pytest finds it by itself."""


def pytest_configure(config: pytest.Config) -> None:
    """Load the plug-in, unless that has been done."""
    plugins = config.pluginmanager
    if not plugins.has_plugin(NAME) and not plugins.is_registered(pytest_farref):
        plugins.register(pytest_farref, NAME)
