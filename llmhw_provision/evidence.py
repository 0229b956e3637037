"""The one reader of machines: commands go out, what they said comes back, is kept, and can be replayed.

All commands of a host travel as one POSIX sh script through testinfra's `safe-ssh` backend: one connection,
one round trip. A command that is missing, fails or runs out of time is a Result that says so.
"""

from __future__ import annotations

import base64
import logging
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from llmhw_provision.connection import CONNECT_TIMEOUT_S, write_ssh_config
from llmhw_provision.errors import MachineError
from llmhw_provision.evidence_refusals import named, no_answer, refused, unreachable
from llmhw_provision.site import Site

log = logging.getLogger(__name__)

Origin = Literal["machine", "stand-in"]
MISSING, TIMED_OUT, TOO_LONG = 127, (124, 137), 153  # the last: 128 + SIGXFSZ
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_AT_ONCE = 32
_LONGEST = 16 << 20  # bytes of one answer that travel
_RUNAWAY = 256 << 20  # bytes of any file that a command may write: a log without end must not fill the host's disk


@dataclass(frozen=True)
class Command:
    """One command to run on a host, under a key by which its result is found."""

    key: str
    argv: tuple[str, ...]
    timeout_s: int = 20

    def line(self) -> str:
        """The command as one copyable shell line."""
        return shlex.join(self.argv)


@dataclass(frozen=True)
class Result:
    """What a command said."""

    rc: int
    stdout: bytes
    stderr: bytes
    seconds: float
    argv: tuple[str, ...] = ()

    @property
    def missing(self) -> bool:
        """Whether the program is not installed."""
        return self.rc == MISSING

    @property
    def timed_out(self) -> bool:
        """Whether the time limit ended it."""
        return self.rc in TIMED_OUT

    def why(self) -> str:
        """One line saying why there is no usable output; empty when the command succeeded."""
        if self.rc == 0:
            return ""
        program = self.argv[0] if self.argv else "command"
        if self.missing:
            return f"{program} is not installed"
        if self.timed_out:
            return f"{program} did not answer within {self.seconds:.0f} s"
        if self.rc == TOO_LONG:
            return f"{program} said more than {_LONGEST >> 20} MiB"
        said = self.stderr[-4096:].decode("utf-8", "replace").strip().splitlines()
        last = "".join(one if one.isprintable() else " " for one in said[-1][:200]) if said else ""
        return f"{program} ended with status {self.rc}" + (f": {last}" if last else "")


@dataclass(frozen=True)
class Evidence:
    """Everything one host said in one reading."""

    host: str
    origin: Origin
    results: dict[str, Result]
    read_at: str = ""
    problem: str = ""
    hint: str = ""

    def get(self, key: str) -> Result | None:
        """The result under `key`; None when that command was not part of the reading."""
        return self.results.get(key)


def script(commands: Sequence[Command]) -> str:
    """The POSIX sh script that runs `commands` one after the other and packs what they say without loss.

    Few processes of its own: each costs a quarter of a second on an emulated machine. Answers lie in numbered
    files; at the end their sizes are listed and all of them leave in one base64 stream.
    """
    lines = [
        f"export LC_ALL=C LANG=C PATH={PATH}",
        "unset LANGUAGE",
        "d=$(mktemp -d) || exit 97",
        "trap 'rm -rf \"$d\"' EXIT",
        f"ulimit -f {_RUNAWAY // 512} 2>/dev/null",
        'cd "$d" || exit 97',
        "run() {",
        "  n=$1; t=$2; shift 2; read -r a _ </proc/uptime",
        '  timeout -k 5 "$t" "$@" >"$n.o" 2>"$n.e" </dev/null; r=$?',
        '  read -r b _ </proc/uptime; echo "$n $r $a $b"',
        "}",
    ]
    lines += [f"run {index:04} {c.timeout_s} {c.line()}" for index, c in enumerate(commands)]
    empty = f'[ "$f" = total ] || [ "$s" -le {_LONGEST} ] || {{ : >"$f"; echo "$f long"; }}'
    lines.append(f"wc -c -- * | while read -r s f; do {empty}; done")
    return "\n".join([*lines, "echo -; wc -c -- *; echo -; cat -- * | base64; echo - end", ""])


def parse_frames(raw: bytes, commands: Sequence[Command]) -> dict[str, Result]:
    """The results in the script's output by key; raises ValueError when the output is cut off or foreign."""
    text = raw.decode("ascii", "strict")
    parts = text.split("\n-")
    if len(parts) != 4 or parts[3].strip() != "end":
        raise ValueError(f"cut off or foreign: {text.strip()[-80:]!r}")
    told = [line.split(" ") for line in parts[0].splitlines()]
    ran, long = [words for words in told if len(words) == 4], {words[0] for words in told if len(words) == 2}
    packed = base64.b64decode("".join(parts[2].split()), validate=True)
    files: dict[str, bytes] = {}
    start = 0
    for size, name in (line.split() for line in parts[1].splitlines() if line.strip()):
        if name != "total":
            files[name] = packed[start : start + int(size)]
            start += int(size)
    if start != len(packed) or len(ran) != len(commands) or len(files) != 2 * len(commands):
        raise ValueError(f"{len(packed)} bytes and {len(ran)} answers, {start} and {len(commands)} announced")
    results: dict[str, Result] = {}
    for command, (number, rc, begin, end) in zip(commands, ran, strict=True):
        seconds = round(float(end) - float(begin), 2)
        rc = str(TOO_LONG) if {f"{number}.o", f"{number}.e"} & long else rc
        results[command.key] = Result(int(rc), files[f"{number}.o"], files[f"{number}.e"], seconds, command.argv)
    return results


