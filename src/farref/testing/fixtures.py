"""Loads the fixtures of `pytest_farref` if pytest does not load plug-ins by itself.

Write ``pytest_plugins = ["farref.testing.fixtures"]`` in ``conftest.py``. If pytest has loaded the
plug-in already, this changes nothing.
"""

from __future__ import annotations

import pytest

import pytest_farref

NAME = "farref"
"""The plug-in's name, for pytest."""


def pytest_configure(config: pytest.Config) -> None:
    """Load the plug-in, unless it is loaded."""
    plugins = config.pluginmanager
    if not plugins.has_plugin(NAME) and not plugins.is_registered(pytest_farref):
        plugins.register(pytest_farref, NAME)
