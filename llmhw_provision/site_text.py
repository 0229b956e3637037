"""Names, addresses, paths and versions as site.yaml writes them: each refused with an example when it is none."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from llmhw_provision.catalogue.loader import sold_machine
from llmhw_provision.errors import InputError
from llmhw_provision.hostlist import expand
from llmhw_provision.site_cluster import addresses

_NAME = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
_ADDRESS = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?$")
_ARRAY = re.compile(r"^[A-Za-z0-9_.-]{1,32}$")
_PATH = re.compile(r"^(/[A-Za-z0-9_.-]+)+$")
_SERIAL = re.compile(r"^[A-Za-z0-9_.:+-]{1,64}$")
_SYSTEM_PATHS = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var",
)


def matching(pattern: re.Pattern[str], example: str) -> AfterValidator:
    """Refuses a text that `pattern` does not match, or that holds "..", with `example`."""

    def check(value: str) -> str:
        if not pattern.match(value) or ".." in value:
            raise ValueError(f"{value[:60]!r} is not accepted; write for example {example!r}")
        return value

    return AfterValidator(check)


def _data_path(value: str) -> str:
    if value in _SYSTEM_PATHS or any(value.startswith(path + "/") for path in _SYSTEM_PATHS):
        raise ValueError(f"{value!r} belongs to the system; choose a folder of its own, for example '/scratch'")
    return value


def _each(pattern: re.Pattern[str], example: str, several: Callable[[str], tuple[str, ...]]) -> AfterValidator:
    def check(value: str) -> str:
        for one in several(value):
            if not pattern.match(one) or ".." in one:
                raise ValueError(f"{one[:60]!r} is not accepted; write for example {example!r}")
        return value

    return AfterValidator(check)


def _sold(value: str) -> str:
    try:
        sold_machine(value)
    except InputError as error:
        raise PydanticCustomError(
            "value_error", "{message}", {"message": str(error), "hint": error.problems[0].hint}
        ) from None
    return value


MachineName = Annotated[str, AfterValidator(_sold)]
HostName = Annotated[str, matching(_NAME, "ap660-01")]
HostNames = Annotated[str, _each(_NAME, "ap660-[001-128]", expand)]
Address = Annotated[str, matching(_ADDRESS, "192.0.2.10")]
Addresses = Annotated[str, _each(_ADDRESS, "192.0.2.[1-128]", addresses)]
ArrayName = Annotated[str, matching(_ARRAY, "scratch")]
DataPath = Annotated[str, matching(_PATH, "/scratch"), AfterValidator(_data_path)]
Serial = Annotated[str, matching(_SERIAL, "S6XYNX0T900123")]


UserName = Annotated[str, matching(re.compile(r"^[a-z_][a-z0-9_-]{0,31}$"), "engineer")]
