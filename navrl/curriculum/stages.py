"""A sequence of ever harder worlds; a policy that fails returns to an easier stage."""

from collections.abc import Mapping
from typing import Any

from tensordict import TensorDictBase

from navrl.config.checks import require, require_number, require_whole
from navrl.contracts import Note, StagedEnv
from navrl.curriculum.base import STAGE, NamedStages
from navrl.envs.navigation.worlds.pool import Difficulty
from navrl.storage.schema import Rule, check, whole


class Stages(NamedStages):
    """A curriculum in which most worlds are of the current stage, and the others of earlier ones.

    The rate of the objective in episodes of the current stage decides: a moving average over the last
    episodes, which counts once `episodes` of them have ended.
    """

    def __init__(
        self,
        *,
        stages: Mapping[str, Difficulty],
        earlier_share: float,
        episodes: int,
        promote_at: float,
        fall_back_at: float,
        env: StagedEnv,
        **_: Any,  # agent and measure, which lessons need
    ) -> None:
        require(bool(stages), "curriculum.stages", dict(stages), "one or more")
        fits = 0.0 <= earlier_share < 1.0
        require(fits, "curriculum.earlier_share", earlier_share, "0 to less than 1")
        require_whole("curriculum.episodes", episodes, 1)
        require_number("curriculum.promote_at", promote_at, above=0.0, most=1.0)
        fits = 0.0 <= fall_back_at < promote_at
        require(fits, "curriculum.fall_back_at", fall_back_at, "less than promote_at")
        super().__init__(stages)
        self.stages = list(stages.values())
        self.earlier_share, self.episodes = earlier_share, episodes
        self.promote_at, self.fall_back_at = promote_at, fall_back_at
        self._env = env
        for name, stage in stages.items():
            env.check_difficulty(f"curriculum.stages.{name}.", stage)
        self._begin(0)
        env.start_over()

    def after(
        self, iteration: int, frames: int, rollout: TensorDictBase, note: Note
    ) -> dict[str, float]:
        """Count the episodes that have ended, and move to another stage if they decide so."""
        self._count(rollout)
        if self.seen >= self.episodes:
            self._decide(f"after {frames:,} frames", note)
        return {STAGE: self.stage + 1.0, "curriculum/success": self.rate}

    def _count(self, rollout: TensorDictBase) -> None:
        keys = self._env.episode_keys
        columns = [keys.index("_stage"), keys.index(self._env.objective)]
        done = rollout.get(("next", "done")).squeeze(-1)
        for stage, success in rollout.get(("next", "episode"))[..., columns][done].tolist():
            if int(stage) == self.stage:
                self.seen += 1
                share = 1.0 / min(self.seen, self.episodes)  # a mean at first, then it decays
                self.rate += share * (success - self.rate)

    def _decide(self, when: str, note: Note) -> None:
        name, rate = self.name, f"{self._env.objective} {self.rate:.3f}"
        if self.rate > self.promote_at and not self.is_last:
            note(f"stage {name!r} is passed {when} ({rate}): next {self.names[self.stage + 1]!r}")
            self._begin(self.stage + 1)
        elif self.rate < self.fall_back_at and self.stage > 0:
            note(
                f"stage {name!r} is too hard {when} ({rate}): back to {self.names[self.stage - 1]!r}"
            )
            self._begin(self.stage - 1)

    def _begin(self, stage: int) -> None:
        """Build the following worlds from this stage, and some from the earlier ones."""
        self.stage, self.seen, self.rate = stage, 0, 0.0
        shares = dict.fromkeys(range(stage), self.earlier_share / max(1, stage))
        self._env.set_stages(self.stages, {**shares, stage: 1.0 - self.earlier_share * (stage > 0)})

    def state_dict(self) -> dict[str, Any]:
        """Return the stage, and the counts of its episodes."""
        return {"stage": self.name, "seen": self.seen, "rate": self.rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict returned."""
        stage = self.saved_stage(state)
        rate = Rule("a rate from 0 to 1", lambda value: type(value) is float and 0 <= value <= 1)
        check(state, {"stage": "", "seen": whole(), "rate": rate}, "curriculum")
        self._begin(stage)
        self.seen, self.rate = state["seen"], state["rate"]
