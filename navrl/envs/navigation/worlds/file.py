"""A world of the user's own, from a file."""

import functools
import math
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from navrl.envs.navigation.maps.reading import Scale, read_map
from navrl.envs.navigation.sim.obstacles import Boxes, absent_cylinders
from navrl.envs.navigation.worlds.making import Obstacles


@dataclass(frozen=True, kw_only=True)
class UserMap:
    """The obstacles of one file, the same in every world; one world is enough."""

    path: str
    scale: Scale
    max_boxes: int

    @functools.cached_property
    def boxes(self) -> Boxes:
        """What the file holds, (1, B)."""
        return read_map(self.path, scale=self.scale, max_boxes=self.max_boxes)

    @property
    def count(self) -> int:
        """How many boxes the file makes; no world has fewer, whatever is asked for."""
        return self.boxes.x.shape[1]

    @property
    def half_side_m(self) -> float:
        """Unknown before the file is read; how many obstacles are in sight of a cell is counted then."""
        return math.inf

    def make(self, key: Tensor, count: Tensor) -> Obstacles:
        """The world of the file for every key; all of it, whatever the count."""
        worlds = key.shape[0]
        boxes = Boxes(*(field.to(key.device).expand(worlds, -1) for field in self.boxes))
        return Obstacles(boxes, absent_cylinders(worlds, 0, key.device))

    def checked(self) -> Self:
        """Self; or a ValueError that says what is wrong with the file, before anything is trained."""
        _ = self.boxes
        return self
