"""Early stopping (stop_when): a training ends once its evaluations are good enough, or get no better."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf

from navrl.config.checks import ConfigError, require, require_number, require_whole

NEVER = "stop_when=null"


class StopWhen(NamedTuple):
    """The options: which evaluations end a training."""

    at_least: float | None = None
    in_a_row: int = 1
    no_better_for: int | None = None

    @property
    def chosen(self) -> bool:
        """Return whether any evaluation may end the training."""
        return self.at_least is not None or self.no_better_for is not None


def stop_when(cfg: DictConfig) -> StopWhen:
    """Return the options of a run, checked."""
    found = cfg.get("stop_when")
    if found is None:
        return StopWhen()
    names = StopWhen._fields
    fits = OmegaConf.is_dict(found) and set(found) <= set(names)
    require(fits, "stop_when", found, f"null, or {', '.join(names)}")
    options = StopWhen(**found)
    if options.at_least is not None:
        require_number("stop_when.at_least", options.at_least)
    require_whole("stop_when.in_a_row", options.in_a_row, 1)
    if options.no_better_for is not None:
        require_whole("stop_when.no_better_for", options.no_better_for, 1)
    for name in ("at_least", "no_better_for"):
        value = getattr(options, name)
        if value is not None and cfg.eval_every == 0:
            raise ConfigError(
                f"stop_when.{name} = {value} with eval_every = 0; expected some iterations between "
                f"evaluations, which it goes by; add eval_every=20, or {NEVER}"
            )
    return options


def objective_of(cfg: DictConfig) -> str:
    """Return the statistic by which evaluations are compared; more is better."""
    return str(cfg.env.get("objective") or "return")


def stop_reason(cfg: DictConfig, scores: Sequence[float]) -> str:
    """Return why the training ends after evaluations with these scores, in their order; empty: it goes on."""
    options, name = stop_when(cfg), f"eval/{objective_of(cfg)}"
    if options.at_least is not None:
        level = options.at_least
        row = len(list(takewhile(lambda score: score >= level, reversed(scores))))
        if row >= options.in_a_row:
            times = "" if options.in_a_row == 1 else f" in {options.in_a_row} evaluations in a row"
            return f"{name} was at least {level:g}{times}"
    if options.no_better_for is not None and scores:
        best = scores.index(max(scores))
        if len(scores) - 1 - best >= options.no_better_for:
            return (
                f"{name} was not above {scores[best]:.4g} for {options.no_better_for} evaluations"
            )
    return ""
