"""llmhw-provision: from a workload to a commissioned LLM server."""

__version__ = "0.1.0"
