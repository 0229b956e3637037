"""Texts of the checks of python_env; `texts.py` holds the others."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words

PYTHON: dict[str, Words] = {
    "python-env": Words(
        "Python environment {subject} as locked",
        "files were removed or packages added by hand, or a power cut left files empty",
        "run apply: it repairs the packages concerned in place, and takes them out of uv's cache",
    ),
    "python-env/absent": Words(
        "Python environment {subject} as locked",
        "apply has not run yet or was cut off, or scratch was lost and with it the environment",
        "run apply: it installs again from the lock",
    ),
    "python-env/other": Words(
        "Python environment {subject} as locked",
        "the link was switched by hand, or apply has not run since the plan has another lock",
        "run apply; to stay with the one before, write use: previous in site.yaml and plan again",
    ),
    "python-import": Words(
        "top-level modules of {subject} import",
        "a library of the system is missing, or a package was built for another CUDA than torch",
        "run the command of the evidence by hand: the last lines name module and library",
    ),
}
