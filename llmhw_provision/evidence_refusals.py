"""Why a host could not be read: what ssh, sudo or the answer itself said, as an error with a hint."""

from __future__ import annotations

import shlex
from pathlib import Path

from llmhw_provision.errors import MachineError


def named(host: str, address: str) -> str:
    """The host as messages name it."""
    return f"{host} ({address})" if address else host


def no_answer(where: str, seconds: int) -> MachineError:
    """The error for a reading that took longer than `seconds`; `where` names the host."""
    return MachineError(
        f"{where}: no answer within {seconds} s",
        "a command may hang in the kernel (a dead drive or network file system): look at its console",
    )


def unreachable(host: str, address: str, ssh_config: Path, stderr: bytes) -> MachineError:
    """The error for a connection that ssh could not make; `stderr` is what ssh said."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    said, where = lines[-1] if lines else "ssh gave no reason", named(host, address)
    if any("IDENTIFICATION HAS CHANGED" in line for line in lines):
        seen = next((line.rstrip(".") for line in lines if line.startswith("SHA256:")), "unknown")
        return MachineError(
            f"{where}: its host key is not the one accepted before; it now shows {seen}",
            "if the machine was installed again, remove its line from known_hosts and run discover; "
            "if not, someone may be between you and it",
        )
    hints = {
        "Host key verification failed": "its key was never accepted: run discover, compare the fingerprint",
        "Permission denied": "check user and identity_file in site.yaml; discover --ask-password lets the key in",
        "timed out": "check the address, the cable and the firewall; is it switched on?",
        "Connection refused": "no ssh server on that port; check port in site.yaml",
        "Could not resolve": "check the address in site.yaml",
    }
    by_hand = f"try by hand: ssh -F {shlex.quote(str(ssh_config))} {host}"
    hint = next((text for part, text in hints.items() if part in said), by_hand)
    return MachineError(f"{where}: cannot be reached: {said}", hint)


def refused(host: str, address: str, rc: int, stderr: bytes, reason: str) -> MachineError:
    """The error for a script that ended with `rc` and no readable answer: sudo, the temporary folder, or `reason`."""
    said = stderr.decode("utf-8", "replace").strip().splitlines()
    where = named(host, address)
    if any("incorrect password attempt" in line or "Sorry, try again" in line for line in said):
        return MachineError(f"{where}: sudo does not accept that password", "run again with --ask-become-pass")
    if any("sudo" in line for line in said):
        return MachineError(
            f"{where}: {said[-1]}",
            "run with --ask-become-pass, let the user sudo without a password (NOPASSWD), or set user: root",
        )
    if rc == 97:
        return MachineError(f"{where}: no temporary folder: {said[-1] if said else 'mktemp failed'}", "is / full?")
    return MachineError(f"{where}: its answer cannot be read: {reason}" + (f" ({said[-1][:160]})" if said else ""))
