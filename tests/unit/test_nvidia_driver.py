"""What the modules of nvidia_driver decide about packages: the set, refusals, the way back, dnf, apt's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit import role_modules
from tests.unit.driver_states import K2, A, B, config, state, there

from ansible.module_utils.nvidia_driver import apt, back, decide, dnf, kept, packages, render  # isort: skip
from ansible.module_utils.nvidia_driver.host import by_version  # isort: skip


def test_versions_lose_epoch_and_revision() -> None:
    assert [packages.upstream(text) for text in (f"{B}-1", f"3:{B}-0ubuntu0.24.04.1", "2.30")] == [B, B, "2.30"]


def test_other_roles_packages_come_along_only_where_no_driver_is() -> None:
    along = {"packages": ["cuda-toolkit-13-0", "libnccl2=2.30.7"], "first_of": ["nsight"], "keep": ["cuda"]}
    nothing: dict[str, list[str]] = {"packages": [], "first_of": [], "keep": []}
    bare = there("cuda-toolkit-12-9 12.9.1-1", f"nvidia-modprobe {A}-1")
    assert decide.along(bare, config(along=along)) == along
    assert decide.along(there(f"libcuda1 {B}-1"), config(along=along)) == nothing
    assert decide.along(bare, config()) == decide.along(bare, config(along=None)) == nothing


def test_the_set_is_what_carries_the_drivers_version() -> None:
    found = there(
        f"nvidia-open {B}-1",
        f"libcuda1 {B}-1",
        "nvidia-container-toolkit 1.19.1-1",
        "nvidia-cuda-toolkit 11.8.89-1",
        "nvlsm 2025.06.11-1",
        f"nvidia-driver-pinning-{B} {B}-1",
        "nvidia-persistenced 580.1.2-1",
        f"curl {B}-1",
    )
    assert packages.core(found) == {"nvidia-open": B, "libcuda1": B}
    names = ["libcuda1", f"nvidia-driver-pinning-{B}", "nvidia-open", "nvlsm"]
    assert packages.the_set(found, ["nvlsm"]) == names


def test_a_tool_of_another_source_does_not_make_it_mixed() -> None:
    own = there("libcuda1 535.261.03-1~deb12u1", "nvidia-persistenced 535.171.04-1~deb12u1")
    assert not decide.mixed(own)
    assert decide.mixed(there(f"libcuda1 {B}-1", f"nvidia-open {A}-1"))
    assert decide.mixed(there(f"libcuda1 {B}-1 half-configured"))
    assert decide.old_version(there(f"libcuda1 {B}-1", f"nvidia-open {A}-1", f"libnvidia-ml1 {A}-1"), B) == A


def test_kernel_metas_and_their_tracks() -> None:
    found = there(
        "linux-image-amd64 6.1 installed install linux-image-6.1.0-50-amd64 (= 6.1.176-1)",
        "linux-headers-amd64 6.1 installed install linux-headers-6.1.0-50-amd64 (= 6.1.176-1)",
        "linux-headers-6.1.0-50-amd64 6.1 installed install linux-headers-6.1.0-50-common",
        "linux-image-generic-hwe-24.04 6.17 installed install linux-image-6.17.0-5-generic, linux-firmware",
        "linux-libc-dev 6.1",
    )
    metas = packages.kernel_metas(found)
    assert metas == ["linux-headers-amd64", "linux-image-amd64", "linux-image-generic-hwe-24.04"]
    assert packages.tracks(metas) == ["amd64", "generic-hwe-24.04"]


def test_apts_answers_are_read() -> None:
    text = f"Remv old [1-1]\nInst a [{A}-1] ({B}-1 NVIDIA:1.0 [amd64]) [b:amd64 ]\nInst b (2 x [all])\nConf b (2 x)\n"
    assert packages.simulated(text) == [
        packages.Planned("old", "1-1", ""),
        packages.Planned("a", f"{A}-1", f"{B}-1"),
        packages.Planned("b", "", "2"),
    ]
    shown = "Package: nvidia-open\nPre-Depends: x\nDepends: libcuda1 (= 1) | cuda, dkms:any\nVersion: 1\n\n"
    assert packages.depends(shown) == [["x"], ["libcuda1", "cuda"], ["dkms"]]
    policy = (
        "libcuda1:\n  Installed: (none)\n  Candidate: 2-1\n  Version table:\n"
        "     2-1 1001\n        500 http://m/a ./ Packages\n        500 http://m/b ./ Packages\n"
        " *** 1-1 100\n        100 /var/lib/dpkg/status\n"
    )
    assert packages.origins(policy) == {"libcuda1": {"2-1": ["http://m/a", "http://m/b"], "1-1": []}}


def test_modules_that_a_planned_package_provides_are_not_followed_to_the_other_flavour() -> None:
    shown = "Package: nvidia-open-kernel-dkms\nProvides: nvidia-kernel-any, nvidia-open-kernel-1 (= 1)\n"
    provided = packages.provides(shown)
    assert provided == {"nvidia-kernel-any", "nvidia-open-kernel-1"}
    groups = [["nvidia-kernel-dkms", "nvidia-kernel-1", "nvidia-open-kernel-1"]]
    offers = {"nvidia-kernel-dkms": "1-1"}
    assert apt._next(groups, {}, provided, offers) == set()
    assert apt._next(groups, {}, set(), offers) == {"nvidia-kernel-dkms"}


def test_refusals_of_the_machine() -> None:
    assert decide.refusals(state(), config()) == []
    (text,) = decide.refusals(state(installer="/usr/bin/nvidia-uninstall"), config())
    assert text.startswith("/usr/bin/nvidia-uninstall: a driver from NVIDIA's .run installer")
    (text,) = decide.refusals(state(secure_boot=True), config())
    assert "Secure Boot is on" in text
    assert decide.refusals(state(secure_boot=True), config(dkms=False)) == []


def test_a_stub_is_told_from_a_version_that_is_not_there() -> None:
    offers = {"x": [("580.173.02-0ubuntu1", 500)], "y": [(f"{A}-1", 500)], "z": [(f"{B}-1", -1)]}
    assert "a stub that leads to another branch" in decide.stub_sentence("x", "570.211.01", offers)
    assert decide.stub_sentence("y", B, offers) == f"y: planned is {B}; the sources offer {A}-1"
    assert "shut out" in decide.stub_sentence("z", B, offers)
    assert decide.stub_sentence("q", B, offers) == "q: no package source offers it"


def test_what_apt_would_do_beside_the_plan_is_refused() -> None:
    found = [
        packages.Planned("nvidia-driver-580-server-open", "", "580.173.02-0ubuntu1"),
        packages.Planned("docker.io", "1", ""),
        packages.Planned("nvidia-container-toolkit", "1.19-1", ""),
        packages.Planned("libcuda1", f"{A}-1", ""),
        packages.Planned("nvidia-persistenced", "", "570.1.1-1"),
    ]
    refused = decide.simulation_refusals(found, "570.211.01")
    assert [text.split(" with it")[0] for text in refused] == [
        "apt would install nvidia-driver-580-server-open 580.173.02-0ubuntu1",
        "apt would remove docker.io 1, which is no part of the driver",
        "apt would remove nvidia-container-toolkit 1.19-1, which is no part of the driver",
    ]


def test_packages_of_two_sources_are_refused() -> None:
    found = [packages.Planned("a", "", f"{B}-1"), packages.Planned("b", "", f"{B}-1")]
    both = {"a": {f"{B}-1": ["http://m/x"]}, "b": {f"{B}-1": ["http://m/x", "http://m/y"]}}
    assert decide.source_refusals(found, both, B) == []
    both["a"][f"{B}-1"] = ["http://m/z"]
    (text,) = decide.source_refusals(found, both, B)
    assert text.endswith("several sources: http://m/x: b; http://m/y: b; http://m/z: a")


def test_headers_are_asked_for_the_kernels_that_boot() -> None:
    found = state(kernels=("6.1.0-9-amd64", K2, "6.1.0-51-amd64"))
    assert found.boots == (K2, "6.1.0-51-amd64")
    assert decide.needed_headers(found, "linux-headers-") == ["linux-headers-6.1.0-51-amd64"]
    assert sorted(["6.1.0-10", "6.1.0-9"], key=by_version) == ["6.1.0-9", "6.1.0-10"]


def package(name: str, version: str) -> packages.Installed:
    return packages.Installed(name, "amd64", version)


def test_a_set_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    root = str(tmp_path / "cache/kept")
    source = tmp_path / "x.deb"
    source.write_bytes(b"deb")
    items = [package("libcuda1", f"{A}-1"), package("nvidia-open", f"1:{A}-1")]
    lacking = kept.keep(A, items, lambda item, _: str(source) if item.name == "libcuda1" else None, root)
    assert lacking == [f"nvidia-open 1:{A}-1"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.deb"], "no folder is left either"
    assert kept.keep(A, items, lambda *_: str(source), root) == []
    (found,) = kept.sets(root)
    assert (found.version, kept.damaged(found)) == (A, [])
    assert [item["file"] for item in found.packages][1] == f"nvidia-open_1%3a{A}-1_amd64.deb"
    Path(found.folder, f"libcuda1_{A}-1_amd64.deb").write_bytes(b"other")
    assert kept.damaged(found) == [f"libcuda1_{A}-1_amd64.deb"]
    kept.prune(B, root)
    assert kept.sets(root) == []


def test_the_way_back_takes_what_differs_and_removes_what_came_later() -> None:
    old = [{"name": name, "version": f"{A}-1", "file": f"{name}.deb"} for name in ("nvidia-open", "libcuda1")]
    way = back.choose(
        [kept.Kept("/k", A, tuple(old))], there(f"nvidia-open {B}-1", f"libcuda1 {A}-1", f"libnvidia-new {B}-1")
    )
    assert way is not None
    assert (way.files, way.absent) == (("/k/nvidia-open.deb",), ("libnvidia-new",))
    remove, unpack = back.commands(way)
    assert remove[-2:] == ["--remove", "libnvidia-new"]
    assert unpack[-2:] == ["--unpack", "/k/nvidia-open.deb"]
    assert {"dpkg"} == {remove[0], unpack[0]}  # apt would ask sources
    done = back.choose([kept.Kept("/k", A, tuple(old))], there(f"nvidia-open {A}-1", f"libcuda1 {A}-1", "curl 8-1"))
    assert done is not None
    assert back.sentences(done, A) == []
    assert back.choose([], {}) is None


def test_dnf_gets_the_stream_one_transaction_and_locks() -> None:
    el = config(
        packages=[{"name": "nvidia-open", "version": B}],
        needs=["dkms>=3.1.8", "gcc-c++"],
        headers_prefix="kernel-devel-",
    )
    found = dnf.work_out(state("gcc-c++ 11.5-1", kernels=(K2,), headers=frozenset()), el)
    assert found.transaction.install == ("dkms>=3.1.8", f"kernel-devel-{K2}", f"nvidia-open={B}")
    stream = {**el, "stream": "nvidia-driver:580-open"}
    reset, enable, install = dnf.commands(found.transaction.install, stream, ["nvidia-driver:570-open"])
    assert reset[-3:] == ["module", "reset", "nvidia-driver"]
    assert enable[-2:] == ["enable", "nvidia-driver:580-open"]
    assert install[-3:] == ["dkms>=3.1.8", f"kernel-devel-{K2}", f"nvidia-open-{B}*"]
    assert dnf.commands((), stream, dnf.streams("nvidia-driver 580-open [e] default x\n")) == []
    rows = {"nvidia-open": package("nvidia-open", f"{B}-1.el9"), "libnvidia-ml": package("libnvidia-ml", f"{B}-1.el9")}
    listed = f"nvidia-open-3:{B}-1.el9.*\n"
    assert dnf.locks(rows, [], listed) == [["dnf", "--assumeyes", "versionlock", "add", "libnvidia-ml"]]


@pytest.mark.parametrize("text", [render.unattended(), render.preferences(B, ["nvidia-*", "libcuda1"])])
def test_apts_files_have_apts_form(text: str) -> None:
    assert text.endswith("\n")
    assert ("Pin: version 580.159.03*" in text) != ('"libnvidia-";' in text)


def test_the_role_needs_no_python_beyond_3_9() -> None:
    import ast

    for path in (role_modules.ROLES / "nvidia_driver").rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
