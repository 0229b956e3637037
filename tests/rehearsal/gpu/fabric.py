"""What boards with NVSwitches need beside the driver: fabric manager, its libraries, NVLSM, IMEX."""

from __future__ import annotations

from tests.rehearsal.gpu.deb import File, Link, Package
from tests.rehearsal.gpu.layout import HERE, release, shared, tool, with_unit

_SHARE = "/usr/share/nvidia/nvswitch"
_UNIT = f"""[Unit]
Description=NVIDIA fabric manager service
After=network-online.target
Requires=network-online.target

[Service]
User=root
PrivateTmp=false
Type=forking
TimeoutStartSec=720
LimitCORE=infinity
PIDFile=/run/nvidia-fabricmanager/nv-fabricmanager.pid
RuntimeDirectory=nvidia-fabricmanager
ExecStart=/usr/bin/nvidia-fabricmanager-start.sh --mode start --fm-config-file {_SHARE}/fabricmanager.cfg

[Install]
WantedBy=multi-user.target
"""
_CONFIG = """# Fabric manager's settings (as far as the stand-in knows them).
LOG_LEVEL=4
LOG_FILE_NAME=/var/log/fabricmanager.log
DAEMONIZE=1
FABRIC_MODE=0
"""
_IMEX = """[Unit]
Description=NVIDIA IMEX service
ConditionPathExists=/etc/nvidia-imex/nodes_config.cfg

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg

[Install]
WantedBy=multi-user.target
"""


def packages(driver: str) -> tuple[Package, ...]:
    """Fabric manager, its development files, NSCQ, NVSDM and IMEX of one driver release."""
    return (
        _fabric_manager(driver),
        Package(
            *("nvidia-fabricmanager-dev", release(driver), "Fabric Manager API headers and associated library"),
            source="nvidia-fabric",
        ),
        Package(
            *("libnvidia-nscq", release(driver), "NVSwitch Configuration and Query library"),
            source="nvidia-fabric",
            files=dict(shared("libnvidia-nscq", driver, "libnvidia-nscq.so.2")),
        ),
        Package(
            *("libnvsdm", release(driver), "NVSwitch Device Monitoring library"),
            source="nvidia-fabric",
            files=dict(shared("libnvsdm", driver, "libnvsdm.so.1")),
        ),
        _imex(driver),
    )


def _fabric_manager(driver: str) -> Package:
    """Bound to no driver package: a newer one is taken without a word (NVIDIA/gpu-driver-container#735)."""
    files: dict[str, File | Link] = {
        "/usr/bin/nv-fabricmanager": tool("nv_fabricmanager", driver),
        "/usr/bin/nvidia-fabricmanager-start.sh": File.program((HERE / "tools/fabricmanager-start.sh").read_text()),
        f"{_SHARE}/fabricmanager.cfg": File(_CONFIG.encode()),
    }
    made = Package(
        *("nvidia-fabricmanager", release(driver), "Fabric Manager for NVSwitch based systems"),
        source="nvidia-fabric",
        relations={"Depends": "python3, pciutils"},
        files=files,
    )
    return with_unit(made, "nvidia-fabricmanager.service", _UNIT, enabled=False)


def _imex(driver: str) -> Package:
    text = f'#!/bin/sh\n# Stand-in of the rehearsal machine.\necho "IMEX version is: {driver}"\n'
    made = Package(
        *("nvidia-imex", release(driver), "IMEX Manager for NVIDIA based systems"),
        source="nvidia-imex",
        relations={"Depends": "nvidia-modprobe"},
        files={"/usr/bin/nvidia-imex": File.program(text)},
    )
    return with_unit(made, "nvidia-imex.service", _IMEX, enabled=False)


def nvlsm(version: str) -> Package:
    """The subnet manager of NVLink 5 switches; its versions are its own."""
    return Package(
        *("nvlsm", f"{version}-1", "NVLink Subnet Manager"),
        section="non-free/net",
        relations={"Depends": "python3"},
        files={
            "/opt/nvidia/nvlsm/sbin/nvlsm": tool("nvlsm", version),
            "/usr/share/nvidia/nvlsm/nvlsm.conf": File(b"# NVLSM's settings\n"),
        },
    )
