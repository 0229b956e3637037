"""Docker's own client and systemd take the units of servers in containers; no image is there, none is started."""

from __future__ import annotations

import pytest

from tests.containers.container import Container
from tests.unit.launches import CASES, case

# Debian 12 has Docker 20.10, which knows no CDI devices (from 25.0 on)
pytestmark = pytest.mark.container(suite="trixie")

NAMES = [name for name, (_, _, load) in CASES.items() if "image" in load.get("launch", {})]
_INSTALL = "export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -qq --no-install-recommends "


def units() -> dict[str, str]:
    files = (file for name in NAMES for file in case(name)[1].values())
    return {file.path: file.text for file in files if file.path.endswith(".service")}


def starts(container: Container, words: str) -> str:
    """What Docker's client says when it has read its arguments, without a daemon."""
    return container.run(f"DOCKER_HOST=unix:///run/no-daemon.sock {words}", check=False).stderr


def test_docker_and_systemd_take_the_units(container: Container) -> None:
    container.run(_INSTALL + "docker-cli", timeout=300)
    container.run("cat > /etc/systemd/system/docker.service", given="[Service]\nExecStart=/bin/true\n")
    container.run("mkdir -p /etc/llmhw/secrets && echo API_KEY=x > /etc/llmhw/secrets/llama-3.1-70b.env")
    assert len(units()) == 3
    for name, text in units().items():
        container.run(f"cat > /etc/systemd/system/{name}", given=text)
        said = container.run(f"systemd-analyze verify --man=no /etc/systemd/system/{name}", check=False)
        assert name not in said.stderr, said.stderr
        (line,) = (line.removeprefix("ExecStart=") for line in text.splitlines() if line.startswith("ExecStart="))
        assert "Cannot connect to the Docker daemon" in starts(container, line), name
        assert "unknown flag: --pulls" in starts(container, line.replace("--pull ", "--pulls "))
        assert "Invalid ip address" in starts(container, line.replace("--publish ", "--publish x:"))
    container.run(f"sed -i s/Restart=on-failure/Restart=sometimes/ /etc/systemd/system/{name}")
    said = container.run(f"systemd-analyze verify --man=no /etc/systemd/system/{name}", check=False)
    assert "sometimes" in said.stderr
