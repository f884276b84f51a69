"""Structs that hold a secret: their ``repr``, which may end up in a log, leaves it out."""

from __future__ import annotations

import msgspec

HIDDEN = "key"


class Discreet(msgspec.Struct, frozen=True):
    """A struct with a secret field, ``key``."""

    def __repr__(self) -> str:
        shown = (each for each in self.__struct_fields__ if each != HIDDEN)
        fields = ", ".join(f"{each}={getattr(self, each)!r}" for each in shown)
        return f"{type(self).__name__}({fields})"
