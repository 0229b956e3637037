"""The architecture of a language model, in plain integers."""

from llmhw_provision.model.architecture import Architecture, Matrix, Quantisation

__all__ = ["Architecture", "Matrix", "Quantisation"]
