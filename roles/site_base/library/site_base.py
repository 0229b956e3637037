#!/usr/bin/python
"""Users, CAs, package sources, proxy, hosts and Python index of a site: refuses first, then writes what differs."""

from __future__ import annotations

DOCUMENTATION = """
module: site_base
short_description: what a site asks of every host before anything is installed
description:
  - Refuses a number that belongs to another user, an address that /etc/hosts gives otherwise, and a second apt source
    for the same archive. Nothing is changed then.
  - Writes whole files of its own and one block in /etc/hosts. What follows from them (trust store, apt's lists,
    systemd's environment) is done when the state shows that it is missing, not when a file was changed.
  - In check mode nothing is changed; C(actions) lists what would be done, in the same words.
options:
  config: {description: the role's configuration, type: dict, required: true}
  paths: {description: names that this system uses, type: dict, required: true}
  packages: {description: Debian's name of a package to the one of this system, type: dict, default: {}}
  contents: {description: file on the controller to its text, type: dict, default: {}}
  credentials: {description: USER:PASSWORD of the proxy, type: str, default: ""}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
missing: {description: packages that are not installed, type: list, elements: str, returned: success}
keeps_time: {description: the site's own time service, type: str, returned: success}
"""

import glob
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import apt_lists
from ansible.module_utils.host_modules.files import (
    BLOCK,
    File,
    differing,
    mode_of,
    outside_block,
    put,
    read,
    with_block,
)
from ansible.module_utils.site_base import decide, render

HOSTS = "/etc/hosts"


