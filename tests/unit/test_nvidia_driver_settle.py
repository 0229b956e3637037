"""What nvidia_driver does once the packages are there: builds, triggers, files, holds, services, restarts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from llmhw_provision.probes import gpu_packages
from tests.unit import role_modules
from tests.unit.driver_states import K1, K2, LINE, A, B, config, state

from ansible.module_utils.nvidia_driver import packages, render, settle  # isort: skip
from ansible.module_utils.nvidia_driver.host import Host, compiler_line, statuses  # isort: skip


def test_dkms_status_of_both_forms_and_the_compilers_line() -> None:
    new = f"nvidia/{B}, {K2}, x86_64: installed\nnvidia/{A}: added\n"
    assert [tuple(item) for item in statuses(new)] == [("nvidia", B, K2, "installed"), ("nvidia", A, "", "added")]
    assert statuses(f"nvidia, {B}, {K2}, x86_64: installed\n")[0].release == K2
    log = f"  CC [M] x.o\n/var/lib/dkms/{LINE}\n  237 | x\nmake[2]: *** [nv-pci.o] Error 1\n"
    assert compiler_line(log) == f"/var/lib/dkms/{LINE}"
    assert compiler_line("make: *** No rule to make target 'modules'.  Stop.\n").endswith("Stop.")


def test_a_failed_build_is_told_with_its_line(tmp_path: Path) -> None:
    log = tmp_path / f"var/lib/dkms/nvidia/{B}/build/make.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"{LINE}\n")
    host = Host(lambda _: (1, "", ""), "debian", str(tmp_path))
    assert settle.build_failure(host, K2, B) == f"the module {B} was not built for kernel {K2}: {LINE} ({log})"
    log.unlink()
    assert settle.build_failure(host, K2, B).endswith("its headers are not installed")


def test_other_drivers_are_shut_out_only_once_a_module_is_on_disk(tmp_path: Path) -> None:
    host = Host(lambda _: (1, "", ""), "debian", str(tmp_path))
    paths = {file.path for file in settle.wanted_files(host, state(), config())}
    assert render.BLACKLIST in paths
    for missing in (state(built={}), state(built={K1: B}), state(running="", kernels=())):
        paths = {file.path for file in settle.wanted_files(host, missing, config())}
        assert render.BLACKLIST not in paths
    removed = settle.wanted_files(host, state(), config(board="none"))
    assert [file.path for file in removed if file.text is None] == [render.FABRIC_MANAGER]


def test_restart_reasons_follow_from_the_state() -> None:
    assert settle.reboot_reasons(state(loaded=B), B) == []
    assert settle.reboot_reasons(state(), B) == []
    (text,) = settle.reboot_reasons(state(loaded=A), B)
    assert text == f"module {A} is loaded, {B} is installed"
    (text,) = settle.reboot_reasons(state(foreign=("nouveau",)), B)
    assert text.startswith("nouveau is loaded")
    (text,) = settle.reboot_reasons(state(running=K1, built={K2: B}), B)
    assert text == f"kernel {K1} has no module {B}; {K2} has"


def test_the_module_is_loaded_only_where_nothing_stands_against_it() -> None:
    assert [step.sentence for step in settle.load_steps(state(), B)] == [f"load the module {B}"]
    for other in (state(loaded=A), state(foreign=("nouveau",)), state(built={}), state(running="")):
        assert settle.load_steps(other, B) == []


def test_what_is_wrong_after_the_installation_is_named() -> None:
    found = state(f"nvidia-open {B}-1", f"libcuda1 {A}-1", f"libnvidia-ml1 {B}-1 unpacked")
    assert settle.faults(found, config(), B) == [
        f"libcuda1 is {A}; the driver is {B}",
        "libnvidia-ml1 is not configured",
        "nvidia-fabricmanager is not installed",
    ]


def test_debians_own_packages_name_the_module_by_its_flavour() -> None:
    def run(words: Sequence[str]) -> tuple[int, str, str]:
        found = words[:2] == ["modinfo", "-k"] and words[2:] == [K2, "-F", "version", "nvidia-current-open"]
        return (0, f"{B}\n", "") if found else (1, "", "")

    host = Host(run, "debian")
    assert (host._built(K2), host._built(K1)) == (B, "")


def test_debians_own_packages_are_linked_into_place_by_triggers() -> None:
    found = state(
        f"nvidia-alternative {B}-1 triggers-pending",
        "glx-alternative-nvidia 1.2.2 triggers-pending",
        f"nvidia-open-kernel-dkms {B}-1 triggers-awaited",
        "update-glx 1.2.2 triggers-pending",
        "initramfs-tools 0.142 triggers-pending",
    )
    targets = [step.target for step in settle.trigger_steps(found)]
    assert targets == ["glx-alternative-nvidia", "nvidia-alternative", "update-glx"]


def test_all_names_of_the_driver_are_pinned_and_left_alone() -> None:
    pins = yaml.safe_load((role_modules.ROLES / "nvidia_driver/vars/debian.yml").read_text())["__nvidia_driver_pins"]
    patterns = re.findall(r'^  "(.*)";$', render.unattended(), re.MULTILINE)
    for name in ("libgl1-nvidia-glvnd-glx", "libegl-nvidia0", "libgles-nvidia2", "libglx-nvidia0", "nvidia-egl-icd"):
        item = packages.Installed(name, "amd64", "535.261.03-1")
        assert packages.core({name: item}) == {name: "535.261.03"}
        assert any(fnmatchcase(name, pin) for pin in pins)
        assert any(re.match(pattern, name) for pattern in patterns)
        assert gpu_packages.is_driver(name, item.version)


def test_holds_are_what_is_not_held_yet() -> None:
    found = state(
        f"nvidia-open {B}-1 installed hold",
        f"libcuda1 {B}-1",
        "linux-image-amd64 6.1 installed install linux-image-6.1.0-50-amd64",
        "curl 8-1",
    )
    targets = [step.target for step in settle.hold_steps(found, config())]
    assert targets == ["libcuda1:amd64", "linux-image-amd64:amd64"]


def test_the_persistence_daemon_waits_and_turns_persistence_on() -> None:
    shipped = "[Service]\nType=forking\nExecStart=/usr/bin/nvidia-persistenced --no-persistence-mode --verbose\n"
    text = render.persistenced(shipped)
    assert "ConditionPathExistsGlob=\n" in text
    assert "ExecStart=\nExecStart=/usr/bin/nvidia-persistenced --persistence-mode --verbose\n" in text
    assert "ExecStart=\n" not in render.persistenced("[Service]\nExecStart=/usr/bin/nvidia-persistenced --verbose\n")


def test_on_nvlink_5_the_unit_must_start_nvlsm(tmp_path: Path) -> None:
    unit = tmp_path / "usr/lib/systemd/system/nvidia-fabricmanager.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/usr/bin/nv-fabricmanager -c x\n")
    host = Host(lambda _: (0, "", ""), "debian", str(tmp_path))
    assert "nvlsm would never run" in settle.starter_fault(host, config(board="nvlink5"))
    assert settle.starter_fault(host, config()) == ""
    assert render.modules("nvlink5", ["mlx5_core", "ib_umad"]) == ["mlx5_core", "ib_umad", "nvidia", "nvidia_uvm"]
