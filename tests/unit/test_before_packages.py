"""What is asked of packages and their sources before apply, against what apply itself installs and sets up."""

from __future__ import annotations

from pathlib import Path

import yaml

from llmhw_provision.checks import package_state, table
from llmhw_provision.plan.roles_base import Firewall, Proxy, SiteBaseConfig
from tests.assembled_before import switched_before
from tests.assembled_stack import URI
from tests.unit.ready import added, said
from tests.unit.recordings import host_plan, swapped

ROOT = Path(__file__).resolve().parents[2]


def test_an_installation_of_the_driver_that_was_cut_off_is_finished_by_apply() -> None:
    plan = switched_before().plan
    item = next(item for item in table.items(plan, "before") if item.check.id == "package-states")
    cut = table.judge(item, added("package-states", "iHR|libnvidia-ml1\niUR|nvidia-kernel-open-dkms\niFR|dkms\n"))
    assert (cut.status, cut.variant) == ("warn", "waiting")
    other = table.judge(item, added("package-states", "iHR|libnvidia-ml1\niHR|libcups2\n"))
    assert (other.status, other.found) == ("fail", "left half-way: libcups2")


def test_two_keys_of_a_source_that_apply_sets_up_are_a_warning() -> None:
    plan = switched_before().plan
    item = next(item for item in table.items(plan, "before") if item.check.id == "package-sources")
    text = "bad sources Conflicting values set for option Signed-By regarding source {} /: /a.gpg != /b.asc\n"
    ours = table.judge(item, said("package-sources", text.format(URI)))
    assert (ours.status, ours.variant) == ("warn", "signed-by")
    theirs = table.judge(item, said("package-sources", text.format("http://deb.example/debian")))
    assert theirs.status == "fail"


def test_planned_packages_are_those_of_the_role() -> None:
    text = (ROOT / "roles/nvme_raid0/vars/debian.yml").read_text(encoding="utf-8")
    known = yaml.safe_load(text)["__nvme_raid0_packages"]
    assert {f"mkfs.{name}": package for name, package in package_state.FILESYSTEMS.items()}.items() <= known.items()
    assert package_state.planned(host_plan()) == (known["mdadm"], known["mkfs.xfs"])
    plan = host_plan()
    assert plan.roles.nvme_raid0
    volume = plan.roles.nvme_raid0.volumes[0].model_copy(
        update={"filesystem": "ext4", "mount_options": ("nofail", "prjquota")}
    )
    config = plan.roles.nvme_raid0.model_copy(update={"volumes": (volume,)})
    plan = plan.model_copy(update={"roles": plan.roles.model_copy(update={"nvme_raid0": config})})
    assert set(package_state.planned(plan)) == set(known.values()) - {"xfsprogs"}
    base = SiteBaseConfig(
        certificates=(), apt_mirrors=(), dnf_mirrors=(), mirrors_only=False, host_entries=(), time_servers=(),
        packages=("vim",), users=(), firewall=Firewall(ports=(), sources=()),
    )  # fmt: skip
    of_site = plan.model_copy(update={"roles": plan.roles.model_copy(update={"site_base": base})})
    assert package_state.planned(of_site)[-1] == "vim"
    assert "vim" not in package_state.planned(of_site.model_copy(update={"os": "Rocky Linux 9.5"}))  # vim-enhanced


def test_sources_of_today_only_warn_where_apply_sets_a_proxy_or_mirrors() -> None:
    base = SiteBaseConfig(
        certificates=(),
        apt_mirrors=(),
        dnf_mirrors=(),
        mirrors_only=False,
        proxy=Proxy(url="http://proxy.example:3128", no_proxy=()),
        host_entries=(),
        time_servers=(),
        packages=(),
        users=(),
        firewall=Firewall(ports=(), sources=()),
    )
    plan = host_plan()
    plan = plan.model_copy(update={"roles": plan.roles.model_copy(update={"site_base": base})})
    dead = added("package-sources", "bad http://m.example/InRelease Could not resolve 'm.example'\n")
    lacking = swapped(dead, "package-candidates", "Candidate: 4.2-5", "Candidate: (none)")
    found = {item.name: item for item in table.items(plan, "before")}
    for name in ("package-sources", "package-candidate-mdadm"):
        finding = table.judge(found[name], lacking)
        assert (finding.status, finding.variant) == ("warn", "other-way")
