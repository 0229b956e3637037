"""Measures GPUs with the torch of an environment: collectives, copies, products, and sums that must be equal.

Runs on the host, with torch and the standard library alone. GB/s are 10^9 bytes a second.
"""
