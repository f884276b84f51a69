"""The programs whose every order is explored.

A program is worth its states if it violates a negative property that no smaller one does,
or catches a mutant that no smaller one catches; say so in ``reaches``.
"""

from .deaths import DEATHS
from .lending import LENDING
from .lending_deaths import LENDING_DEATHS
from .requests import REQUESTS
from .sharing import SHARING

PROGRAMS = (*SHARING, *REQUESTS, *LENDING, *DEATHS, *LENDING_DEATHS)

__all__ = ["DEATHS", "LENDING", "LENDING_DEATHS", "PROGRAMS", "REQUESTS", "SHARING"]
