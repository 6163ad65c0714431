"""Names that are given out once."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Names in use; whoever asks for a taken one gets it with primes, or a number, behind it.

    >>> names = Names(["tip"])
    >>> [names.take("tip") for _ in range(5)]
    ["tip'", "tip''", "tip'''", "tip'4", "tip'5"]
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._copies: dict[str, int] = {}  # name -> how often it was asked for although taken

    def __len__(self) -> int:
        return len(self._taken)

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def take(self, name: str) -> str:
        """A name like this one that nobody has yet; it is taken from now on."""
        unique = name
        while unique in self._taken:  # the count makes a thousand equal names a thousand tries, not a million
            count = self._copies[name] = self._copies.get(name, 0) + 1
            unique = name + ("'" * count if count < 4 else f"'{count}")
        self._taken.add(unique)
        return unique
