"""System actors are farref's own: they serve a system, hold no references and run no user code.

They are the registrar and the host agents or, in a system that survives the loss of any host, the
registrar proxies and the candidates.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

from ...printable import logger
from ...protocol.errors import ProtocolError
from ...serialization.failures import details_of
from ..base.framing import Raw
from ..hosting import bases, events
from ..wire.messages import Died, Heard, Heartbeat, beat_in, check_wire
from ..wire.settings import Settings

if TYPE_CHECKING:
    from datetime import timedelta

    from thespian.actors import ActorAddress

    from .failure_detector import FailureDetector

    class Actor:
        """What system actors use of Thespian's `Actor`.

        Thespian has no types: on its own class no attribute of a system actor would be checked.
        """

        myAddress: ActorAddress  # noqa: N815 - the name is Thespian's
        _myRef: Any  # noqa: N815 - as above

        def send(self, target: ActorAddress, message: object) -> None: ...
        def wakeupAfter(self, delay: timedelta, payload: object = None) -> None: ...
        def createActor(self, actor: type[Actor] | str) -> ActorAddress: ...
        def notifyOnSystemRegistrationChanges(self, whether: bool) -> None: ...
        def deRegisterRemoteSystem(self, admin: ActorAddress) -> None: ...

else:
    from thespian.actors import Actor


class SystemActor(Actor):
    """An actor that refuses malformed messages, and logs the errors of its handlers."""

    takes: ClassVar[tuple[type, ...]] = ()
    """Its messages; what arrives is checked against their types."""
    title = "the actor"
    """Its name in the log."""
    log: ClassVar[logging.Logger] = logger(__name__)

    def __init__(self) -> None:
        super().__init__()
        self._settings = Settings()

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        """Handle one message. Raises nothing, or the framework would repeat the message."""
        try:
            if isinstance(message, Raw):
                message = beat_in(message.data)
            if isinstance(message, self.takes):
                check_wire(message)
            self._take(message, sender)
        except ProtocolError as error:
            events.refused(self.log, self.title, "a message", error, system=self._system)
        except Exception as error:
            name, text = type(message).__name__, details_of(error)
            self.log.error("%s failed on %s:\n%s", self.title, name, text)

    def take_beats(self) -> None:
        """On our own base, receive beats without Thespian, which spends more time on each."""
        own = bases.own(getattr(self._myRef, "transport", None))
        if own is not None:
            own.loop.take_raw(lambda data, sender: self.receiveMessage(Raw(bytes(data)), sender))

    @property
    def _system(self) -> str:
        """The name of the system."""
        return self._settings.system

    def _take(self, message: Any, sender: ActorAddress) -> None:
        """Handle one message. May raise any error, which is logged."""
        raise NotImplementedError

    def _heard(self, detector: FailureDetector, beat: Heartbeat, sender: ActorAddress) -> None:
        """Note the *beat* of an endpoint, and answer it if it wants that."""
        if not detector.heard(beat.me):
            self.send(sender, Died((beat.me,)))  # it was given up, and is back
        elif beat.answer:
            self.send(sender, Heard())
