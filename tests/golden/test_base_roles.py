"""What site_base and host_tuning write on each family of systems, file by file; `--update-golden` writes them again.

Debian and Ubuntu share one set of names: apt, GRUB and systemd read the same files on both.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from llmhw_provision.plan.roles_base import DnfMirror, Proxy
from tests.unit import role_modules
from tests.unit.test_checks_base import BASE, TUNING

from ansible.module_utils.host_tuning import render as tuning  # isort: skip
from ansible.module_utils.site_base import firewall, render  # isort: skip

FOLDER = Path(__file__).parent / "base_roles"
CONTENTS = {"ca/site.pem": "-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----", "keys/site.asc": "(a key)"}
SITE = BASE.model_copy(
    update={
        "dnf_mirrors": (DnfMirror(name="site", url="http://mirror/el9", key_file="keys/site.asc"),),
        "proxy": Proxy(url="http://proxy.example.org:3128", no_proxy=("mirror.example.org",)),
    }
)
SECRET = SITE.model_copy(
    update={"proxy": Proxy(url="http://proxy.example.org:3128", no_proxy=(), credentials_file="secrets/proxy")}
)
CHAIN = firewall.Chain("inet", "filter", "input")


def rendered(family: str) -> dict[str, str]:
    """Name of the golden file to its text: every file with its mode, then its lines."""
    names, boot = role_modules.paths("site_base", family), role_modules.paths("host_tuning", family)
    ports, sources = SITE.firewall.ports, SITE.firewall.sources
    walls = {firewall.SCRIPT: firewall.script([CHAIN], ports, sources), **firewall.unit_files(True)}
    walls |= {**firewall.unit_files(False), **firewall.firewalld_files(ports, sources)}
    files = {
        "site_base": render.files(SITE.model_dump(mode="json"), names, CONTENTS),
        "site_base-credentials": render.files(SECRET.model_dump(mode="json"), names, CONTENTS, "joe:pa55&word"),
        "host_tuning": tuning.files(
            TUNING.model_copy(update={"acs": "clear"}).model_dump(mode="json"), boot["grub_drop_in"]
        ),
        "firewall": [render.File(path, text) for path, text in walls.items()],
    }
    return {
        f"{family}-{name}.txt": "".join(
            f"=== {file.path} {'absent' if file.text is None else 'link' if file.link else oct(file.mode)[2:]}\n"
            f"{(file.text or '').rstrip()}\n"
            for file in found
        )
        for name, found in files.items()
    }


@pytest.mark.parametrize("family", ["debian", "redhat"])
def test_files_of_a_family_are_as_reviewed(family: str, request: pytest.FixtureRequest) -> None:
    found = rendered(family)
    if request.config.getoption("--update-golden"):
        FOLDER.mkdir(exist_ok=True)
        for name, text in found.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    assert sorted(path.name for path in FOLDER.glob(f"{family}-*")) == sorted(found)
    for name, text in found.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("family", ["debian", "redhat"])
def test_credentials_stand_only_in_files_that_root_alone_reads(family: str) -> None:
    names = role_modules.paths("site_base", family)
    files = render.files(SECRET.model_dump(mode="json"), names, CONTENTS, "joe:pa55&word")
    holding = [file for file in files if any(form in (file.text or "") for form in render.forms("joe:pa55&word"))]
    assert holding
    assert {file.mode for file in holding} == {0o600}
