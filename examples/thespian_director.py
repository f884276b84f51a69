"""Thespian's director replaces a running actor by a new version of its source, and goes back.

The director is Thespian's own class. It loads signed sources, starts their actors, and says which
actor has a role now. The steps are those of its commands: start, gensrc, load, list and unload.
Five lines differ from the structure of `thespian.director`: the start of the system, and the two
lines each of the director and the authority, which have `RefActor` before Thespian's class, and are
created by `System.create`. (New is `Unload`, because a `System` itself unloads no sources. The
sources are signed by a HMAC, which needs no openssl. The checks are new, too.)
"""

from __future__ import annotations

import hashlib
import hmac
import io
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import thespian.director
from thespian.actors import ActorAddress, ActorTypeDispatcher, ValidatedSource, ValidateSource

from farref import RefActor, System

KEY = b"the key of the program"
SOURCE = """
from thespian.actors import ActorTypeDispatcher

class Greeter(ActorTypeDispatcher):
    greeted = 0

    def receiveMsg_str(self, name, sender):
        self.greeted += 1
        self.send(sender, f"GREETING, {name}! You are number {self.greeted}.")

    def receiveMsg_dict(self, message, sender):
        pass  # the director says that this actor has its role again
"""
GROUP = {
    "Group": "greetings",
    "Actors": {
        "greeter.Greeter": {
            "OnLoad": {"Role": "greeter"},
            "OnReactivate": {"Message": {"active": True}},
        }
    },
}
"""What the director does with these sources. A file with the ending .tli says this in Thespian."""


def signature(source: bytes, key: bytes = KEY) -> bytes:
    """32 bytes, which only those who have the *key* can make."""
    return hmac.digest(key, source, hashlib.sha256)


class Director(RefActor, thespian.director.Director):
    """Thespian's director, which unloads sources, too."""

    def Unload(self, message: dict[str, Any], _: ActorAddress) -> None:
        """Unload a source. Its actors end, and the source before it is active again."""
        self.unloadActorSource(message["SourceHash"])


class SourceAuthority(RefActor, ActorTypeDispatcher):
    """Says which sources may be loaded."""

    def receiveMsg_str(self, _: str, __: ActorAddress) -> None:
        """Become the authority of the system."""
        self.registerSourceAuthority()

    def receiveMsg_ValidateSource(self, message: ValidateSource, sender: ActorAddress) -> None:
        """Accept a source that is signed."""
        signed, source = message.sourceData[:32], message.sourceData[32:]
        if hmac.compare_digest(signed, signature(source)):
            self.send(sender, ValidatedSource(message.sourceHash, source))


def generate(folder: str, greeting: str, key: bytes = KEY) -> str:
    """Write a package with a version of the greeter. Returns the name of the file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as package:
        package.writestr("greeter.py", SOURCE.replace("GREETING", greeting))
    file = Path(folder) / f"{greeting}.tls"
    file.write_bytes(signature(packed.getvalue(), key) + packed.getvalue())
    return str(file)


def load(system: System, file: str) -> str:
    """Have the director load *file*. Returns the hash of the source."""
    answer = system.ask(
        "Director", {"DirectorOp": "LoadSource", "Group": "greetings", "Source": file}
    )
    assert answer["Success"], answer
    found: str = answer["SourceHash"]
    return found


def update(system: System) -> None:
    """Wait for the notification that another source is active."""
    answer = system.listen(10)
    assert answer["DirectorResponse"] == "NotificationOfUpdate", answer


def greet(system: System, name: str) -> str:
    """Ask the actor that has the role now. Returns its answer."""
    found = system.ask("Director", {"DirectorOp": "RetrieveRole", "Role": "greeter"})
    if not found["Success"]:
        return "nobody"
    said: str = system.ask(found["ActorAddress"], name)
    print(f"{found['SourceHash'][:6]}: {said}")
    return said


def main() -> None:
    """Load two versions of a source, and unload them."""
    with TemporaryDirectory() as folder, System() as system:
        system.tell(system.create(SourceAuthority), "Startup")
        system.create(Director, "Director")
        answer = system.ask("Director", {"DirectorOp": "DefineGroup", **GROUP})
        assert answer["Success"], answer

        system.tell("Director", {"DirectorOp": "RequestNotification"})
        first = load(system, generate(folder, "Hello"))
        update(system)
        assert greet(system, "Ada") == "Hello, Ada! You are number 1."

        system.tell("Director", {"DirectorOp": "RequestNotification"})
        forged = load(system, generate(folder, "Give me your money", b"another key"))
        second = load(system, generate(folder, "Good day"))
        update(system)
        assert greet(system, "Ada") == "Good day, Ada! You are number 1."
        answer = system.ask("Director", {"DirectorOp": "RetrieveAll"})
        loaded = answer["Groups"]["greetings"]["Loaded"]
        assert loaded == [first, second], f"{forged} should not be in {loaded}"

        system.tell("Director", {"DirectorOp": "RequestNotification"})
        system.tell("Director", {"DirectorOp": "Unload", "SourceHash": second})
        update(system)
        assert greet(system, "Bob") == "Hello, Bob! You are number 2."

        system.tell("Director", {"DirectorOp": "RequestNotification"})
        system.tell("Director", {"DirectorOp": "Unload", "SourceHash": first})
        update(system)
        assert greet(system, "Bob") == "nobody"


if __name__ == "__main__":
    main()
