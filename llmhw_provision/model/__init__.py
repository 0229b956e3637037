"""The architecture of a language model, in plain integers."""

from llmhw_provision.model.architecture import Architecture, Matrix, Quantisation
from llmhw_provision.model.partial import from_dimensions, from_parameters

__all__ = ["Architecture", "Matrix", "Quantisation", "from_dimensions", "from_parameters"]
