"""package_sources: keys judged without gpg, entries of other files, refusals in words, what the plan gives the role."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.catalogue.software import software
from tests.unit import role_modules  # noqa: F401 - makes the imports below possible

from ansible.module_utils.package_sources import decide, openpgp, render, stanzas  # isort: skip

KEYS = Path(__file__).parent / "recorded/openpgp"  # made by gpg 2.2.40; fingerprints as it prints them
PRINTS = {
    "rsa": "28053D8C6B10C8F49E4C71C40A4E68A978A380AF",
    "ed": "8823C2044DBE742A4D024F4665D80BE6E4182560",
    "sha1": "332D88AB74ECB445BACCB17B31EC09A3753A097F",
}
VENDOR = "https://developer.download.nvidia.com/compute/cuda/repos/"
SOURCE: dict[str, Any] = {
    "name": "cuda",
    "uri": f"{VENDOR}debian12/x86_64/",
    "suites": ["/"],
    "components": [],
    "fingerprints": [PRINTS["rsa"]],
    "only": ["nvidia-open*", "libnccl2"],
    "never": [],
    "replaces": [VENDOR],
}


def key(name: str) -> bytes:
    return (KEYS / f"{name}.asc").read_bytes()


@pytest.mark.parametrize("name", PRINTS)
def test_the_fingerprint_is_that_of_gpg(name: str) -> None:
    packets = openpgp.packets_of(key(name))
    assert openpgp.keys(packets) == [openpgp.Key(PRINTS[name], weak=name == "sha1")]
    assert openpgp.packets_of(packets) == packets  # binary as well
    assert openpgp.packets_of(openpgp.armoured(packets).encode()) == packets


def test_two_keys_in_one_file_are_two_keys() -> None:
    both = openpgp.keys(openpgp.packets_of(key("rsa") + key("ed")))
    assert [item.fingerprint for item in both] == [PRINTS["rsa"], PRINTS["ed"]]
    said = decide.key_refusal(SOURCE, both, "key.asc", None)
    assert said.startswith(f"cuda: key.asc holds the key {PRINTS['ed']}; planned is {PRINTS['rsa']}\nhint: ")


def damaged() -> dict[str, bytes]:
    text = key("rsa")
    body = text.index(b"\n\n") + 40
    v6 = b"\xc6\x02\x06\x00"
    secret = b"\xc5\x02\x04\x00"
    return {
        "it is empty": b"",
        "it holds no PGP PUBLIC KEY BLOCK": b"<html>404 Not Found</html>",
        "its checksum is wrong: the file is damaged": text[:body] + (b"A" if text[body : body + 1] != b"A" else b"B")
        + text[body + 1 :],
        "its armour is damaged": text[:body] + b"!" + text[body + 1 :],
        "it is cut off": openpgp.packets_of(text)[:100],
        "it holds a key of version 6; apt and rpm are given keys of version 4": v6,
        "it holds a secret key, which belongs on no host": secret,
        "it holds no public key": b"\xcd\x01a",
        "it has a packet without a length": b"\x9b",
    }  # fmt: skip


@pytest.mark.parametrize("says", damaged())
def test_a_damaged_key_is_never_another_key(says: str) -> None:
    with pytest.raises(openpgp.BadKey, match=says):
        openpgp.keys(openpgp.packets_of(damaged()[says]))


def test_no_cut_of_a_key_gives_a_wrong_fingerprint() -> None:
    packets = openpgp.packets_of(key("rsa"))
    for end in range(1, len(packets), 7):
        try:
            found = openpgp.keys(packets[:end])
        except openpgp.BadKey:
            continue
        assert [item.fingerprint for item in found] == [PRINTS["rsa"]]


def test_a_key_bound_by_sha1_is_refused_where_apt_refuses_it() -> None:
    """NVIDIA/cuda-repo-management 39; the policy of apt 3.0 on Debian 13."""
    policy = "[hash_algorithms]\nsha1.second_preimage_resistance = 2026-02-01    # was 2023\nsha224 = 2026-02-01\n"
    ends = decide.sha1_ends(["", policy])
    assert ends == datetime.date(2026, 2, 1)
    weak = openpgp.keys(openpgp.packets_of(key("sha1")))
    source = {**SOURCE, "fingerprints": [PRINTS["sha1"]]}
    said = decide.key_refusal(source, weak, "url", ends, datetime.date(2026, 11, 30))
    assert said.splitlines()[0] == (
        f"cuda: the key {PRINTS['sha1']} is bound by SHA-1, which apt refuses on this system since 2026-02-01"
    )
    assert decide.key_refusal(source, weak, "url", ends, datetime.date(2026, 1, 31)) == ""
    assert decide.key_refusal(source, weak, "url", decide.sha1_ends(["", ""])) == ""  # apt of Debian 12 has no policy


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("E: The repository 'x' is not signed.\nW: GPG error: x: NO_PUBKEY 0A4E", "is not signed by 28053D"),
        ("Warning: because: SHA1 is not considered secure since 2026-02-01T00:00:00Z", "in a way that apt refuses"),
        ("Err:1 http://x ./ InRelease\nE: Failed to fetch http://x  Could not connect", "cannot be read"),
    ],
)
def test_what_apt_says_is_quoted_with_its_cause(said: str, words: str) -> None:
    text = decide.apt_refusal(SOURCE, openpgp.keys(openpgp.packets_of(key("rsa"))), said)
    assert words in text
    assert said.splitlines()[0] in text
    assert text.splitlines()[-1].startswith("hint: ")


CUDA_LIST = f"deb [signed-by=/usr/share/keyrings/x.gpg] {VENDOR}debian12/x86_64/ /\n"
DEBIAN_LIST = "deb http://deb.debian.org/debian bookworm main\n"
MIXED = f"""Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main

