"""A few endpoints act at random while messages are lost, links are cut and processes die.

It runs in virtual time, on the same protocol machines as the actors, and is drawn from a seed: the
same seed takes the same course every time.

Look for
  - the faults in the list above the trace; the lanes go on nevertheless;
  - deaths: waits for the dead fail at once; the references of the dead are released a while
    later, when their orphans have made themselves known;
  - the end: every endpoint drops its references, and nothing is left. If a guarantee is broken,
    the last line names it.
"""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from ..console import Console, Text, write_json
from ..simulation import draw, simulate
from ..simulation.plan import DISASTERS
from ..trace import read, show
from .stage import prose, save_story

if TYPE_CHECKING:
    from ..protocol.sharing import Sharing
    from ..simulation import Outcome, Plan
    from ..simulation.plan import Weather

SENTENCE, _, LOOK_FOR = inspect.cleandoc(__doc__ or "").partition("\n")


def run(
    seed: int,
    acts: int,
    sharing: Sharing | None,
    weather: Weather | None,
    save: Path | None,
    *,
    as_json: bool,
    pause: float,
) -> bool:
    """Play the plan of *seed*, and show it. Return whether no guarantee was broken."""
    plan = draw(seed, acts, sharing=sharing, weather=weather)
    with tempfile.TemporaryDirectory(prefix="farref-chaos-") as folder:
        outcome = simulate(plan, Path(folder))
        story = read(Path(folder), f"{SENTENCE} [seed {seed}, {plan.weather}, {plan.sharing}]")
    if save is not None:
        save_story(story, save)
    if as_json:
        write_json(_said(plan, outcome), indent=2)
        return outcome.wrong is None
    console = Console()
    console.print(_listed(plan))
    console.print()
    show(story, console, pause=pause)
    console.print()
    told = ", ".join(f"{number} {what}" for what, number in sorted(outcome.done.items()))
    console.print(Text(f"  {outcome.seconds:.0f} s of virtual time: {told}"))
    if outcome.wrong:
        console.print(Text(f"  {outcome.wrong}", style="bold red"))
    console.print()
    for line in prose(LOOK_FOR.strip(), console.width):
        console.print(Text(line), no_wrap=True)
    return outcome.wrong is None


def _listed(plan: Plan) -> Table:
    """The acts, in two columns."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    cells = [
        Text(str(act), style="bold red" if act.what in DISASTERS["storm"] else "")
        for act in plan.acts
    ]
    half = (len(cells) + 1) // 2
    for number in range(half):
        table.add_row(*cells[number::half])
    return table


def _said(plan: Plan, outcome: Outcome) -> dict[str, object]:
    return {
        "seed": plan.seed,
        "sharing": plan.sharing,
        "weather": plan.weather,
        "loss": plan.loss,
        "acts": [str(act) for act in plan.acts],
        "seconds": outcome.seconds,
        "done": dict(outcome.done),
        "wrong": outcome.wrong,
    }
