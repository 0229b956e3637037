"""What a published case asks that the engine cannot honour."""


class Unsupported(Exception):
    """Something in a case that the engine cannot honour; the text says what."""
