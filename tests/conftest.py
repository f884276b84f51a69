"""What every test may use."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the trace tests see into tests/traces; commit only diffs you understand",
    )


@pytest.fixture(scope="session")
def rewrite(pytestconfig: pytest.Config) -> bool:
    """Whether a trace test corrects its expected output instead of comparing with it."""
    return bool(pytestconfig.getoption("--rewrite"))
