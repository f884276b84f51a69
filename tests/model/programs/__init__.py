"""The programs to explore in every order, each in the disciplines that make a difference.

A program is worth its states if it violates a negative property that no smaller program violates,
or catches a mutant that no smaller one catches. ``reaches`` names these properties.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from farref.protocol.sharing import DISCIPLINES

from ..script import Ask, Method, Pickle, Remote, Script
from ..world import Program
from .alias_deaths import ALIAS_DEATHS
from .aliases import ALIASES
from .awaiting import AWAITING, RINGS_AND_AWAITS
from .cycles import CYCLES
from .deaths import DEATHS
from .lending import LENDING
from .lending_deaths import LENDING_DEATHS
from .requests import REQUESTS
from .rings import RINGS
from .sharing import SHARING


def lends(script: Script) -> bool:
    """Whether a call in *script* has a reference in its arguments."""
    for action in script:
        match action:
            case Ask(refs=refs) | Method(refs=refs) | Remote(refs=refs) if refs:
                return True
            case Pickle(for_call=True):
                return True
            case _:
                if any(lends(getattr(action, part, ())) for part in ("body", "then")):
                    return True
    return False


def in_disciplines(programs: Iterable[Program]) -> Iterator[Program]:
    """Each program by forking; if it lends, in the other disciplines, too."""
    for program in programs:
        if not any(lends(script) for script in program.scripts.values()):
            yield program
            continue
        for sharing in DISCIPLINES:
            yield replace(
                program,
                name=program.name if sharing == "fork" else f"{program.name} [{sharing}]",
                sharing=sharing,
                reaches=(*program.reaches, *program.reaches_in.get(sharing, ())),
                slow=program.slow or sharing in program.slow_in,
            )


BY_FILE = {
    "sharing.py": tuple(in_disciplines(SHARING)),
    "requests.py": tuple(in_disciplines(REQUESTS)),
    "awaiting.py": (*in_disciplines(AWAITING), *RINGS_AND_AWAITS),
    "rings.py": RINGS,
    "lending.py": tuple(in_disciplines(LENDING)),
    "deaths.py": tuple(in_disciplines(DEATHS)),
    "lending_deaths.py": tuple(in_disciplines(LENDING_DEATHS)),
    "aliases.py": tuple(in_disciplines(ALIASES)),
    "alias_deaths.py": tuple(in_disciplines(ALIAS_DEATHS)),
    "cycles.py": tuple(in_disciplines(CYCLES)),
}
"""The programs of each file of this folder."""
PROGRAMS = tuple(program for programs in BY_FILE.values() for program in programs)

__all__ = ["BY_FILE", "PROGRAMS"]
