"""``python -m tests.containers``: remove what killed test runs left, without starting anything."""

import sys

from tests.containers.lab import obstacle
from tests.containers.leftovers import reap

if __name__ == "__main__":
    reason = obstacle()
    if reason is not None:
        sys.exit(f"error: {reason}")
    keys = reap()
    print(f"removed: {', '.join(keys)}" if keys else "nothing was left")
