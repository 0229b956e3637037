"""Containers for tests: real systemd machines (systemd-nspawn on overlayfs) on a private network."""
