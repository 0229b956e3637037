"""The EL paths of site_base with real dnf and rpm: Debian's, in a container that says it is Rocky Linux 9."""

from pathlib import Path

import pytest

from llmhw_provision.plan.roles_base import DnfMirror
from tests.containers.container import Container
from tests.containers.plugin import StartMany
from tests.roles.test_site_base import actions, apply, site

pytestmark = [pytest.mark.container, pytest.mark.proof]

_OS = """NAME="Rocky Linux"
VERSION="9.4 (Blue Onyx)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.4"
PLATFORM_ID="platform:el9"
PRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"
"""
_SPEC = """Name: {name}
Version: 1.0
Release: 1
Summary: probe
License: none
BuildArch: noarch
%description
probe
%files
"""
# A signed package in a repository, the key it was signed with and another one.
_MAKE = """set -e
export GNUPGHOME=/root/gnupg; mkdir -m 0700 $GNUPGHOME /srv/repo
for who in mirror other; do
gpg --batch --quiet --passphrase '' --quick-gen-key $who@example.org rsa2048 sign never
gpg --armor --export $who@example.org > /root/$who.asc
done
rpmbuild --quiet -bb --define '_rpmdir /srv/repo' /root/llmhw-probe.spec
rpmsign --define '_gpg_name mirror@example.org' --define '__gpg /usr/bin/gpg' --addsign /srv/repo/noarch/*.rpm
gpgconf --kill all
createrepo_c --quiet /srv/repo
systemd-run --quiet --unit=repo --working-directory=/srv/repo python3 -m http.server 8000
until curl -fs http://127.0.0.1:8000/repodata/repomd.xml > /dev/null; do sleep 0.1; done
rm -f /etc/yum.repos.d/*
"""


@pytest.fixture
def rocky(containers: StartMany) -> Container:
    (container,) = containers(1)
    container.run(
        "apt-get update -q && apt-get install -yq --no-install-recommends dnf createrepo-c rpm gpg gpg-agent",
        timeout=600,
    )
    (container.root / "root/llmhw-probe.spec").write_text(_SPEC.format(name="llmhw-probe"))
    container.run(["sh", "-c", _MAKE], timeout=300)
    (container.root / "etc/os-release").unlink()
    (container.root / "etc/os-release").write_text(_OS)
    (container.root / "etc/debian_version").unlink()
    for name in ("redhat-release", "rocky-release", "system-release"):
        (container.root / "etc" / name).write_text("Rocky Linux release 9.4 (Blue Onyx)\n")
    return container


def test_packages_come_by_dnf_from_a_repository_with_one_key(rocky: Container, tmp_path: Path) -> None:
    for who in ("mirror", "other"):
        (tmp_path / f"{who}.asc").write_text(rocky.run(f"cat /root/{who}.asc").stdout)
    mirror = DnfMirror(name="mirror", url="http://127.0.0.1:8000", key_file=str(tmp_path / "other.asc"))
    wrong = site(dnf_mirrors=(mirror,), packages=("llmhw-probe",))
    refused = apply(rocky, wrong, may_fail=True)
    assert "Install what is missing on EL" in refused.failed[0]
    assert rocky.run("rpm -q llmhw-probe", check=False).returncode == 1

    config = site(
        dnf_mirrors=(mirror.model_copy(update={"key_file": str(tmp_path / "mirror.asc")}),),
        packages=("llmhw-probe",),
        python_index="https://pypi.example.org/simple",
    )
    before = rocky.run("rpm -qa; cat /etc/yum.repos.d/* /etc/pip.conf; true", check=False).stdout
    foreseen = apply(rocky, config, check=True)
    assert rocky.run("rpm -qa; cat /etc/yum.repos.d/* /etc/pip.conf; true", check=False).stdout == before
    done = apply(rocky, config)
    assert set(done.changed) == set(foreseen.changed)
    assert actions(done) == actions(foreseen)
    assert "Install what is missing on EL" in " ".join(done.changed)
    assert rocky.run("rpm -q llmhw-probe").stdout == "llmhw-probe-1.0-1.noarch\n"
    assert "gpgcheck=1" in rocky.run("cat /etc/yum.repos.d/llmhw-site-mirror.repo").stdout
    assert apply(rocky, config).changed == ()
    assert apply(rocky, config, check=True).changed == ()
