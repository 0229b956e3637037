"""What the rehearsal refuses to do, said in the same two lines as the product's own errors."""


class RehearsalError(Exception):
    """A rehearsal step failed; ``hint`` says what to do next."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message} (hint: {hint})")
        self.message = message
        self.hint = hint
