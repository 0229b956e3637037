"""Debian root filesystems for the rehearsal VM and for containers, made with mmdebstrap."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.settings import cache_dir

DEBIAN_MIRROR = "http://deb.debian.org/debian"
_HOST_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_DEBIAN_CAS = Path("/usr/share/ca-certificates")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)
# Suites that have no -updates and no security archive of their own.
_ROLLING = ("sid", "unstable", "experimental")


def sources(suite: str, mirror: str | None = None) -> tuple[str, ...]:
    """The apt source lines of a suite: release, updates and security."""
    base = (mirror or os.environ.get("LLMHW_DEBIAN_MIRROR") or DEBIAN_MIRROR).rstrip("/")
    lines = [f"deb {base} {suite} main"]
    if suite not in _ROLLING:
        lines.append(f"deb {base} {suite}-updates main")
        lines.append(f"deb {base}-security {suite}-security main")
    return tuple(lines)


def extra_certificates() -> tuple[str, ...]:
    """The CA certificates (PEM) that this machine trusts beyond Debian's own.

    A company proxy or mirror is usually signed by such a CA; without it pip and curl fail in the guest.
    ``LLMHW_CA_BUNDLE`` names a further bundle, whole.
    """
    debian = {_body(pem) for path in _DEBIAN_CAS.rglob("*.crt") for pem in _certificates(path)}
    found = [pem for pem in _certificates(_HOST_BUNDLE) if _body(pem) not in debian]
    bundle = os.environ.get("LLMHW_CA_BUNDLE")
    if bundle:
        if not Path(bundle).is_file():
            raise RehearsalError(f"LLMHW_CA_BUNDLE: no file {bundle}", "correct the path in .env")
        found += _certificates(Path(bundle))
    return tuple({_body(pem): pem for pem in found}.values())


def bootstrap(
    target: Path,
    *,
    suite: str,
    packages: tuple[str, ...],
    mirror: str | None = None,
    overlay: Path | None = None,
) -> None:
    """Make ``target`` a minimal Debian with ``packages`` (no recommends) and this machine's CAs.

    The files below ``overlay`` are there before the first package is configured.

    ``target`` appears only when complete. Downloads are kept in the cache folder, so a second run needs
    the network only for the package lists. Mounts are made in a private mount namespace: they vanish with
    the process, however it ends.
    """
    if os.geteuid() != 0:
        raise RehearsalError("mmdebstrap needs root", "run it as root (sudo)")
    if shutil.which("mmdebstrap") is None:
        raise RehearsalError("mmdebstrap is not installed", "python -m tests.rehearsal packages")
    if target.exists():
        raise RehearsalError(f"{target} exists already", "remove it first")
    archives = cache_dir() / "archives" / suite
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        options = _archive_hooks(archives)
        if overlay:
            options.append(f'--setup-hook=cp -r --preserve=mode {overlay}/. "$1/"')
        _mmdebstrap(partial, options, suite=suite, packages=packages, mirror=mirror)
        install_certificates(partial)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def install_certificates(root: Path) -> None:
    """Add this machine's extra CAs to the trust store below ``root`` (needs ca-certificates there)."""
    certificates = extra_certificates()
    if not certificates or not (root / "usr/sbin/update-ca-certificates").exists():
        return
    folder = root / "usr/local/share/ca-certificates"
    folder.mkdir(parents=True, exist_ok=True)
    for number, pem in enumerate(certificates):
        (folder / f"host-{number}.crt").write_text(pem + "\n")
    subprocess.run(["chroot", str(root), "update-ca-certificates"], check=True, capture_output=True)


def _archive_hooks(archives: Path) -> list[str]:
    """Keep the downloads: bring the cache in before, carry it out after."""
    return [
        "--skip=download/empty", "--skip=essential/unlink", "--skip=cleanup/apt/lists",
        '--setup-hook=mkdir -p "$1/var/cache/apt/archives/partial"',
        f'--setup-hook=cp -n {archives}/*.deb "$1/var/cache/apt/archives/" 2>/dev/null || true',
        f'--customize-hook=cp -n "$1"/var/cache/apt/archives/*.deb {archives}/',
    ]  # fmt: skip


def _mmdebstrap(target: Path, options: list[str], *, suite: str, packages: tuple[str, ...], mirror: str | None) -> None:
    command = [
        "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation=private", "--kill-child",
        "mmdebstrap", "--mode=root", "--variant=minbase", "--quiet", f"--include={','.join(packages)}",
        '--aptopt=APT::Install-Recommends "false"',
        "--dpkgopt=force-unsafe-io",
        *options,
        suite, str(target), *sources(suite, mirror),
    ]  # fmt: skip
    log = target.with_name(f"{target.name}.log")
    with log.open("w") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise RehearsalError(f"mmdebstrap {suite} failed:\n{tail}", f"read {log}; is the mirror reachable?")
    log.unlink()


def _certificates(path: Path) -> list[str]:
    if not path.is_file():
        return []
    return _CERTIFICATE.findall(path.read_text(encoding="utf-8", errors="replace"))


def _body(pem: str) -> str:
    return re.sub(r"\s", "", pem)
