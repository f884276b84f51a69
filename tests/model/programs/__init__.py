"""The programs to explore in every order, each in the disciplines that make a difference.

A program is worth its states if it violates a negative property that no smaller program violates,
or catches a mutant that no smaller one catches.
"""

from pathlib import Path

from ..language import read

FILES = (
    *("sharing", "requests", "awaiting", "rings", "lending", "deaths", "lending_deaths"),
    *("aliases", "alias_deaths", "cycles", "streams"),
)
BY_FILE = {f"{name}.txt": tuple(read(Path(__file__).with_name(f"{name}.txt"))) for name in FILES}
"""The programs of each file of this folder."""
PROGRAMS = tuple(program for programs in BY_FILE.values() for program in programs)