class Base:
    """One host: reads, refuses, acts."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self.config: dict[str, Any] = module.params["config"]
        self.paths: dict[str, Any] = module.params["paths"]
        self._debian = self.paths["family"] == "debian"

    def refusals(self) -> list[str]:
        users, config = self.config["users"], self.config
        found = []
        if users:
            lines = [self._out(["getent", name]).splitlines() for name in ("passwd", "group")]
            found += decide.user_refusals(users, *lines)
        if config["host_entries"]:
            own = os.uname().nodename.partition(".")[0]
            found += decide.host_refusals(config["host_entries"], outside_block(read(HOSTS)), own)
        if self._debian and not config["mirrors_only"]:
            found += decide.source_conflicts(config["apt_mirrors"], {path: read(path) for path in self._others()})
        return found

    def files(self) -> list[File]:
        """Every file as it shall be, and those of an earlier plan that shall go."""
        contents, credentials = self._module.params["contents"], self._module.params["credentials"]
        wanted = render.files(self.config, self.paths, contents, credentials)
        there = {file.path for file in wanted}
        wanted += [File(path, None) for path in self._ours() if path not in there]
        lines = [f"{entry['address']} {entry['name']}" for entry in self.config["host_entries"]]
        hosts = read(HOSTS)
        if lines or BLOCK in hosts:
            wanted.append(File(HOSTS, with_block(hosts, lines), mode_of(HOSTS)))
        if self.paths["chrony_conf"] and os.path.exists(self.paths["chrony_conf"]):
            block = (
                [f"sourcedir {os.path.dirname(self.paths['chrony_sources'])}"] if self.config["time_servers"] else []
            )
            text = read(self.paths["chrony_conf"])
            wanted += (
                [File(self.paths["chrony_conf"], with_block(text, block), mode_of(self.paths["chrony_conf"]))]
                if block or BLOCK in text
                else []
            )
        return wanted

    def _ours(self) -> list[str]:
        """Files that an earlier plan may have written."""
        paths = self.paths
        patterns = [f"{paths['certificates']}/llmhw-*", f"{paths['sources']}/llmhw-site-*.sources"]
        patterns += [f"{paths['sources']}/llmhw-site-*.repo", f"{paths['keyrings']}/llmhw-site-*.asc"]
        patterns += [f"{paths['keyrings']}/RPM-GPG-KEY-llmhw-site-*", paths["proxy"], paths["chrony_sources"]]
        patterns += [render.ENVIRONMENT, render.MANAGER, render.PROFILE]
        found = [path for pattern in patterns if pattern for path in sorted(glob.glob(pattern))]
        head = "# Written by llmhw-provision"
        return found + [path for path in (render.PIP, render.UV) if read(path).startswith(head)]

    def _others(self) -> list[str]:
        """Package sources that are not ours."""
        folder = self.paths["sources"]
        found = [path for suffix in ("list", "sources", "repo") for path in sorted(glob.glob(f"{folder}/*.{suffix}"))]
        found += ["/etc/apt/sources.list"] if self._debian and read("/etc/apt/sources.list").strip() else []
        return [path for path in found if not os.path.basename(path).startswith("llmhw-")]

    def follow_ups(self) -> list[tuple[str, str]]:
        """What the state shows to be missing: (kind, sentence)."""
        found = []
        contents, bundle = self._module.params["contents"], read(self.paths["bundle"])
        certificates = self.config["certificates"]
        if any(not decide.in_bundle(contents[item["file"]], bundle) for item in certificates):
            found += [("trust", "add the CAs to the trust store")] if self._can_trust() else []
        if self._environment_differs():
            found.append(("manager", "let systemd read its environment again"))
        if self._debian and any(not self._listed(mirror) for mirror in self.config["apt_mirrors"]):
            found.append(("update", "read the package lists"))
        return found

    def _can_trust(self) -> bool:
        """Whether the tool is there; if not, its package is among the missing ones, and this runs again after it."""
        return self._module.get_bin_path(self.paths["update_certificates"][0]) is not None

    def _environment_differs(self) -> bool:
        proxy = self.config.get("proxy")
        wanted = f"http_proxy={proxy['url']}" if proxy and not self._module.params["credentials"] else ""
        if not wanted and not os.path.exists(render.MANAGER):
            return False
        shown = self._out(["systemctl", "show", "--property=Environment", "--value"], may_fail=True)
        return wanted not in shown.split() if wanted else "http_proxy=" in shown

    def _listed(self, mirror: dict[str, Any]) -> bool:
        """Whether apt has read the lists of a mirror since its source was written."""
        names = apt_lists.list_names(mirror["uri"], mirror["suites"])
        return all(glob.glob(f"/var/lib/apt/lists/{glob.escape(name)}*Release") for name in names)

    def aside(self) -> list[str]:
        return self._others() if self.config["mirrors_only"] else []

    def new_users(self) -> list[dict[str, Any]]:
        names = {line.partition(":")[0] for line in self._out(["getent", "passwd"]).splitlines()}
        return [user for user in self.config["users"] if user["name"] not in names]

    def add_user(self, user: dict[str, Any]) -> None:
        """System account without a shell or a home of its own; a group of that name may be there already."""
        name = user["name"]
        if not any(line.startswith(f"{name}:") for line in self._out(["getent", "group"]).splitlines()):
            self._out(["groupadd", "--system", "--gid", str(user["gid"]), name])
        words = ["useradd", "--system", "--uid", str(user["uid"]), "--gid", name, "--no-create-home"]
        self._out([*words, "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", name])

    def follow(self, kind: str) -> None:
        if kind == "trust":
            self._out(self.paths["update_certificates"])
        elif kind == "manager":
            self._out(["systemctl", "daemon-reexec"])
        else:
            wait = ["-o", "DPkg::Lock::Timeout=600", "-o", "Acquire::Retries=3", "-o", "APT::Update::Error-Mode=any"]
            self._out(["apt-get", "update", *wait])

    def missing(self, keeps_time: str) -> list[str]:
        names = self._module.params["packages"]
        wanted = [names.get(name, name) for name in self.config["packages"]]
        wanted += ["ca-certificates"] if self.config["certificates"] else []
        wanted += ["chrony"] if self.config["time_servers"] and not keeps_time else []
        query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n"] if self._debian else _RPM
        lines = self._out(query, may_fail=True).splitlines() if wanted else []
        states = {"installed", "triggers-pending", "triggers-awaited"}
        there = {line.partition(" ")[0] for line in lines if line.partition(" ")[2] in states}
        return [name for name in dict.fromkeys(wanted) if name not in there]

    def keeps_time(self) -> str:
        if not self.config["time_servers"]:
            return ""
        listed = ["systemctl", "list-units", "--state=active", "--plain", "--no-legend", "--no-pager", *decide.OWN_TIME]
        active = [line.split()[0] for line in self._out(listed, may_fail=True).splitlines() if line.strip()]
        right = self._out(["timedatectl", "show", "--property=NTPSynchronized", "--value"], may_fail=True).strip()
        return decide.own_time_service(active, right == "yes")

    def _out(self, command: list[str], *, may_fail: bool = False) -> str:
        rc, out, err = self._module.run_command(command, environ_update={"LC_ALL": "C"})
        if rc != 0 and not may_fail:
            said = "; ".join(line for line in (err or out).splitlines() if line.strip())[-600:]
            self._module.fail_json(msg=f"{' '.join(command[:2])} failed: {said}")
        return str(out)


_RPM = ["rpm", "-qa", "--queryformat", "%{NAME} installed\\n"]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict", "required": True},
            "paths": {"type": "dict", "required": True},
            "packages": {"type": "dict", "default": {}},
            "contents": {"type": "dict", "default": {}},
            "credentials": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    module.no_log_values.update(render.forms(module.params["credentials"]))
    base = Base(module)
    refused = base.refusals()
    if refused:
        module.fail_json(msg="\n".join([*refused, "hint: nothing was changed."]), refusals=refused)
    users, todo, aside = base.new_users(), differing(base.files()), base.aside()
    follow = base.follow_ups()
    gone = any(file.text is None and file.path.startswith(base.paths["certificates"]) for file, _ in todo)
    follow += [("trust", "take CAs out of the trust store")] if gone and not follow else []
    keeps_time = base.keeps_time()
    actions = [f"add user {user['name']} with uid {user['uid']}" for user in users]
    actions += [text for _, text in todo] + [f"set {path} aside" for path in aside] + [text for _, text in follow]
    missing = base.missing(keeps_time)
    if actions and not module.check_mode:
        for user in users:
            base.add_user(user)
        for path in aside:
            os.rename(path, path + render.ASIDE)
        for file, _ in todo:
            put(file)
        for kind, _ in follow:
            base.follow(kind)
        left = [text for _, text in differing(base.files())] + [text for _, text in base.follow_ups()]
        if left:
            module.fail_json(msg=f"done, yet without effect: {'; '.join(left)}")
    module.exit_json(changed=bool(actions), actions=actions, missing=missing, keeps_time=keeps_time)


if __name__ == "__main__":
    main()
