"""The one tree of errors that a user can meet. Raised where the fact is known, printed once in the CLI."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: what, and what to do about it."""

    message: str
    hint: str = ""


class ProvisionError(Exception):
    """A failure the user can act on; carries every problem found, not only the first."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "", *, problems: tuple[Problem, ...] = ()) -> None:
        self.problems = problems or (Problem(message, hint),)
        super().__init__(message)

    @classmethod
    def of(cls, problems: tuple[Problem, ...] | list[Problem]) -> ProvisionError:
        """One error that carries all of `problems` (at least one)."""
        found = tuple(problems)
        return cls(found[0].message, found[0].hint, problems=found)


class InputError(ProvisionError):
    """A file or option is wrong."""

    exit_code = 1


class DoesNotFit(ProvisionError):
    """The workload does not fit the machine."""

    exit_code = 1


class MachineError(ProvisionError):
    """A machine cannot be reached, or differs from what the plan says."""

    exit_code = 3


class AnsibleError(ProvisionError):
    """Ansible stopped before the end."""

    exit_code = 4
