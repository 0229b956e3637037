"""What package_sources refuses, in words. Pure functions of what was read."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from ansible.module_utils.package_sources.openpgp import Key

# What apt 3 gives to sqv; the first that is there counts (apt.conf(5), APT::Key::Assert and sequoia's policy).
POLICIES = (
    "/etc/crypto-policies/back-ends/apt-sequoia.config",
    "/var/lib/crypto-config/profiles/current/apt-sequoia.config",
    "/usr/share/apt/default-sequoia.config",
)
_SHA1 = re.compile(r"^\s*sha1(?:\.second_preimage_resistance)?\s*=\s*\"?(\d{4})-(\d\d)-(\d\d)", re.M)
_SLUG = "use the repository of the distribution's own release, which has another key; no policy is weakened here"


def sha1_ends(policies: Iterable[str]) -> Optional[datetime.date]:  # noqa: UP045
    """The day from which apt refuses keys that are bound by SHA-1, None where its policy names none."""
    text = next((text for text in policies if text.strip()), "")
    days = [datetime.date(int(year), int(month), int(day)) for year, month, day in _SHA1.findall(text)]
    return max(days, default=None)


def key_refusal(
    source: Mapping[str, Any],
    found: Sequence[Key],
    origin: str,
    ends: Optional[datetime.date],  # noqa: UP045
    today: Optional[datetime.date] = None,  # noqa: UP045
) -> str:
    """Why a key is not accepted; empty where it is."""
    wanted = source["fingerprints"]
    others = [key.fingerprint for key in found if wanted and key.fingerprint not in wanted]
    if others:
        hint = "somebody may stand between; compare with the vendor's page before the plan is changed"
        text = f"{source['name']}: {origin} holds the key {', '.join(others)}; planned is {', '.join(wanted)}"
        return f"{text}\nhint: {hint}"
    weak = [key.fingerprint for key in found if key.weak]
    if weak and ends and (today or datetime.date.today()) >= ends:
        text = f"{source['name']}: the key {weak[0]} is bound by SHA-1, which apt refuses on this system since {ends}"
        return f"{text}\nhint: {_SLUG}"
    return ""


def apt_refusal(source: Mapping[str, Any], found: Sequence[Key], said: str) -> str:
    """What apt says to a source that it does not take, with its cause."""
    lines = [line.strip() for line in said.splitlines() if line.startswith(("E:", "W:", "Err:", "Error:", "Warning:"))]
    whole = " ".join(lines or said.split("\n"))[-900:].strip()
    keys = ", ".join(key.fingerprint for key in found)
    if "SHA1 is not considered secure" in said:
        cause, hint = f"{source['uri']} is signed in a way that apt refuses on this system", _SLUG
    elif re.search(r"NO_PUBKEY|Missing key|BADSIG|EXPKEYSIG|not signed|is not bound", said):
        cause = f"{source['uri']} is not signed by {keys}"
        hint = "the mirror's own key belongs into key_file; a repository without a good signature is never used"
    else:
        cause, hint = f"{source['uri']} cannot be read", "let the host reach it, or name a mirror in site.yaml"
    return f"{source['name']}: {cause}: apt says {whole}\nhint: {hint}; nothing was changed"
