"""curriculum=none: the run learns the same from beginning to end."""

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tensordict import TensorDictBase

from navrl.contracts import Env
from navrl.envs.combat.opponents.league import League


class Nothing:
    """No lesson, no league."""

    def __init__(self, *, env: Env, **_: Any) -> None:
        if isinstance(getattr(env, "opponent", None), League):
            warnings.warn(
                "opponent=league with curriculum=none: nobody is in the league, so the scripts fly in every "
                "episode; choose curriculum=league, or opponent=scripts",
                stacklevel=2,
            )

    headline: Mapping[str, str] = MappingProxyType({})
    words: Mapping[str, list[str]] = MappingProxyType({})
    summary = ""
    stage = 0  # the only one

    def after(
        self, iteration: int, frames: int, rollout: TensorDictBase, tell: Callable[[str], None]
    ) -> dict[str, float]:
        """Nothing changes."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Nothing to remember."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""
