"""Where the playbooks and roles lie: inside the wheel, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path

from llmhw_provision.errors import InputError


def content_root() -> Path:
    """The folder that holds `playbooks/` and `roles/`; raises InputError when the installation is incomplete."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "_ansible", package.parent):
        if (candidate / "playbooks" / "site.yml").is_file() and (candidate / "roles").is_dir():
            return candidate
    raise InputError(
        f"no playbooks beside {package}",
        "the installation is incomplete; install the llmhw-provision wheel again",
    )
