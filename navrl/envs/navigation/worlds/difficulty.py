"""How hard a world is, in numbers that a curriculum raises."""

from collections.abc import Mapping
from typing import NamedTuple


class Difficulty(NamedTuple):
    """How many obstacles a world holds; the simulator's options say how many there is room for."""

    static: int
    moving: int

    def checked(self, prefix: str, room: "Difficulty") -> "Difficulty":
        """The same, after a look at both numbers; `prefix` makes their names those of options."""
        for name, value, most in zip(self._fields, self, room, strict=True):
            if type(value) is not int or not 0 <= value <= most:
                raise ValueError(
                    f"{prefix}{name} = {value}; expected a whole number from 0 to {most}, which is what the "
                    f"env has room for; change {prefix}{name}"
                )
        return self


def shared_out(shares: Mapping[int, float], count: int) -> list[int]:
    """One of the keys for each of `count` places, in these proportions and evenly mixed."""
    total, given = sum(shares.values()), dict.fromkeys(shares, 0)
    plan = []
    for number in range(1, count + 1):
        # whoever is furthest behind its share
        due = {each: share / total * number - given[each] for each, share in shares.items()}
        chosen = max(due, key=lambda each: due[each])
        given[chosen] += 1
        plan.append(chosen)
    return plan
