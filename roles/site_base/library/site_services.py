#!/usr/bin/python
"""The clock and the firewall of a site: chrony with the site's servers, planned ports where a firewall drops."""

from __future__ import annotations

DOCUMENTATION = """
module: site_services
short_description: chrony follows the site's servers, planned ports are open between the site's hosts
description:
  - chrony is enabled, runs, and knows the servers. A time service that the site has installed and that works is kept.
  - Looks which firewall is there. Where one drops, opens the planned ports for the hosts of the site in a chain,
    a policy or rules of its own, so that they are there after a boot and after a reload. No rule of the site is
    altered. Where none is found, none is switched on.
  - In check mode nothing is changed; C(actions) lists what would be done, in the same words.
options:
  servers: {description: time servers, type: list, elements: str, default: []}
  unit: {description: the unit of chrony, type: str, required: true}
  keeps_time: {description: "the site's own time service, which is kept", type: str, default: ""}
  ports: {description: ports with protocol, type: list, elements: str, default: []}
  sources: {description: IP addresses that are let in, type: list, elements: str, default: []}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
firewall: {description: which firewall was found, type: str, returned: success}
notes: {description: what was left as it is and why, type: list, elements: str, returned: success}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules.files import File, differing, put, read
from ansible.module_utils.site_base import firewall


class Services:
    """One host: what is left to do, and doing it."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self._servers: list[str] = module.params["servers"]
        self._unit: str = module.params["unit"]
        self._ports: list[str] = module.params["ports"]
        self._sources: list[str] = module.params["sources"]
        self.notes: list[str] = []
        self.kind = self._kind()

    def _kind(self) -> str:
        """Which firewall there is: ufw, firewalld, nftables or none."""
        if self._module.get_bin_path("ufw") and "ENABLED=yes" in read("/etc/ufw/ufw.conf").splitlines():
            return "ufw"
        if self._active("firewalld.service"):
            return "firewalld"
        self._ruleset = self._out(["nft", "-j", "list", "ruleset"], may_fail=True)
        if firewall.dropping_chains(self._ruleset):
            return "nftables"
        if not self._ruleset and "-P INPUT DROP" in self._out(["iptables", "-S", "INPUT"], may_fail=True):
            self._module.fail_json(msg="a firewall of iptables drops, and nft is not installed\nhint: install nftables")
        return "none"

    def todo(self) -> list[tuple[str, str]]:
        """What is left to do: (kind, sentence)."""
        self.notes = []
        return [*self._clock(), *self._firewall()]

    def _clock(self) -> list[tuple[str, str]]:
        if not self._servers:
            return []
        keeps = self._module.params["keeps_time"]
        if keeps:
            self.notes.append(f"{keeps} works and is kept")
            return []
        shown = self._show(self._unit, "ActiveState", "UnitFileState", "ConditionResult", "ConditionTimestampMonotonic")
        found = [] if shown.get("UnitFileState") == "enabled" else [("enable", f"enable {self._unit}")]
        if shown.get("ActiveState") != "active":
            tried = shown.get("ConditionTimestampMonotonic", "0") != "0"
            if tried and shown.get("ConditionResult") == "no" and not found:
                self.notes.append("the clock belongs to the host of this container")
                return found
            return [*found, ("start", f"start {self._unit}")]
        lines = self._out(["chronyc", "-c", "-N", "sources"], may_fail=True).splitlines()
        known = {line.split(",")[2] for line in lines if line.count(",") > 2}
        if not set(self._servers) <= known:
            found.append(("sources", "let chrony read its servers again"))
        return found

    def _firewall(self) -> list[tuple[str, str]]:
        if self.kind == "ufw":
            shown = self._out(["ufw", "show", "added"]).replace('"', "'")
            mine = [line[4:] for line in shown.splitlines() if line.endswith("comment 'llmhw'")]
            wanted = firewall.ufw_rules(self._ports, self._sources)
            found = [("ufw", rule) for rule in wanted if rule not in mine]
            return [*found, *(("ufw", f"delete {rule}") for rule in mine if rule not in wanted)]
        found = [("file", text) for _, text in differing(self.files())]
        if self.kind == "firewalld":
            policies = self._out(["firewall-cmd", "--get-policies"]).split()
            stale = self._ports and "llmhw" not in policies
            return [*found, ("firewalld", "let firewalld read its files again")] if found or stale else []
        if self.kind == "nftables" and self._ports:
            ruleset = self._out(["nft", "-j", "list", "ruleset"])
            for chain in self._chains():
                if not firewall.in_force(ruleset, chain, self._ports, self._sources):
                    opened = (
                        f"open {', '.join(self._ports)} for {len(self._sources)} hosts in {chain.family} {chain.table}"
                    )
                    found.append(("nftables", opened))
        elif f"jump {firewall.CHAIN}" in self._out(["nft", "list", "ruleset"], may_fail=True):
            found.append(("close", "take our chain out of the firewall"))
        return found

    def _chains(self) -> list[firewall.Chain]:
        return firewall.dropping_chains(self._ruleset) if self.kind == "nftables" else []

    def files(self) -> list[File]:
        """The files of the firewall that was found; those of any other kind shall not be there."""
        wanted: dict[str, str] = {}
        links: dict[str, str] = {}
        if self._ports and self.kind == "firewalld":
            wanted = firewall.firewalld_files(self._ports, self._sources)
        elif self._ports and self.kind == "nftables":
            enabled = self._show("nftables.service", "UnitFileState").get("UnitFileState") == "enabled"
            wanted = {firewall.SCRIPT: firewall.script(self._chains(), self._ports, self._sources)}
            wanted.update(firewall.unit_files(enabled))
            links = {} if enabled else {firewall.WANTED: firewall.UNIT}
        known = [firewall.SCRIPT, firewall.DROP_IN, firewall.UNIT, firewall.WANTED, firewall.POLICY]
        known += [firewall.IPSETS.format(family) for family in ("ipv4", "ipv6")]
        gone = [File(path, None) for path in known if path not in wanted and path not in links]
        texts = [File(path, text) for path, text in wanted.items()]
        return [*gone, *texts, *(File(path, text, link=True) for path, text in links.items())]

    def act(self, todo: list[tuple[str, str]]) -> None:
        kinds = {kind for kind, _ in todo}
        if "firewalld" in kinds:
            self._refuse_lost_rules()
        for file, _ in differing(self.files()) if self.kind != "ufw" else []:
            put(file)
        if "file" in kinds and self.kind != "firewalld":
            self._out(["systemctl", "daemon-reload"])
        for kind, sentence in todo:
            if kind == "ufw":
                self._out(["sh", "-c", f"ufw {sentence}"])
        if "firewalld" in kinds:
            self._out(["firewall-cmd", "--reload"])
        if "nftables" in kinds:
            self._out(["sh", firewall.SCRIPT])
        if "close" in kinds:
            self._close()
        if kinds & {"enable", "start"}:
            self._out(["systemctl", "enable", "--now", self._unit])
        if "sources" in kinds:
            self._out(["chronyc", "reload", "sources"], may_fail=True)
            if any(kind == "sources" for kind, _ in self._clock()):
                self._out(["systemctl", "restart", self._unit])

    def _close(self) -> None:
        for line in self._out(["nft", "-a", "list", "ruleset"]).splitlines():
            words = line.split()
            if words[:1] == ["table"]:
                table = words[1:3]
            elif words[:1] == ["chain"]:
                chain = words[1]
            elif f"jump {firewall.CHAIN}" in line and "handle" in words:
                self._out(["nft", "delete", "rule", *table, chain, "handle", words[-1]])
                self._out(["nft", "flush", "chain", *table, firewall.CHAIN])
                self._out(["nft", "delete", "chain", *table, firewall.CHAIN])

    def _refuse_lost_rules(self) -> None:
        """A reload of firewalld forgets what was set only until the next reload."""
        ways = (["--list-all-zones"], ["--permanent", "--list-all-zones"])
        keys = ("services:", "ports:", "rich rules:", "rule ", "source-ports:", "forward-ports:")
        now, kept = (
            [line for line in self._out(["firewall-cmd", *way]).splitlines() if line.strip().startswith(keys)]
            for way in ways
        )
        if now != kept:
            hint = "hint: nothing was changed. firewall-cmd --runtime-to-permanent keeps them"
            self._module.fail_json(msg=f"firewalld has rules that a reload would lose\n{hint}")

    def _active(self, unit: str) -> bool:
        return self._show(unit, "ActiveState").get("ActiveState") == "active"

    def _show(self, unit: str, *properties: str) -> dict[str, str]:
        out = self._out(["systemctl", "show", f"--property={','.join(properties)}", unit], may_fail=True)
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)

    def _out(self, command: list[str], *, may_fail: bool = False) -> str:
        if may_fail and self._module.get_bin_path(command[0]) is None:
            return ""
        rc, out, err = self._module.run_command(command, environ_update={"LC_ALL": "C"})
        if rc != 0 and not may_fail:
            self._module.fail_json(msg=f"{' '.join(command)} failed: {(err or out).strip()[-600:]}")
        return str(out)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "servers": {"type": "list", "elements": "str", "default": []},
            "unit": {"type": "str", "required": True},
            "keeps_time": {"type": "str", "default": ""},
            "ports": {"type": "list", "elements": "str", "default": []},
            "sources": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    services = Services(module)
    todo = services.todo()
    if todo and not module.check_mode:
        services.act(todo)
        left = [text for _, text in services.todo()]
        if left and os.path.isdir("/run/systemd/system"):
            module.fail_json(msg=f"done, yet without effect: {'; '.join(left)}")
    for note in services.notes:
        module.warn(note)
    actions = [f"ufw {text}" if kind == "ufw" else text for kind, text in todo]
    module.exit_json(changed=bool(todo), actions=actions, firewall=services.kind, notes=services.notes)


if __name__ == "__main__":
    main()
