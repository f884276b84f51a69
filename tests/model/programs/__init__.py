"""The programs whose every order is explored.

A program is worth its states if it violates a negative property that no smaller one does,
or catches a mutant that no smaller one catches; say so in ``reaches``.
"""

from .deaths import DEATHS
from .requests import REQUESTS
from .sharing import SHARING

PROGRAMS = (*SHARING, *REQUESTS, *DEATHS)

__all__ = ["DEATHS", "PROGRAMS", "REQUESTS", "SHARING"]
