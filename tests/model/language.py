"""Programs as text, one file for each kind.

A program is a paragraph: its name, and below it, indented, the scripts, the options, and the claims
of `never` that it must violate. An endpoint that only others name has an empty script::

    the creator dies
      A: create x on B; tell C (x) {keep x}; drop x
      C: fetch g of x; drop x
      mortal A; states 3014
      violates: nobody dies before his creation arrives

The verbs are the actions of `script`. In parentheses are the references in a message, in braces the
actions of its receiver, which may end with ``return [x y]`` (a value with these references in it)
or ``return x`` (the new object stands for this one). A longer indentation continues a line. A line
``let ON_C = create g on C`` abbreviates actions in the rest of its file.

`states` are the states of the program when it was last explored. If it lends, they are one number
for each discipline, in the order of `DISCIPLINES`, with ``-`` where it is slow.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from farref.protocol.sharing import DISCIPLINES

from . import script as do
from .script import Action, Script
from .world import Program

VERBS: dict[str, tuple[Any, dict[str, str]]] = {
    "own": (do.Own, {"": "name", "(": "inside"}),
    "create": (do.Remote, {"": "name", "on": "to", "by": "method_of"}),
    "tell": (do.Say, {"": "to"}),
    "ask": (do.Ask, {"": "call", "at": "to"}),
    "call": (do.Method, {"": "call", "of": "name"}),
    "fetch": (do.Get, {"": "call", "of": "name"}),
    "wait": (do.Wait, {"": "call"}),
    "await": (do.Await, {"": "call"}),
    "need": (do.Need, {"": "name"}),
    "take": (do.Take, {"": "name"}),
    "cancel": (do.Revoke, {"": "call"}),
    "heed": (do.Heed, {"": "call"}),
    "drop": (do.Drop, {"": "name"}),
    "keep": (do.Keep, {"": "name", "as": "under"}),
    "put": (do.Put, {"": "name", "into": "into"}),
    "pull": (do.Pull, {"": "name", "from": "out_of"}),
    "open": (do.Open, {"": "name"}),
    "shut": (do.Shut, {"": "name"}),
    "rest": (do.Rest, {}),
    "pickle": (do.Pickle, {"": "name", "for": "to"}),
    "abandon": (do.Abandon, {}),
}
"""Each verb: its action, and the field for its object and for what follows each preposition."""
ADVERBS: dict[str, dict[str, bool]] = {
    "concurrently": {"serial": False},
    "unreadable": {"readable": False},
    "directly": {"direct": True},
    "uncopied": {"copy": False},
    "copied": {"copy": True},
    "impatiently": {"patient": False},
    "interrupting": {"interrupt": True},
    "lent": {"for_call": True},
}
OPTIONS = {
    *("mortal", "searches", "victims", "losing", "late", "ordered", "lingers", "states"),
}
"""Fields of `Program`."""
SLOW = "-"


def read(path: Path) -> Iterator[Program]:
    """The programs of a file, each in the disciplines that make a difference."""
    text = re.sub(r"\n {4,}", " ", re.sub(r"(?m)^#.*\n", "", path.read_text("utf-8")))
    for name, value in re.findall(r"(?m)^let (\w+) = (.*)\n", text):
        text = re.sub(rf"(?m)^let {name} = .*\n", "", text)
        text = re.sub(rf"\b{name}\b", value, text)
    for paragraph in re.split(r"\n{2,}", text.strip()):
        yield from _in_disciplines(*paragraph.split("\n  "))


def _in_disciplines(name: str, *lines: str) -> Iterator[Program]:
    """A program by forking; if it lends, in the other disciplines, too."""
    scripts: dict[str, Script] = {}
    claims: defaultdict[str | None, tuple[str, ...]] = defaultdict(tuple)
    options: dict[str, list[str]] = {}
    for line in lines:
        if scripted := re.fullmatch("([A-Z]):(.*)", line):
            scripts[scripted[1]] = parse(scripted[2])
        elif claimed := re.fullmatch(r"violates(?: in (\w+))?: (.*)", line):
            claims[claimed[1]] += (claimed[2],)
        else:
            options |= {words[0]: words[1:] for words in map(str.split, line.split(";"))}
    if unknown := options.keys() - OPTIONS:
        raise ValueError(f"{name}: there is no option {', '.join(sorted(unknown))}")
    mortal = options.get("mortal", ())
    others = {*mortal, *(to for script in scripts.values() for to in _named(script))}
    program = Program(
        name,
        scripts | dict.fromkeys(sorted(others - scripts.keys()), ()),
        mortal=tuple(mortal),
        searches="".join(options["searches"]) if "searches" in options else None,
        victims=int(options["victims"][0]) if "victims" in options else None,
        losing=tuple(options.get("losing", ())),
        late="late" in options,
        ordered="ordered" in options,
        lingers="lingers" in options,
    )
    lends = program.victims is None and any(map(_lends, scripts.values()))
    for sharing, states in zip(DISCIPLINES if lends else ("fork",), options["states"], strict=True):
        yield replace(
            program,
            name=name if sharing == "fork" else f"{name} [{sharing}]",
            sharing=sharing,
            states=0 if states == SLOW else int(states),
            slow=states == SLOW,
            reaches=(*claims[None], *claims[sharing]),
        )


def _named(script: Script) -> Iterator[str]:
    """The endpoints that *script* names."""
    for action in script:
        if hasattr(action, "to"):
            yield action.to
        for part in ("body", "then"):
            yield from _named(getattr(action, part, ()))


def _lends(script: Script) -> bool:
    """Whether a call in *script* has a reference in its arguments."""
    for action in script:
        match action:
            case do.Ask(refs=refs) | do.Method(refs=refs) | do.Remote(refs=refs) if refs:
                return True
            case do.Pickle(for_call=True):
                return True
            case _:
                if any(_lends(getattr(action, part, ())) for part in ("body", "then")):
                    return True
    return False


def parse(text: str) -> Script:
    """The actions that *text* tells."""
    actions, _ = _script(deque(re.findall(r"[(){}\[\];]|[^\s(){}\[\];]+", text)))
    return actions


def _script(words: deque[str]) -> tuple[Script, dict[str, Any]]:
    """The actions up to a closing brace, and what they return."""
    actions: list[Action] = []
    returned: dict[str, Any] = {}
    while words and words[0] != "}":
        if words[0] == ";":
            words.popleft()
        elif words[0] == "return":
            words.popleft()
            what = words.popleft()
            returned = {"returns": _names(words, "]")} if what == "[" else {"alias": what}
        else:
            actions.append(_action(words))
    if words:
        words.popleft()
    return tuple(actions), returned


def _action(words: deque[str]) -> Action:
    kind, places = VERBS[words.popleft()]
    values: dict[str, Any] = {}
    while words and words[0] not in {";", "}"}:
        word = words.popleft()
        if word == "(":
            values[places.get("(", "refs")] = _names(words, ")")
        elif word == "{":
            values["body"], returned = _script(words)
            values |= returned
        elif word == "then":
            words.popleft()
            values["then"], _ = _script(words)
        elif word in ADVERBS:
            values |= ADVERBS[word]
        elif word in places:
            values[places[word]] = words.popleft()
        elif places[""] in values:
            raise ValueError(f"{kind.__name__} is of {values[places['']]}, so not of {word}, too")
        else:
            values[places[""]] = word
    action: Action = kind(**values)
    return action


def _names(words: deque[str], end: str) -> tuple[str, ...]:
    return tuple(iter(words.popleft, end))
