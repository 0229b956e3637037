#!/usr/bin/python
"""/etc/nccl.conf with the adapters that the host has, and nccl-tests built from the site's archive."""

from __future__ import annotations

DOCUMENTATION = """
module: nccl_files
short_description: NCCL's settings on this host, and nccl-tests
description:
  - Refuses adapters of the plan that are no RDMA device on the host. Nothing is changed then.
  - A /etc/nccl.conf that somebody else has written is kept beside it.
  - nccl-tests is built in a folder of its own, which is named after the archive; a link leads to it when it is done.
  - In check mode nothing is changed; C(actions) lists what would be done, in the same words.
options:
  config: {description: the role's configuration, type: dict, required: true}
  archive: {description: source archive of nccl-tests on the host, type: str, default: ""}
  refuse_only: {description: only look and refuse, type: bool, default: false}
  checksum: {description: SHA-1 of the archive, which names the folder, type: str, default: ""}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
"""

import glob
import os
import shutil
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules.files import File, differing, put, read
from ansible.module_utils.nccl import render

_TESTS, _ASIDE = "/opt/llmhw/nccl-tests", ".disabled-by-llmhw"
_PROGRAM = "all_reduce_perf"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict", "required": True},
            "archive": {"type": "str", "default": ""},
            "checksum": {"type": "str", "default": ""},
            "refuse_only": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    config = module.params["config"]
    devices = _refuse(module)
    if module.params["refuse_only"]:
        module.exit_json(changed=False, actions=[])
    conf = differing([File(render.CONF, render.text(config["settings"], config["rails"], devices))])
    there = read(render.CONF)
    foreign = bool(there) and not there.startswith(render.HEAD)
    actions = [f"set {render.CONF} aside: another has written it"] if foreign and conf else []
    actions += [text for _, text in conf]
    folder = os.path.join(_TESTS, module.params["checksum"][:12])
    wanted = config.get("tests") is not None
    built = os.access(os.path.join(folder, _PROGRAM), os.X_OK)
    link = File(os.path.join(_TESTS, "current"), folder, link=True)
    links = differing([link]) if wanted and built else []
    actions += [f"build nccl-tests from {config['tests']['archive']}"] if wanted and not built else []
    actions += [text for _, text in links]
    if actions and not module.check_mode:
        if foreign and conf:
            os.replace(render.CONF, render.CONF + _ASIDE)
        for file, _ in conf:
            put(file)
        if wanted and not built:
            _build(module, folder)
        if wanted and differing([link]):
            put(link)
    module.exit_json(changed=bool(actions), actions=actions)


def _refuse(module: AnsibleModule) -> dict[str, list[str]]:
    """PCI address to RDMA devices of the rails; ends the module where the host lacks what the plan asks for."""
    config = module.params["config"]
    devices = {
        address: sorted(os.path.basename(path) for path in glob.glob(f"/sys/bus/pci/devices/{address}/infiniband/*"))
        for address in config["rails"]
    }
    refused = render.refusals(config["rails"], devices)
    if refused:
        hint = "is the adapter there, and mlx5_ib loaded? lspci -k shows it; nothing was changed"
        module.fail_json(msg="\n".join([*refused, f"hint: {hint}"]))
    nvcc = f"{config['cuda_home']}/bin/nvcc"
    if config.get("tests") and not os.access(nvcc, os.X_OK) and not module.check_mode:
        module.fail_json(msg=f"nccl-tests cannot be built: no {nvcc}\nhint: take software.nccl_tests out of site.yaml")
    return devices


def _build(module: AnsibleModule, folder: str) -> None:
    """Unpacks and builds beside `folder`, which is there when the build is whole."""
    config = module.params["config"]
    os.makedirs(_TESTS, mode=0o755, exist_ok=True)
    for left in glob.glob(f"{_TESTS}/.new-*"):  # of a run that was cut off
        shutil.rmtree(left)
    work = tempfile.mkdtemp(dir=_TESTS, prefix=".new-")
    try:
        os.makedirs(f"{work}/done")
        unpack = ["tar", "--extract", "--file", module.params["archive"], "--directory", work]
        _run(module, [*unpack, "--no-same-owner", "--strip-components=1"], "unpacking nccl-tests")
        make = ["make", f"-j{os.cpu_count() or 1}", "-C", work, f"CUDA_HOME={config['cuda_home']}", "NCCL_HOME=/usr"]
        make += ["MPI=0", f"BUILDDIR={work}/build", f"NVCC_GENCODE={render.gencode(config['tests']['compute'])}"]
        _run(module, make, "building nccl-tests")
        for path in glob.glob(f"{work}/build/*_perf"):
            shutil.copy2(path, f"{work}/done")
        if not os.access(f"{work}/done/{_PROGRAM}", os.X_OK):
            module.fail_json(msg=f"building nccl-tests reports success, yet there is no {_PROGRAM}")
        os.chmod(f"{work}/done", 0o755)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(f"{work}/done", folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(module: AnsibleModule, command: list[str], what: str) -> None:
    rc, out, err = module.run_command(command, environ_update={"LC_ALL": "C"})
    if rc != 0:
        lines = [line for line in (out + err).splitlines() if line.strip()]
        first = next((line for line in err.splitlines() if "error" in line.lower()), "")
        module.fail_json(msg="\n".join([f"{what} failed: {first}", *lines[-8:]]))


if __name__ == "__main__":
    main()
