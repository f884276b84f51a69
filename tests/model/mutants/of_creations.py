"""Rules of watermarks: the creator's outstanding creations, and those that an owner has seen."""

from farref.protocol.creations import Asked, Seen

from .mutant import Mutant

CREATIONS = (
    Mutant(
        "does not remember a creation",
        Asked,
        "add",
        "self._waiting[number] = None",
        "return number",
    ),
    Mutant(
        "claims what is not acknowledged", Asked, "add", "next(iter(self._waiting))", "number + 1"
    ),
    Mutant("claims too little", Asked, "add", "next(iter(self._waiting))", "0"),
    Mutant(
        "waits for what was acknowledged", Asked, "acknowledged", "self._waiting.pop(number, None)"
    ),
    Mutant("always waits", Asked, "acknowledged", "return not self._waiting", "return False"),
    Mutant("never waits", Asked, "acknowledged", "return not self._waiting", "return True"),
    Mutant("believes no watermark", Seen, "add", "if watermark > self._below:", "if False:"),
    Mutant("takes the watermark back", Seen, "add", "if watermark > self._below:", "if True:"),
    Mutant("keeps what is below", Seen, "add", "< watermark", "< 0"),
    Mutant("forgets what is above", Seen, "add", " and self._heap[0] < watermark", ""),
    Mutant("does not remember", Seen, "add", "self._above.add(number)"),
    Mutant("knows nothing below", Seen, "__contains__", "number < self._below or", ""),
    Mutant("knows nothing above", Seen, "__contains__", "or number in self._above", ""),
)
