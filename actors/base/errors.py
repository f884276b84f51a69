"""The exceptions of the system base.

Every error's text says what happened, at which address, and what to do about it.
"""


class BaseError(Exception):
    """Root of the errors raised by ``farref.actors.base``."""


class UnsafeDirectory(BaseError):
    """The directory for the sockets could be entered or replaced by another user."""


class OtherUsersDirectory(UnsafeDirectory):
    """The directory belongs to another user, or another user can put one in its place."""


class PathTooLong(BaseError):
    """A Unix socket path would not fit in the kernel's 108 bytes."""


class UnsupportedPlatform(BaseError):
    """This operating system has no Unix sockets that report the user at the other end."""


class NoSuchSystem(BaseError):
    """``mode="join"`` found no running system of that name."""


class SystemAlreadyRuns(BaseError):
    """``mode="start"`` found that a system of that name is running already."""


class KeyRequired(BaseError):
    """Beyond loopback, a shared key is needed that nobody else knows or can guess."""


class InvalidCertificate(BaseError):
    """The certificates of ``tls=`` cannot be used, or none can be made."""


class InvalidAddress(BaseError):
    """A host, port or system name that cannot be an address of this system."""


class PeerStalled(BaseError):
    """A receiver has taken nothing from its full queue for ``stall_timeout`` seconds.

    The message of the call that raises this is queued like those before it: it is
    delivered if the receiver goes on, and dead-lettered if it dies.
    """


class MessageTooLarge(BaseError):
    """A message of more than ``Limits.max_message_bytes``.  Nothing was sent.

    Its receiver would close the connection, and earlier messages would be lost too.
    """


class TransportClosed(BaseError):
    """The endpoint was closed; it can neither send nor receive."""


class WireError(BaseError):
    """The other end of a connection does not speak this protocol."""


class FrameError(WireError):
    """A frame with an unknown kind or beyond the size limit."""


class HandshakeError(WireError):
    """The other end did not authenticate, or wanted somebody else."""


class CrowdedOut(HandshakeError):
    """The other end had too many unauthenticated connections, and closed ours; try again."""


class NobodyThere(HandshakeError):
    """The host at the other end has no such actor, or the actor has ended."""