def limit_s(commands: Sequence[Command]) -> int:
    """Seconds after which a reading is given up: all its commands' limits, and what it takes to connect and answer."""
    return sum(command.timeout_s + 5 for command in commands) + 60


def read_here(host: str, commands: Sequence[Command]) -> Evidence:
    """What this machine answers to `commands` to the user that runs us, under the name `host`; no connection is made.

    Raises MachineError when there is no sh, no temporary folder, or no answer within `limit_s`.
    """
    import subprocess

    for command in commands:
        log.info("%s", command.line())
    text = script(commands).encode()
    try:
        done = subprocess.run(["/bin/sh"], input=text, capture_output=True, timeout=limit_s(commands), check=False)
    except subprocess.TimeoutExpired:
        raise no_answer(host, limit_s(commands)) from None
    except OSError as error:
        raise MachineError(f"{host}: /bin/sh cannot be started: {error.strerror}") from None
    try:
        return Evidence(host, "machine", parse_frames(done.stdout, commands), _now())
    except (ValueError, KeyError) as error:
        raise refused(host, "", done.returncode, done.stderr, str(error)) from None


def read(
    host: str,
    commands: Sequence[Command],
    ssh_config: Path,
    sudo: bool,
    *,
    address: str = "",
    origin: Origin = "machine",
    password: str = "",
) -> Evidence:
    """What `host` answers to `commands`, read in one round trip as root; raises MachineError when unreachable.

    `password` is sudo's, where it asks for one: it goes through ssh's standard input, never into a command line.
    """
    root = "sudo -n " if sudo else ""
    for command in commands:
        log.info("ssh -F %s %s %s", shlex.quote(str(ssh_config)), host, shlex.quote(root + command.line()))
    packed = base64.b64encode(script(commands).encode()).decode()
    line = f"echo {packed} | base64 -d | {root}sh"
    if sudo and password:  # standard input belongs to sudo, so the script cannot come by it
        line = f"sudo -S -p '' sh -c \"$(echo {packed} | base64 -d)\""
    given = f"{password}\n" if password else ""
    out, err, rc = _through_testinfra(host, line, ssh_config, address, given=given, seconds=limit_s(commands))
    try:
        results = parse_frames(out, commands)
    except (ValueError, KeyError) as error:
        raise refused(host, address, rc, err, str(error)) from None
    return Evidence(host, origin, results, _now())


def _through_testinfra(
    host: str, line: str, ssh_config: Path, address: str, *, given: str, seconds: int
) -> tuple[bytes, bytes, int]:
    import subprocess

    from testinfra.backend.ssh import SafeSshBackend

    class Backend(SafeSshBackend):  # type: ignore[misc]
        """testinfra's own leaves standard input empty and waits without end."""

        def run_local(self, command: str, *args: str) -> object:
            argv = self.encode(self.quote(command, *args))
            done = subprocess.run(  # exec: what is killed in the end is ssh itself
                b"exec " + argv, shell=True, input=given.encode(), capture_output=True, timeout=seconds, check=False
            )
            return self.result(done.returncode, argv, done.stdout, done.stderr)

    # The file decides about ControlMaster and ControlPath, not testinfra.
    backend = Backend(host, ssh_config=str(ssh_config), controlpersist=0, timeout=CONNECT_TIMEOUT_S)
    # Else a greeting with an umlaut makes it ask the host for its encoding, by the same way, for ever.
    backend._encoding = "latin-1"
    try:
        result = backend.run(line)
    except subprocess.TimeoutExpired:
        raise no_answer(named(host, address), seconds) from None
    except RuntimeError as error:  # ssh itself failed: testinfra raises on 255
        failed = error.args[0] if error.args else None
        raise unreachable(host, address, ssh_config, getattr(failed, "stderr_bytes", b"")) from None
    except ValueError:  # safe-ssh found no frame: the login shell said something else
        raise MachineError(
            f"{named(host, address)}: the login shell did not run our script",
            "log in by hand and see what it prints; mktemp and base64 must exist and /tmp must be writable",
        ) from None
    return result.stdout_bytes, result.stderr_bytes, result.rc


def read_site(
    site: Site,
    folder: Path,
    commands_of: Mapping[str, Sequence[Command]],
    *,
    origin: Origin = "machine",
    password: str = "",
) -> dict[str, Evidence]:
    """What each host of `commands_of` answers, hosts side by side; one that cannot be read is evidence saying so."""
    ssh_config = write_ssh_config(site, folder)
    hosts = {host.name: host for host in site.hosts}

    def one(name: str) -> Evidence:
        host = hosts[name]
        try:
            sudo = host.user != "root"
            return read(
                name, commands_of[name], ssh_config, sudo, address=host.address, origin=origin, password=password
            )
        except MachineError as error:
            problem = error.problems[0]
            return Evidence(name, origin, {}, _now(), problem=problem.message, hint=problem.hint)

    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, max(1, len(commands_of)))) as pool:
        return dict(zip(commands_of, pool.map(one, commands_of), strict=True))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
