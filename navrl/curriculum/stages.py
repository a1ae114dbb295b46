"""Harder worlds, one stage after another; who forgets goes back to an easier one."""

from collections.abc import Mapping
from typing import Any

from tensordict import TensorDictBase

from navrl.contracts import Note, StagedEnv
from navrl.envs.navigation.worlds.pool import Difficulty

STAGE = "curriculum/stage"  # the metric, counted from 1


class Stages:
    """Most worlds are of the stage of the day, the others of earlier ones.

    The objective's rate in episodes of the day's stage decides: an average over the last episodes, which
    counts once it has seen `episodes` of them.
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
        **_: Any,  # what other curricula need
    ) -> None:
        _require("stages", dict(stages), bool(stages), "one or more")
        _require("earlier_share", earlier_share, 0.0 <= earlier_share < 1.0, "0 to less than 1")
        _require("episodes", episodes, episodes >= 1, "1 or more")
        _require("promote_at", promote_at, 0.0 < promote_at <= 1.0, "a rate above 0")
        _require(
            "fall_back_at", fall_back_at, 0.0 <= fall_back_at < promote_at, "less than promote_at"
        )
        self.names, self.stages = list(stages), list(stages.values())
        self.earlier_share, self.episodes = earlier_share, episodes
        self.promote_at, self.fall_back_at = promote_at, fall_back_at
        self._env = env
        for name, stage in stages.items():
            env.check_difficulty(f"curriculum.stages.{name}.", stage)
        self._begin(0)
        env.start_over()

    @property
    def headline(self) -> dict[str, str]:
        """What the console shows of it."""
        return {"stage": STAGE}

    @property
    def words(self) -> dict[str, list[str]]:
        """What the numbers of a metric stand for, from 1 on."""
        return {STAGE: self.names}

    @property
    def summary(self) -> str:
        """The stages, and how far the run has come."""
        return f"stages {', '.join(self.names)}; now {self.stage + 1} {self.names[self.stage]}"

    def after(
        self, iteration: int, frames: int, rollout: TensorDictBase, note: Note
    ) -> dict[str, float]:
        """Count the episodes that have ended; metrics of the stage."""
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
                share = 1.0 / min(self.seen, self.episodes)  # a mean at first, then it forgets
                self.rate += share * (success - self.rate)

    def _decide(self, when: str, note: Note) -> None:
        name, rate = self.names[self.stage], f"{self._env.objective} {self.rate:.3f}"
        if self.rate > self.promote_at and self.stage + 1 < len(self.stages):
            note(f"stage {name!r} is passed {when} ({rate}): next {self.names[self.stage + 1]!r}")
            self._begin(self.stage + 1)
        elif self.rate < self.fall_back_at and self.stage > 0:
            note(
                f"stage {name!r} is too hard {when} ({rate}): back to {self.names[self.stage - 1]!r}"
            )
            self._begin(self.stage - 1)

    def _begin(self, stage: int) -> None:
        """The worlds that are made from now on are of this stage, and some of those before."""
        self.stage, self.seen, self.rate = stage, 0, 0.0
        shares = dict.fromkeys(range(stage), self.earlier_share / max(1, stage))
        self._env.set_stages(self.stages, {**shares, stage: 1.0 - self.earlier_share * (stage > 0)})

    def state_dict(self) -> dict[str, Any]:
        """The stage, and what was seen of it."""
        return {"stage": self.names[self.stage], "seen": self.seen, "rate": self.rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict."""
        saved = state.get("stage")  # None: saved without a curriculum
        if saved not in self.names:
            raise ValueError(
                f"the checkpoint is in stage {saved!r}; expected one of {', '.join(self.names)}; go on with "
                "the curriculum it was saved with"
            )
        self._begin(self.names.index(saved))
        self.seen, self.rate = state["seen"], state["rate"]


def _require(name: str, value: object, usable: bool, expected: str) -> None:
    if not usable:
        raise ValueError(
            f"curriculum.{name} = {value}; expected {expected}; change curriculum.{name}"
        )
