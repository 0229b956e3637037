"""The role package_sources in containers: real apt, a signed repository of the vendor's names, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.commands import call
from tests.containers.container import Container
from tests.rehearsal.gpu.repository import Repository, build
from tests.rehearsal.gpu.signing import Key
from tests.roles.gpu_packages import STATE, actions, add_source, offered, source
from tests.roles.test_site_base import served, signed_archive

pytestmark = pytest.mark.container

SOURCES = "/etc/apt/sources.list.d"
VENDOR = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
UPDATE = "apt-get update -q -o APT::Update::Error-Mode=any"
CANDIDATE = "apt-cache policy nvidia-open | grep Candidate"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    folder = tmp_path_factory.mktemp("vendor")
    key = Key.make(folder / "key")
    yield build(folder / "repository", key=key)
    key.close()


def test_check_apply_apply(container: Container, repository: Repository) -> None:
    with offered(container, repository) as uri:
        before = container.run(STATE).stdout
        foreseen = add_source(container, source(repository, uri), check=True)
        assert container.run(STATE).stdout == before
        done = add_source(container, source(repository, uri))
        assert actions(done) == actions(foreseen) == [
            "write /etc/apt/keyrings/llmhw-cuda.asc",
            f"write {SOURCES}/llmhw-cuda.sources",
            "read the package lists of cuda",
            "write /etc/apt/preferences.d/zz-llmhw-cuda.pref",
        ]  # fmt: skip
        settled = container.run(STATE).stdout
        assert add_source(container, source(repository, uri)).changed == ()
        assert add_source(container, source(repository, uri), check=True).changed == ()
        assert container.run(STATE).stdout == settled
        assert container.run("ls /var/lib/apt/.llmhw-* 2>/dev/null; true", check=False).stdout == ""
        container.run(UPDATE)
        assert "590.48.01-1" in container.run(CANDIDATE).stdout
        # what the plan no longer asks for goes
        mirror = source(repository, uri, name="driver")
        assert f"remove {SOURCES}/llmhw-cuda.sources" in actions(add_source(container, mirror))
        left = container.run(f"ls {SOURCES} /etc/apt/keyrings /etc/apt/preferences.d | grep llmhw").stdout
        assert sorted(left.split()) == ["llmhw-driver.asc", "llmhw-driver.sources", "zz-llmhw-driver.pref"]


@pytest.mark.proof
def test_two_keys_for_one_archive_are_cured(container: Container, repository: Repository) -> None:
    """cuda-repo-management 4: an old list beside the one of the vendor's keyring package, and a line among others."""
    with offered(container, repository) as uri:
        own = "/usr/share/keyrings/debian-archive-keyring.gpg"
        container.run(
            f"cd {SOURCES}; echo 'deb [signed-by={own}] {uri} ./' >cuda.list\n"
            f"printf 'Types: deb\\nURIs: {uri}\\nSuites: ./\\nSigned-By: /etc/apt/keyrings/x.asc\\n' >vendor.sources\n"
            f"echo 'deb {VENDOR} /' >>/etc/apt/sources.list"
        )
        said = container.run("apt-get update", check=False)
        assert "E: Conflicting values set for option Signed-By regarding source" in said.stderr
        done = add_source(container, source(repository, uri))
        assert actions(done)[:3] == [
            f"set {SOURCES}/cuda.list aside: it names {uri}",
            f"set {SOURCES}/vendor.sources aside: it names {uri}",
            f"set entries of /etc/apt/sources.list aside: it names {VENDOR}",
        ]
        container.run(UPDATE)
        assert container.run(f"ls {SOURCES}").stdout.split() == [
            "cuda.list.disabled-by-llmhw", "llmhw-cuda.sources", "vendor.sources.disabled-by-llmhw",
        ]  # fmt: skip
        assert f"# set aside by llmhw-provision: deb {VENDOR} /" in container.run("cat /etc/apt/sources.list").stdout
        assert add_source(container, source(repository, uri)).changed == ()


@pytest.mark.proof
def test_what_another_key_has_signed_changes_nothing(
    container: Container, repository: Repository, tmp_path: Path
) -> None:
    other = Key.make(tmp_path / "other")
    strangers = tmp_path / "other.asc"
    strangers.write_text(other.armoured)
    other.close()
    both = tmp_path / "both.asc"
    both.write_text(other.armoured + repository.key_file.read_text())
    with offered(container, repository) as uri:
        container.run(f"echo 'deb {uri} ./' >{SOURCES}/old.list")
        before = container.run(STATE).stdout
        wrong = source(repository, uri, key_file=str(strangers), fingerprints=(other.fingerprint,))
        (said,) = add_source(container, wrong, may_fail=True).failed
        assert f"cuda: {uri} is not signed by {other.fingerprint}: apt says " in said
        assert "NO_PUBKEY" in said
        assert "a repository without a good signature is never used; nothing was changed" in said
        for path in (strangers, both):
            (said,) = add_source(container, source(repository, uri, key_file=str(path)), may_fail=True).failed
            assert f"holds the key {other.fingerprint}; planned is {repository.fingerprint}" in said
        (said,) = add_source(container, source(repository, f"{uri}nowhere/"), may_fail=True).failed
        assert f"cuda: {uri}nowhere/ cannot be read: apt says" in said
        assert container.run(STATE).stdout == before
        assert f"set {SOURCES}/old.list aside: it names {uri}" in actions(
            add_source(container, source(repository, uri))
        )


