"""Launch files read by the frameworks themselves; environments are made with `python -m tests.frameworks`."""
