"""Certificates of an authority, made by OpenSSL's tool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from farref import TLS

MAKE = ("openssl", "req", "-x509", "-days", "1", "-nodes", "-newkey", "ec")
CURVE = ("-pkeyopt", "ec_paramgen_curve:P-256")


class Authority:
    """Signs certificates."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.path, self._key = self._made(name, [], "keyUsage=critical,keyCertSign,cRLSign")

    def sign(self, name: str, shows: Authority | None = None, at: str = "") -> TLS:
        """A certificate for *name*, and the address *at*; its holder believes *shows*."""
        extensions = ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"]
        if at:
            extensions.append(f"subjectAltName={'' if name else 'critical,'}IP:{at}")
        cert, key = self._made(name, ["-CA", self.path, "-CAkey", self._key], *extensions)
        return TLS(cert, key, (shows or self).path)

    def _made(self, name: str, by: list[str | Path], *extensions: str) -> tuple[Path, Path]:
        cert, key = (self._folder / f"{name or 'nobody'}.{end}" for end in ("crt", "key"))
        subject = ["-subj", f"/CN={name}" if name else "/"]
        more = [word for each in extensions for word in ("-addext", each)]
        command = [*MAKE, *CURVE, *by, "-keyout", key, "-out", cert, *subject, *more]
        subprocess.run(command, check=True, capture_output=True)
        return cert, key
