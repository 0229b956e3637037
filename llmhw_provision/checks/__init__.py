"""The checks: a table of pure functions (HostPlan, Evidence) → Finding, run as testinfra tests."""
