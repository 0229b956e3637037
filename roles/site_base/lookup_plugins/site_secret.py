"""A secret in a file on the controller: refused when others may read it, decrypted when it is a vault's."""

from __future__ import annotations

DOCUMENTATION = """
name: site_secret
short_description: USER:PASSWORD from a file that only its owner reads
description:
  - Reads one line C(USER:PASSWORD) from a file on the controller. A file encrypted by ansible-vault is decrypted.
  - Fails when the file can be read by others, is not there, or holds anything else. Messages never quote the content.
options:
  _terms: {description: path of the file, required: true}
author: llmhw-provision
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:  # noqa: ARG002
        """One secret per path."""
        return [self._secret(Path(term)) for term in terms]

    def _secret(self, path: Path) -> str:
        if not path.is_file():
            raise AnsibleLookupError(f"no file {path} with the credentials of the proxy")
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            raise AnsibleLookupError(f"{path} holds credentials and has mode {mode:04o}; chmod 0600 {path}")
        text = str(self._loader.get_text_file_contents(str(path))).strip()
        if ":" not in text or "\n" in text:
            raise AnsibleLookupError(f"{path} must hold one line USER:PASSWORD")
        return text