@pytest.mark.proof
def test_the_key_is_fetched_once_and_only_with_the_pinned_fingerprint(
    container: Container, repository: Repository
) -> None:
    with offered(container, repository) as uri:
        fetched = {"key_file": None, "key_url": f"{uri}rehearsal.asc"}
        pinned = source(repository, uri, **fetched)
        before = container.run(STATE).stdout
        foreign = source(repository, uri, **fetched, fingerprints=("0" * 40,))
        (said,) = add_source(container, foreign, may_fail=True).failed
        assert f"rehearsal.asc holds the key {repository.fingerprint}; planned is {'0' * 40}" in said
        lost = source(repository, uri, key_file=None, key_url=f"{uri}lost.pub")
        (said,) = add_source(container, lost, may_fail=True).failed
        assert f"cuda: the key {uri}lost.pub cannot be had: HTTP Error 404" in said
        assert container.run(STATE).stdout == before
        foreseen = add_source(container, pinned, check=True)
        assert actions(foreseen) == actions(add_source(container, pinned))
        assert actions(foreseen)[0] == f"fetch the key {uri}rehearsal.asc"
    assert add_source(container, pinned).changed == ()  # nobody answers any more


@pytest.mark.proof
def test_of_two_origins_only_one_gives_the_drivers_names(
    container: Container, repository: Repository, tmp_path: Path
) -> None:
    """NVIDIA/ansible-role-nvidia-driver 11: the newer version of another archive must not move a driver."""
    key = Key.make(tmp_path / "key")
    other = build(tmp_path / "other", key=key, driver=("595.71.05",), origin=("Debian", "Debian"))
    key.close()
    with offered(container, repository) as uri, offered(container, other) as second:
        ring = "/etc/apt/keyrings/other.asc"
        line = f"deb [signed-by={ring}] {second} ./"
        container.run(f"cat > {ring}; echo '{line}' >{SOURCES}/other.list", given=other.key_file.read_text())
        add_source(container, source(repository, uri))
        container.run(UPDATE)
        assert "590.48.01-1" in container.run(CANDIDATE).stdout
        container.run("mv /etc/apt/preferences.d/zz-llmhw-cuda.pref /root")
        assert "595.71.05-1" in container.run(CANDIDATE).stdout  # red without our preferences
        never = source(repository, uri, only=(), never=("nvidia-open*",))
        assert actions(add_source(container, never)) == ["write /etc/apt/preferences.d/zz-llmhw-cuda.pref"]
        table = container.run("apt-cache policy nvidia-open").stdout
        assert "590.48.01-1 -1" in table
        assert "Candidate: 595.71.05-1" in table
        # a mirror that says nothing of itself, on a host with another archive
        bare = build(tmp_path / "bare", key=repository.key, driver=("580.159.03",), origin=("", ""))
        with offered(container, bare) as third:
            done = add_source(container, source(bare, third, only=("nvidia-open*",)))
            assert 'Pin: origin "' in container.run("cat /etc/apt/preferences.d/zz-llmhw-cuda.pref").stdout
            said = " ".join((done.stdout + done.stderr).split())
            assert f"{SOURCES}/other.list is on the same host: apt's preferences take both for one source" in said


@pytest.mark.proof
@pytest.mark.container(suite="trixie")
def test_debian_13_without_gpg_and_with_its_policy(
    container: Container, repository: Repository, tmp_path: Path
) -> None:
    """ansible 85656 and cuda-repo-management 39: no gpg there, and a key bound by SHA-1 is refused in words."""
    assert container.run("command -v gpg apt-key", check=False).stdout == ""
    archive, key = signed_archive(tmp_path, "--cert-digest-algo", "SHA1")
    mirror = served(container, archive, key)
    weak = source(repository, mirror.uri, name="old", key_file=str(key), fingerprints=())
    before = container.run(STATE).stdout
    (said,) = add_source(container, weak, may_fail=True).failed
    assert "is bound by SHA-1, which apt refuses on this system since 2026-02-01" in said
    assert "use the repository of the distribution's own release" in said
    assert container.run(STATE).stdout == before
    with offered(container, repository) as uri:
        assert add_source(container, source(repository, uri)).failed == ()
        container.run(UPDATE)
        assert "590.48.01-1" in container.run(CANDIDATE).stdout
        assert add_source(container, source(repository, uri)).changed == ()
    assert call("grep", "-c", "sha1", str(container.root / "usr/share/apt/default-sequoia.config")).strip() != "0"
