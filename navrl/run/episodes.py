"""Statistics of episodes: play one in every env and summarise them, or summarise those of training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl.config.checks import ConfigError
from navrl.contracts import Agent, Env, LessonEnv, Policy
from navrl.curriculum.gate import means
from navrl.ranks import Ranks
from navrl.run.intervals import Interval, mean_interval, wilson
from navrl.storage.schema import Rule, check, numbers

_LONGEST = 100_000  # steps of an episode; evaluations wait for its end


@torch.no_grad()
def play(env: Env, policy: Policy, *, deterministic: bool) -> dict[str, list[float]]:
    """Play one episode in every env; return its statistics at the end, by name, one number per env."""
    mode = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
    tensordict = env.reset()
    ends = torch.zeros_like(tensordict.get("episode"))
    running = torch.ones_like(tensordict.get("done"))
    steps = itertools.count(1)
    with set_exploration_type(mode):
        while bool(running.any()):
            _require_end(env, next(steps))
            stepped, tensordict = env.step_and_maybe_reset(policy(tensordict))
            ended = stepped.get(("next", "done")) & running
            ends = torch.where(ended, stepped.get(("next", "episode")), ends)
            running = running & ~ended
    rows = ends.t().tolist()
    return dict(zip(env.episode_keys, rows, strict=True))


def measured_gate(seed: int, agent: Agent, ranks: Ranks, env: LessonEnv) -> dict[str, float]:
    """Return means over one episode of every env, always the same episodes; draws no random number."""
    with env.other_episodes(seed):
        own = play(env, agent.policy, deterministic=True)
    ends = {name: ranks.all_gather(torch.tensor(rows), 0).tolist() for name, rows in own.items()}
    return means(ends, env.rate_names, env.lesson_names["opponents"])


def _require_end(env: Env, steps: int) -> None:
    """Raise ConfigError once an episode is longer than any that is meant."""
    if steps > _LONGEST:
        raise ConfigError(
            f"an episode of env={env.name} goes on after {_LONGEST} steps; expected an end by judge(state) "
            "or by env.horizon; change one of them"
        )


def summarise(
    ends: Mapping[str, list[float]],
    rates: Sequence[str],
    counted_when: Mapping[str, str] = MappingProxyType({}),
    shares: Sequence[str] = (),
) -> dict[str, Interval]:
    """Return means with 95 % intervals: Wilson's for the named rates, else Student's t.

    Shares are within [0, 1]; what was never negative, but for returns, has no negative bound either.

    A statistic in `counted_when` is averaged over the episodes in which the rate named there is 1.
    """
    found: dict[str, Interval] = {}
    for name, values in ends.items():
        if name.startswith("_"):
            continue  # a label, which has no mean
        if name in rates:
            found[name] = wilson(sum(values), len(values))
            continue
        counted = values
        if name in counted_when:
            happened = ends[counted_when[name]]
            counted = [value for value, rate in zip(values, happened, strict=True) if rate]
        interval = mean_interval(counted)
        signed = name == "return" or name.startswith("reward_") or min(values, default=0.0) < 0.0
        least = 0.0 if name in shares or not signed else -math.inf
        found[name] = interval.within(least, 1.0 if name in shares else math.inf)
    return found


def table(metrics: Mapping[str, Interval]) -> str:
    """Return aligned text, one metric per line."""
    width = max(len(name) for name in metrics)
    lines = [f"  {'metric':<{width}} {'mean':>10}   95 % interval"]
    lines += [
        f"  {name:<{width}} {m.mean:>10.4f}   {m.low:.4f} .. {m.high:.4f}"
        if m.n
        else f"  {name:<{width}} {'-':>10}   -"
        for name, m in metrics.items()
    ]
    return "\n".join(lines) + "\n"


class TrainingEpisodes:
    """Statistics of training: those of the episodes that began in one iteration, once all of them have ended.

    Those that end in an iteration are no fair sample. The short ones come first, and where a fight is won in
    less time than it takes to end in a draw, the first to end are all won.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._length = list(env.episode_keys).index("length")
        # A row for every iteration with an episode that may be under way: how many have ended, and sums.
        self._open = self._no_rows(0)
        self._latest = self._no_rows(1)[0]

    def sums(self, rollout: TensorDictBase) -> Tensor:
        """Return how many rows are complete, and what the rollout adds to all of them, copied to the host.

        Call it before the update and read it after: the update's one read of the device then waits for this
        copy too, so that reading costs no synchronisation of its own.
        """
        done = rollout.get(("next", "done")).squeeze(-1)  # (N, T)
        episode = rollout.get(("next", "episode"))  # (N, T, statistics)
        steps, earlier = done.shape[1], len(self._open)
        began = torch.arange(1, steps + 1, device=done.device) - episode[..., self._length].long()
        row = torch.div(began, steps, rounding_mode="floor") + earlier
        counted = (done & (row >= 0)).unsqueeze(-1)  # others began before anybody counted
        columns = torch.cat([torch.ones_like(episode[..., :1]), episode], -1)
        sums = episode.new_zeros(earlier + 1, columns.shape[-1]).index_add_(
            0, row.clamp(0, earlier).flatten(), torch.where(counted, columns, 0.0).flatten(0, 1)
        )
        oldest = torch.where(done[:, -1], earlier + 1, row[:, -1]).min().clamp_min(0)
        return torch.cat([oldest.reshape(1), sums.flatten()]).to("cpu", non_blocking=True)

    def metrics(self, sums: Tensor) -> dict[str, float]:
        """Return means over the episodes that are complete now, by name; only their count without any."""
        complete = int(sums[0])
        added = sums[1:].double().view(-1, self._open.shape[1])
        rows = torch.cat([self._open, self._no_rows(1)]) + added
        ended, self._open = rows[:complete].sum(0), rows[complete:]
        if ended[0]:
            self._latest = ended
        return episode_metrics(self._env, ended)

    @property
    def latest(self) -> dict[str, float]:
        """Return what `metrics` returned when episodes were last complete."""
        return episode_metrics(self._env, self._latest)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the sums so far."""
        return {"open": self._open, "latest": self._latest.unsqueeze(0)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with sums that belong to the episodes under way."""
        check(state, {"open": self._sums_of(None), "latest": self._sums_of(1)}, "episodes")
        self._open, (self._latest,) = state["open"], state["latest"].unbind()

    def _sums_of(self, rows: int | None) -> Rule:
        """Return the rule of sums over episodes, in which no rate is above 1."""
        shape = numbers(torch.float64, [rows, 1 + len(self._env.episode_keys)])
        rates = [1 + list(self._env.episode_keys).index(name) for name in self._env.rate_names]

        def fits(value: Tensor) -> bool:
            if not shape.fits(value) or not bool(value.isfinite().all()):
                return False
            count, hits = value[:, :1], value[:, rates]
            return bool((count >= 0).all() and ((hits >= 0) & (hits <= count)).all())

        return Rule(f"{shape.expected}, finite, with shares of episodes", fits)

    def _no_rows(self, number: int) -> Tensor:
        return torch.zeros(number, 1 + len(self._env.episode_keys), dtype=torch.float64)


def episode_metrics(env: Env, counted: Tensor) -> dict[str, float]:
    """Return means over the ended episodes, by name; only their count if none ended."""
    count, *totals = counted.tolist()
    metrics = {"episode/count": count}
    if count == 0:
        return metrics
    sums = dict(zip(env.episode_keys, totals, strict=True))
    for name, total in sums.items():
        if name.startswith("_"):
            continue  # a label, which has no mean
        number = sums[env.counted_when[name]] if name in env.counted_when else count
        term = name.removeprefix("reward_")
        if number:
            metrics[f"reward/{term}" if term != name else f"episode/{name}"] = total / number
    objective = f"episode/{env.objective}"
    if env.objective in env.rate_names:
        hits = round(metrics[objective] * count)
        interval = wilson(hits, int(count))
        metrics |= {f"{objective}_low": interval.low, f"{objective}_high": interval.high}
    return metrics
