"""The parts that all curricula share, and curriculum=none."""

import warnings
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from tensordict import TensorDictBase

from navrl.config.checks import ConfigError
from navrl.contracts import Env, Note

STAGE = "curriculum/stage"  # the metric, counted from 1


class NoCurriculum:
    """The same training from beginning to end."""

    headline: Mapping[str, str] = MappingProxyType({})
    words: Mapping[str, list[str]] = MappingProxyType({})
    summary = ""
    stage = 0  # the only one

    def __init__(self, *, env: Env, **_: Any) -> None:
        if env.curriculum_advice:
            warnings.warn(env.curriculum_advice, stacklevel=2)

    def after(
        self, iteration: int, frames: int, rollout: TensorDictBase, note: Note
    ) -> dict[str, float]:
        """Change nothing."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return nothing to remember."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore nothing."""


class NamedStages:
    """A position in a sequence of named stages, called `noun`s, as console and checkpoints show it."""

    noun = "stage"

    def __init__(self, names: Iterable[str]) -> None:
        self.names, self.stage = list(names), 0

    @property
    def name(self) -> str:
        """Return the name of the current stage."""
        return self.names[self.stage]

    @property
    def is_last(self) -> bool:
        """Return True if no stage follows."""
        return self.stage + 1 == len(self.names)

    @property
    def headline(self) -> dict[str, str]:
        """Return the console column of the stage."""
        return {"stage": STAGE}

    @property
    def words(self) -> dict[str, list[str]]:
        """Return the names of the values 1, 2, ... of the metric."""
        return {STAGE: self.names}

    @property
    def summary(self) -> str:
        """Return the stages and the current one, in a line."""
        return f"{self.noun}s {', '.join(self.names)}; now {self.stage + 1} {self.name}"

    def saved_stage(self, state: Mapping[str, Any]) -> int:
        """Return the stage in a checkpoint's state, or raise ConfigError if there is none of its name."""
        saved = state.get("stage")  # None: saved without a curriculum
        if not isinstance(saved, str) or saved not in self.names:
            raise ConfigError(
                f"the checkpoint is in {self.noun} {saved!r:.60}; expected one of {', '.join(self.names)}; "
                "continue with the curriculum it was saved with"
            )
        return self.names.index(saved)
