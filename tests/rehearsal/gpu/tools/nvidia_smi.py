"""Stand-in."""

import sys

sys.exit(9)
