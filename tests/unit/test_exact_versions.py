"""Exact versions of Debian packages: which offered one is meant, and what a simulated transaction would touch."""

import pytest

from tests.unit import role_modules  # noqa: F401 - makes the import below possible

from ansible.module_utils.host_modules import exact_versions  # isort: skip

# apt-cache policy of apt 2.6.1
POLICY = """libnccl2:
  Installed: 2.29.2-1+cuda13.0
  Candidate: 2.31.1-1+cuda13.1
  Version table:
     2.31.1-1+cuda13.1 500
        500 http://mirror.example.org ./ Packages
     2.30.7-1+cuda13.0 500
        500 http://mirror.example.org ./ Packages
 *** 2.29.2-1+cuda13.0 100
        100 /var/lib/dpkg/status
nvidia-open:
  Installed: (none)
  Candidate: 580.159.03-1
  Version table:
     590.48.01-1 -1
        500 http://deb.example.org bookworm/main amd64 Packages
     580.159.03-1 500
        500 http://mirror.example.org ./ Packages
"""
# apt-get install --simulate of apt 2.6.1
SIMULATED = """Reading package lists...
Remv libold [1.0-1]
Inst libnccl2 [2.29.2-1+cuda13.0] (2.30.7-1+cuda13.0 localhost [amd64])
Inst nvidia-open (580.159.03-1 localhost [amd64])
Conf libnccl2 (2.30.7-1+cuda13.0 localhost [amd64])
"""


@pytest.mark.parametrize(
    ("asked", "found", "same"),
    [
        ("580.159.03", "580.159.03-1", True),
        ("580.159.03", "580.159.03-0ubuntu0.24.04.1", True),
        ("580.159.03", "580.159.03", True),
        ("580.159.03", "580.159.030-1", False),
        ("580.159.0", "580.159.03-1", False),
        ("580", "580.159.03-1", False),
        ("2.30.7-1+cuda13.0", "2.30.7-1+cuda13.0", True),
        ("2.30.7-1+cuda13.0", "2.30.7-1+cuda12.9", False),
        ("4.4.2", "1:4.4.2-1", True),
        ("1:4.4.2", "2:4.4.2-1", False),
        ("", "anything", True),
    ],
)
def test_epoch_and_revision_count_only_where_they_are_asked_for(asked: str, found: str, same: bool) -> None:
    assert exact_versions.meant(asked, found) is same


def test_the_version_that_is_asked_for_is_taken_not_the_newest() -> None:
    offered = exact_versions.offered(POLICY)
    take = {entry: exact_versions.choose(exact_versions.wanted(entry), offered[entry.partition("=")[0]]) for entry in (
        "libnccl2=2.30.7", "libnccl2", "nvidia-open=580.159.03", "nvidia-open=590.48.01", "nvidia-open=595.71.05",
    )}  # fmt: skip
    assert take == {
        "libnccl2=2.30.7": "libnccl2=2.30.7-1+cuda13.0",
        "libnccl2": "libnccl2",
        "nvidia-open=580.159.03": "nvidia-open=580.159.03-1",
        "nvidia-open=590.48.01": None,  # apt's preferences keep it out
        "nvidia-open=595.71.05": None,
    }
    said = exact_versions.refusal(exact_versions.wanted("nvidia-open=590.48.01"), offered["nvidia-open"])
    assert said == (
        "nvidia-open: version 590.48.01 is not offered; "
        "offered: 590.48.01-1 (kept out by apt's preferences), 580.159.03-1"
    )
    assert exact_versions.refusal(exact_versions.wanted("x=1"), ()) == "x: version 1 is not offered; offered: none"


def test_what_is_held_or_kept_is_not_touched() -> None:
    todo = exact_versions.changes(SIMULATED)
    assert todo == {"libold": "remove", "libnccl2": "change", "nvidia-open": "install"}
    assert exact_versions.forbidden(todo, ["libold", "libnccl2", "other"], ["libnccl*"], ["nvidia-*"]) == [
        "would remove libold, which is on hold",
        "would install nvidia-open, which it must leave alone",
    ]
    assert exact_versions.forbidden(todo, ["libnccl2"], ["libnccl2"], ["cuda-drivers*"]) == []
