"""Sizing: pure functions, plain integers, one function per term."""
