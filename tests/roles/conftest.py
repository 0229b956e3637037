"""Containers for all role tests."""

from tests.containers.plugin import (
    container,
    container_lab,
    containers,
    module_container,
    pytest_itemcollected,
)

__all__ = ["container", "container_lab", "containers", "module_container", "pytest_itemcollected"]