# the vendor's
Types: deb
URIs:
 {VENDOR}ubuntu2404/x86_64
Suites: /
Signed-By: /etc/apt/keyrings/x.asc
"""


def other(path: str, text: str, exact: str = SOURCE["uri"]) -> Any:
    return stanzas.other(path, text, [exact], [VENDOR])


def test_a_file_that_names_only_the_archive_goes_aside_as_a_whole() -> None:
    found = other("/etc/apt/sources.list.d/cuda.list", f"# by hand\n{CUDA_LIST}")
    assert found.text is None
    assert found.action == f"set /etc/apt/sources.list.d/cuda.list aside: it names {VENDOR}debian12/x86_64/"


def test_of_a_file_that_names_others_too_only_the_entries_are_taken_out() -> None:
    found = other("/etc/apt/sources.list", DEBIAN_LIST + CUDA_LIST)
    assert found.text == f"{DEBIAN_LIST}{stanzas.MARK}{CUDA_LIST}"
    assert other("/etc/apt/sources.list", found.text) is None  # nothing is left to do
    found = other("/etc/apt/sources.list.d/all.sources", MIXED)
    assert found.uris == (f"{VENDOR}ubuntu2404/x86_64",)  # another release's: its names are the same
    assert found.text.startswith(MIXED.partition("# the vendor's")[0])
    assert "\nEnabled: no\n# the vendor's\nTypes: deb\n" in found.text
    assert other("/etc/apt/sources.list.d/all.sources", found.text) is None


def test_a_section_of_dnf_is_switched_off() -> None:
    text = f"[base]\nbaseurl=http://m/el9\nenabled=1\n[cuda]\nname=cuda\nbaseurl={VENDOR}rhel9/x86_64\nenabled=1\n"
    found = other("/etc/yum.repos.d/all.repo", text)
    assert found.text.startswith("[base]\nbaseurl=http://m/el9\nenabled=1\n[cuda]\n")
    assert found.text.endswith(f"enabled=0\nname=cuda\nbaseurl={VENDOR}rhel9/x86_64\n")
    assert other("/etc/yum.repos.d/all.repo", found.text) is None


@pytest.mark.parametrize(
    ("uri", "same"),
    [
        ("http://mirror/cuda/", True),
        ("https://MIRROR/cuda", True),
        ("http://mirror/cuda-other", False),
        ("http://mirror/cuda/below", False),
        ("http://mirror", False),
        (f"{VENDOR}debian11/x86_64", True),
    ],
)
def test_which_address_is_the_same_archive(uri: str, same: bool) -> None:
    assert stanzas.names(uri, ["http://mirror/cuda"], [VENDOR]) is same


def test_the_names_of_the_plan_come_from_this_source_alone() -> None:
    release = "Origin: NVIDIA\nLabel: NVIDIA CUDA\nArchitecture: x86_64\nSHA256:\n 00 1 Packages\n"
    text = render.preferences_text(SOURCE, render.pin_of(SOURCE, release))
    assert text.partition("\n")[2] == (
        "Package: nvidia-open* libnccl2\nPin: release o=NVIDIA,l=NVIDIA CUDA\nPin-Priority: 500\n\n"
        "Package: nvidia-open* libnccl2\nPin: release *\nPin-Priority: -1\n"
    )
    never = {**SOURCE, "only": [], "never": ["nvidia-driver*"]}
    assert render.preferences_text(never, render.pin_of(never, "Date: x\n")).endswith(
        'Package: nvidia-driver*\nPin: origin "developer.download.nvidia.com"\nPin-Priority: -1\n'
    )
    assert render.preferences_path("cuda") > "/etc/apt/preferences.d/nvidia-driver-pinning-580"


def test_the_source_is_bound_to_its_key_and_never_trusted_unsigned() -> None:
    key_file, source = render.files(SOURCE, "debian", "KEY")
    assert key_file.path == "/etc/apt/keyrings/llmhw-cuda.asc"
    assert source.text.endswith(f"URIs: {SOURCE['uri']}\nSuites: /\nSigned-By: /etc/apt/keyrings/llmhw-cuda.asc\n")
    _, repo = render.files({**SOURCE, "never": ["nvidia-open*"]}, "redhat", "KEY")
    assert "\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-llmhw-cuda\n" in repo.text
    assert repo.text.endswith("\nexcludepkgs=nvidia-open*\n")
    assert "trusted" not in source.text + repo.text


def test_every_distribution_has_a_key_whose_name_ends_its_fingerprint() -> None:
    tables = software()
    for name, distro in tables.distros.items():
        record = tables.keys[distro.key]
        assert record.fingerprint.endswith(distro.key.upper()), name
        assert len(base64.b16decode(record.fingerprint)) == 20
