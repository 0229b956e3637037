"""Containers for all role tests."""

from tests.containers.plugin import (
    container,
    container_lab,
    containers,
    module_container,
    pytest_itemcollected,
)
from tests.roles.driver_machine import machine, machine_of_module

__all__ = [
    "container",
    "container_lab",
    "containers",
    "machine",
    "machine_of_module",
    "module_container",
    "pytest_itemcollected",
]
