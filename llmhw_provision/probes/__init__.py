"""One module per tool: the command that asks it, and a pure parser of its bytes into typed values."""
