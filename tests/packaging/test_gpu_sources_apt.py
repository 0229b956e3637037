"""What we ask of apt about the driver, asked of a real apt: packages named as the vendor's, and a root of its own.

apt reads everything below a folder of the test (APT_CONFIG); the machine's own sources and packages are only copied.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from llmhw_provision.checks import table
from llmhw_provision.checks.model import Finding
from llmhw_provision.evidence import Command, Evidence, Result
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import gpu_sources, packages
from tests.assembled_before import cards_before
from tests.rehearsal.gpu.repository import build
from tests.rehearsal.gpu.signing import Key

Answer = TypeVar("Answer")
HAS_APT = shutil.which("apt-get") is not None and Path("/var/lib/apt/lists").is_dir()
pytestmark = pytest.mark.skipif(not HAS_APT, reason="no apt on this machine")
PLANNED = {"nvidia-open": "580.159.03", "nvidia-fabricmanager": "580.159.03", "libnvidia-nscq": "580.159.03"}


class Apt:
    """An apt with a root of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("sources.list.d", "preferences.d", "apt.conf.d", "trusted.gpg.d"):
            (root / "etc/apt" / name).mkdir(parents=True)
        for name in ("cache/apt/archives/partial", "lib/dpkg/info", "lib/dpkg/updates", "lib/apt/lists/partial"):
            (root / "var" / name).mkdir(parents=True)
        shutil.copy("/var/lib/dpkg/status", root / "var/lib/dpkg/status")
        for path in Path("/var/lib/apt/lists").glob("*_dists_*"):
            shutil.copy(path, root / "var/lib/apt/lists")
        for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
            shutil.copy(path, root / "etc/apt/sources.list.d")
        text = f'Dir "{root}";\nDir::State::status "{root}/var/lib/dpkg/status";\nAPT::Sandbox::User "root";\n'
        (root / "apt.conf").write_text(text)
        own = {"APT_CONFIG": str(root / "apt.conf"), "DPKG_ADMINDIR": str(root / "var/lib/dpkg")}
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", **own}

    def entry(self, name: str, uri: str, key: Path) -> Path:
        path = self.root / f"etc/apt/sources.list.d/{name}"
        path.write_text(f"Types: deb\nURIs: {uri}\nSuites: ./\nSigned-By: {key}\n")
        return path

    def update(self, source: Path) -> None:
        only = ("-o", f"Dir::Etc::sourcelist={source}", "-o", "Dir::Etc::sourceparts=/dev/null")
        command = ("apt-get", "update", *only, "-o", "APT::Get::List-Cleanup=0")
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    def installed(self, name: str, version: str) -> str:
        """An entry of dpkg's status, with what the repository's package of that version depends on."""
        show = ("apt-cache", "show", f"{name}={version}")
        done = subprocess.run(show, env=self.environment, capture_output=True, text=True, check=False)
        needs = "".join(f"{line}\n" for line in done.stdout.splitlines() if line.startswith("Depends: "))
        head = f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nMaintainer: x\nDescription: x\n"
        return f"{head}Version: {version}\n{needs}\n"

    def asked(self, command: Command) -> Evidence:
        done = subprocess.run(command.argv, env=self.environment, capture_output=True, check=False)
        return Evidence("a", "machine", {command.key: Result(done.returncode, done.stdout, done.stderr, 0.1)})

    def read(self, command: Command, reader: Callable[[Evidence], Answer]) -> Answer:
        return reader(self.asked(command))


@pytest.fixture(scope="module")
def apt(tmp_path_factory: pytest.TempPathFactory) -> Apt:
    folder = tmp_path_factory.mktemp("apt")
    made = Apt(folder / "root")
    module = folder / "module"
    module.mkdir()
    for name in ("common.h", "dkms.conf", "nvidia.c", "Makefile"):
        (module / name).write_text("@VERSION@\n")
    key = Key.make(folder / "key")
    repository = build(folder / "repository", key=key, uri="", module=module)
    key.close()
    made.update(made.entry("llmhw-cuda.sources", f"file:{folder}/repository", repository.key_file))
    return made


def solved(apt: Apt, wanted: dict[str, str]) -> gpu_sources.Solution:
    return apt.read(gpu_sources.solution_command(wanted, "deb", "580.159.03"), gpu_sources.solution)


