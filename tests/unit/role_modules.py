"""Makes the modules of roles importable as Ansible makes them: `ansible.module_utils.<role>`."""

from pathlib import Path

import ansible.module_utils
import yaml

ROLES = Path(__file__).resolve().parents[2] / "roles"

for _folder in sorted(ROLES.glob("*/module_utils")):
    if str(_folder) not in ansible.module_utils.__path__:
        ansible.module_utils.__path__.append(str(_folder))


def paths(role: str, family: str) -> dict[str, object]:
    """The names that `role` uses on a family of systems, from its vars."""
    data = yaml.safe_load((ROLES / role / "vars" / f"{family}.yml").read_text(encoding="utf-8"))
    found: dict[str, object] = data[f"__{role}_paths"]
    return found
