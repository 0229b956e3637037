"""Roles, each run in containers."""