def test_every_version_on_offer_is_seen_with_its_source(apt: Apt) -> None:
    offers = apt.read(gpu_sources.offers_command((*PLANNED, "no-such-package")), gpu_sources.offers)
    found = offers["nvidia-open"]
    assert (found.installed, found.candidate) == ("", "590.48.01-1")
    assert list(found.sites) == ["590.48.01-1", "580.159.03-1", "580.126.09-1"]
    assert all(site[0].startswith("file:") for site in found.sites.values())
    assert "no-such-package" not in offers


def test_an_older_release_is_solved_as_the_role_would_install_it(apt: Apt) -> None:
    found = solved(apt, PLANNED)
    assert found.error == ""
    versions = {name: version for name, version in found.packages.items() if name.startswith(("libnvidia", "libcuda1"))}
    assert set(versions.values()) == {"580.159.03-1"}
    assert len(versions) > 4
    assert found.fill_bytes
    assert found.fetch_bytes


@pytest.mark.parametrize("left", ["580.126.09-1", "470.256.02-1"])
def test_half_a_set_of_another_release_is_put_right(apt: Apt, left: str) -> None:
    """illinois-scicomp/machine-shop-maintenance#70: dpkg was forced, and apt refuses everything but this."""
    there = solved(apt, PLANNED).packages | dict.fromkeys(("libcuda1", "libnvidia-ml1", "libnvidia-gone1"), left)
    status = apt.root / "var/lib/dpkg/status"
    before = status.read_text()
    rows = [apt.installed(name, version) for name, version in there.items() if f"Package: {name}\n" not in before]
    status.write_text(before.rstrip("\n") + "\n\n" + "".join(rows))
    try:
        found = solved(apt, PLANNED)
    finally:
        status.write_text(before)
    assert found.error == ""
    assert {found.packages["libcuda1"], found.packages["libnvidia-ml1"]} == {"580.159.03-1"}


def test_libraries_beside_it_are_solved_in_their_planned_versions(apt: Apt) -> None:
    names = {"libcudnn9-cuda-13": "9.24.0.43", "libcudnn9-dev-cuda-13": "9.24.0.43", "libnccl2": "2.30.7-1+cuda13.0"}
    found = solved(apt, PLANNED | names)
    assert (found.error, found.packages["libcudnn9-headers-cuda-13"]) == ("", "9.24.0.43-1")


@pytest.mark.parametrize(
    ("wanted", "error"),
    [({"nvidia-open": "580.200.01"}, "no version 580.200.01*"), ({"nvidia-none": ""}, "no package nvidia-none")],
)
def test_what_is_not_there_is_said_in_our_words(apt: Apt, wanted: dict[str, str], error: str) -> None:
    assert solved(apt, wanted).error == error


def judged(plan: HostPlan, evidence: Evidence, name: str) -> Finding:
    (item,) = (item for item in table.items(plan, "before") if item.check.id == name)
    return table.judge(item, evidence)


def _with_repository(plan: HostPlan, uri: str) -> HostPlan:
    config = plan.roles.package_sources
    assert config
    sources: Sequence[object] = [item.model_copy(update={"uri": uri}) for item in config.sources]
    roles = plan.roles.model_copy(update={"package_sources": config.model_copy(update={"sources": tuple(sources)})})
    return plan.model_copy(update={"roles": roles})


def test_apts_own_words_about_two_keys_are_known(apt: Apt) -> None:
    uri = next(line for line in _ours(apt).read_text().splitlines() if line.startswith("URIs:")).partition(" ")[2]
    second = apt.entry("cuda.sources", uri, apt.root / "other.gpg")
    try:
        evidence = apt.asked(packages.SOURCES)
    finally:
        second.unlink()
    (source,) = packages.sources(evidence)
    assert source.reason.startswith("Conflicting values set for option Signed-By regarding source file:")
    plan = _with_repository(cards_before().plan, uri)
    found = judged(plan, evidence, "package-sources")
    assert (found.status, found.variant) == ("warn", "signed-by")
    assert judged(cards_before().plan, evidence, "package-sources").status == "fail"


def _ours(apt: Apt) -> Path:
    return apt.root / "etc/apt/sources.list.d/llmhw-cuda.sources"
