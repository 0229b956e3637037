"""Options that several verbs share."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from llmhw_provision.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])


def site_folder(function: Function) -> Function:
    """Adds `--site`, passed on as `folder: Path`: the folder with site.yaml."""
    return click.option(
        "--site",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(),
        show_default="this folder",
        help="Folder of the site: workload.yaml, site.yaml, observed/, plan.json.",
    )(function)


def become_password(function: Function) -> Function:
    """Adds `--ask-become-pass` and `--become-pass-fd`, passed on as `password: str`; empty when neither is given."""

    @functools.wraps(function)
    def asked(*args: Any, ask_become_pass: bool, become_pass_fd: int | None, **kwargs: Any) -> Any:
        password = secret("sudo password", ask=ask_become_pass, descriptor=become_pass_fd)
        return function(*args, password=password, **kwargs)

    ask = click.option("--ask-become-pass", is_flag=True, help="Ask for the password that sudo wants on the hosts.")
    number = click.option("--become-pass-fd", type=int, metavar="N", help="Read it from file descriptor N instead.")
    return cast(Function, ask(number(asked)))


def secret(what: str, *, ask: bool, descriptor: int | None) -> str:
    """The secret called `what`, asked for without echo or read from an open descriptor; empty when neither is wanted.

    It has no other way in: not the command line, not the environment, not a file.
    """
    if descriptor is not None:
        try:
            with os.fdopen(os.dup(descriptor), "rb") as file:
                found = file.readline().decode("utf-8", "replace").rstrip("\r\n")
        except OSError as error:
            raise InputError(f"{what}: descriptor {descriptor} cannot be read: {error.strerror}") from None
    elif ask:
        if not sys.stdin.isatty():
            raise InputError(f"{what}: standard input is no terminal to ask on", "hand it over by a descriptor")
        found = str(click.prompt(what, hide_input=True, err=True))
    else:
        return ""
    if not found:
        raise InputError(f"{what}: is empty")
    return found
