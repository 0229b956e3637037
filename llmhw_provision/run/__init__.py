"""Carrying a plan out: the Ansible command, its events, progress, lock and record."""
