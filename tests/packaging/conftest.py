"""A host for the tests of the module python_env."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.python_envs import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)
