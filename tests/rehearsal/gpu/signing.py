"""An OpenPGP key of its own for one repository, made for the run and thrown away with its folder."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_RECIPE = """%no-protection
Key-Type: RSA
Key-Length: 2048
Key-Usage: sign
Name-Real: {name}
Name-Email: rehearsal@example.org
Expire-Date: 0
%commit
"""


@dataclass(frozen=True)
class Key:
    """A signing key: the folder that holds it, its fingerprint (40 hex digits), its public part in both forms."""

    home: Path
    fingerprint: str
    armoured: str
    binary: bytes

    @classmethod
    def make(cls, home: Path, *options: str, name: str = "rehearsal repository") -> Key:
        """A new key (RSA 2048) in the new folder `home`, made with these options of gpg."""
        home.mkdir(mode=0o700, parents=True)
        _gpg(home, *options, "--gen-key", given=_RECIPE.format(name=name).encode())
        listed = _gpg(home, "--with-colons", "--list-keys").decode()
        fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
        armoured = _gpg(home, "--armor", "--export", fingerprint).decode()
        return cls(home, fingerprint, armoured, _gpg(home, "--export", fingerprint))

    def close(self) -> None:
        """End the agent that gpg started for the folder."""
        subprocess.run(("gpgconf", "--homedir", str(self.home), "--kill", "gpg-agent"), check=False)

    def clear(self, text: bytes) -> bytes:
        """`text` with the signature around it, as InRelease is."""
        return _gpg(self.home, "--local-user", self.fingerprint, "--digest-algo", "SHA512", "--clearsign", given=text)

    def detached(self, text: bytes) -> bytes:
        """The signature of `text` alone, armoured, as Release.gpg is."""
        arguments = ("--local-user", self.fingerprint, "--digest-algo", "SHA512", "--armor", "--detach-sign")
        return _gpg(self.home, *arguments, given=text)


def _gpg(home: Path, *arguments: str, given: bytes = b"") -> bytes:
    argv = ("gpg", "--homedir", str(home), "--batch", "--quiet", "--no-tty", *arguments)
    return subprocess.run(argv, input=given, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout
