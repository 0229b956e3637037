"""The command of a run is a pure value."""

from __future__ import annotations

import shlex
from pathlib import Path

import yaml

from llmhw_provision.content import content_root
from llmhw_provision.run.command import Choice, Command, Recording, ansible_playbook, build

RUN = Path("/site/runs/x")
RECORDING = Recording(events=RUN / "events.jsonl", log=RUN / "ansible.log", scratch=RUN / "tmp")


def made(choice: Choice | None = None, *, hosts: int = 1, site: Path = Path("/site")) -> Command:
    return build(
        Path("/content/playbooks/site.yml"),
        site=site,
        content=Path("/content"),
        hosts=hosts,
        choice=choice or Choice(),
        recording=RECORDING,
        program=Path("/venv/bin/ansible-playbook"),
    )


def test_the_plain_command() -> None:
    assert made().argv == ("/venv/bin/ansible-playbook", "-i", "inventory/hosts.yml", "/content/playbooks/site.yml")


def test_every_choice_is_an_argument() -> None:
    choice = Choice(check=True, diff=True, limit=("a", "b"), tags=("t",), variables=(("llmhw_allow_reboot", "true"),))
    expected = "--check --diff --limit a,b --tags t -e llmhw_allow_reboot=true"
    assert " ".join(made(choice).argv[3:-1]) == expected


def test_settings_of_the_user_do_not_reach_a_run() -> None:
    inherited = {
        "ANSIBLE_CONFIG": "/home/me/ansible.cfg",
        "ANSIBLE_HOST_KEY_CHECKING": "false",
        "ANSIBLE_STRATEGY": "free",
        "ANSIBLE_BECOME_PASSWORD_FILE": "/home/me/password",
        "HOME": "/home/me",
        "PATH": "/usr/bin",
    }
    found = made().environment(inherited)
    assert "ANSIBLE_STRATEGY" not in found
    assert found["ANSIBLE_HOST_KEY_CHECKING"] == "true"
    assert found["ANSIBLE_ROLES_PATH"] == "/content/roles"
    assert Path(found["ANSIBLE_CONFIG"]).is_file()
    assert found["ANSIBLE_BECOME_PASSWORD_FILE"] == "/home/me/password"
    assert (found["HOME"], found["PATH"]) == ("/home/me", "/venv/bin:/usr/bin")


def test_a_password_goes_to_standard_input_and_the_line_asks_for_it() -> None:
    command = build(
        Path("/content/playbooks/site.yml"),
        site=Path("/site"),
        content=Path("/content"),
        hosts=1,
        choice=Choice(),
        recording=RECORDING,
        program=Path("/venv/bin/ansible-playbook"),
        password="S3CRET",
    )
    assert command.argv[3:5] == ("--become-password-file", "-")
    assert command.given == "S3CRET"
    assert "-i inventory/hosts.yml --ask-become-pass /content" in command.line()
    for text in (command.line(), repr(command), str(command.argv), str(command.environment({}))):
        assert "S3CRET" not in text


def test_the_line_can_be_pasted_whatever_the_folder_is_called() -> None:
    line = made(Choice(limit=("a",)), site=Path("/my site/$(x)")).line()
    words = shlex.split(line)
    assert words[:3] == ["cd", "/my site/$(x)", "&&"]
    assert words[-6:] == ["/venv/bin/ansible-playbook", *made(Choice(limit=("a",))).argv[1:]]
    assert "LLMHW_EVENTS" not in line


def test_forks_follow_the_number_of_hosts_within_limits() -> None:
    assert [made(hosts=count).settings["ANSIBLE_FORKS"] for count in (1, 20, 500)] == ["5", "20", "50"]


def test_ansible_playbook_comes_from_our_own_environment() -> None:
    assert ansible_playbook().is_file()


def test_all_plays_ask_for_the_same_facts_because_they_are_gathered_once() -> None:
    plays = [play for path in (content_root() / "playbooks").glob("*.yml") for play in yaml.safe_load(path.read_text())]
    asked = [play["gather_subset"] for play in plays if play.get("gather_facts")]
    assert len(asked) > 5
    assert all(subset == ["!all", "!min", "distribution"] for subset in asked)
    # a play that says nothing would gather all
    assert all("gather_facts" in play for play in plays if "import_playbook" not in str(play))
