"""Cards of the policies that come with navrl: the command that trained each, its scores, and their band."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from navrl.run.intervals import Interval, mean_interval
from navrl.run.policies import measure_policy
from navrl.storage.files import read_json
from navrl.storage.find import ZOO_FOLDER, find_shipped


class Score(NamedTuple):
    """The objective in one setting of the evaluation, with its 95 % interval."""

    setting: str
    options: tuple[str, ...]  # of navrl evaluate
    mean: float
    low: float
    high: float


class Card(NamedTuple):
    """The facts about a policy that comes with navrl, as its file navrl/zoo/<name>.json has them."""

    name: str
    does: str  # one sentence
    env: str
    agent: str
    options: tuple[str, ...]  # of the training
    seed: int
    frames: int
    minutes: float
    machine: str
    date: str
    version: str
    commit: str
    objective: str
    scores: tuple[Score, ...]  # the first is the one that reproductions are judged by
    other_seeds: Mapping[str, float]  # its first score after the same command with other seeds
    margin: float | None  # widens the interval to the band where there are no other seeds
    episodes: int
    evaluation_seed: int
    bytes: int
    sha256: str
    licence: str

    def command(self, seed: int | None = None) -> list[str]:
        """Return the words of the training's command line."""
        return ["navrl", "train", *self.options, f"seed={self.seed if seed is None else seed}"]

    @property
    def band(self) -> tuple[float, float]:
        """Return the bounds of the first score after the same command with any seed."""
        return band(self.scores[0], [*self.other_seeds.values()], self.margin)

    def as_json(self) -> dict[str, Any]:
        """Return the card as its file has it."""
        return self._asdict() | {"scores": [score._asdict() for score in self.scores]}


def read_card(name: str) -> Card:
    """Return the card of a policy that comes with navrl."""
    find_shipped(name)
    found = read_json(ZOO_FOLDER / f"{name}.json")
    scores = tuple(
        Score(**{**each, "options": tuple(each["options"])}) for each in found.pop("scores")
    )
    return Card(**{**found, "options": tuple(found["options"]), "scores": scores})


def band(score: Score, others: Sequence[float], margin: float | None) -> tuple[float, float]:
    """Return the bounds, in [0, 1], within which a training with another seed is expected to score.

    `others` are the scores of other seeds. The bounds are Student's interval of one more result,
    mean +- t(0.975, n - 1) * s * sqrt(1 + 1 / n) over all n seeds, widened on both sides by half the width
    of the evaluation's interval, because s is 0 where all seeds scored the same. With one seed they are the
    evaluation's interval widened by a margin.
    """
    if others:
        mean, low, _, n = mean_interval([score.mean, *others])
        half = (mean - low) * math.sqrt(n + 1) + (score.high - score.low) / 2.0
        lower, upper = mean - half, mean + half
    elif margin is not None:
        lower, upper = score.low - margin, score.high + margin
    else:
        raise ValueError("expected scores of other seeds or a margin, and got neither")
    return max(lower, 0.0), min(upper, 1.0)


def measure(policy: str, card: Card) -> dict[str, Interval]:
    """Return the objective of a policy in every setting of the card, in the card's episodes."""
    return {
        score.setting: measure_policy(
            policy,
            overrides=score.options,
            num_episodes=card.episodes,
            seed=card.evaluation_seed,
            deterministic=True,
            device="cpu",
            compile_mode="off",
        ).metrics[card.objective]
        for score in card.scores
    }
