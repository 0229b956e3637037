"""A typical value: a fact that people round when they speak of it."""

from __future__ import annotations


class Typical(float):
    """What a measurement shows as a rule (a median); who speaks of it rounds."""

    def spoken(self, whole: int) -> bool:
        """Whether `whole` is a way to say this value: off by less than one unit of its last digit that is not 0."""
        unit = 1
        while whole and whole % (unit * 10) == 0:
            unit *= 10
        return whole != 0 and abs(self - whole) < unit
