"""A package mirror with one package, for what goes wrong between a host and its package sources."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.containers.container import Container

_CONTROL = "Package: llmhw-tiny\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"


def _package(container: Container, preinst: str) -> bytes:
    folder = container.root / "root/tiny/DEBIAN"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "control").write_text(_CONTROL)
    if preinst:
        (folder / "preinst").write_text(f"#!/bin/sh\n{preinst}\n")
        (folder / "preinst").chmod(0o755)
    container.run("dpkg-deb --root-owner-group -b /root/tiny /root/tiny.deb")
    return (container.root / "root/tiny.deb").read_bytes()


class Mirror(http.server.ThreadingHTTPServer):
    """A package mirror of one package, that can be busy, or give half of what it should."""

    def __init__(self, address: str, package: bytes) -> None:
        super().__init__((address, 0), _Answer)
        self.busy, self.half, self.package = False, False, package
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @classmethod
    @contextmanager
    def of(cls, container: Container, *, preinst: str = "") -> Iterator[Mirror]:
        """A mirror that `container` uses, with the package llmhw-tiny and its script `preinst`."""
        source = container.root / "etc/apt/sources.list.d/tiny.list"
        mirror = cls(container.address.rpartition(".")[0] + ".1", _package(container, preinst))
        source.write_text(f"deb [trusted=yes] http://{mirror.server_address[0]}:{mirror.server_port} ./\n")
        try:
            yield mirror
        finally:
            mirror.shutdown()
            mirror.server_close()
            source.unlink()
            container.run("dpkg --purge llmhw-tiny; apt-get update", check=False)

    def index(self) -> bytes:
        digest = hashlib.sha256(self.package).hexdigest()
        text = f"{_CONTROL}Filename: ./tiny.deb\nSize: {len(self.package)}\nSHA256: {digest}\n\n"
        return text.encode()

    def release(self) -> bytes:
        index = self.index()
        return f"Suite: tiny\nSHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n".encode()


class _Answer(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        mirror = self.server
        files = {"/Packages": mirror.index(), "/Release": mirror.release(), "/tiny.deb": mirror.package}
        found = files.get(self.path.replace("/./", "/"))
        if mirror.busy:
            self.send_error(503)
        elif found is None:
            self.send_error(404)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(found)))
            self.end_headers()
            cut = len(found) // 2 if mirror.half and self.path.endswith(".deb") else len(found)
            self.wfile.write(found[:cut])

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
