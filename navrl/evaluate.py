"""python -m navrl.evaluate: play exactly N episodes of one policy and print what came of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl import __version__
from navrl.config.checks import ConfigError
from navrl.config.command import run_main
from navrl.config.compose import group_option
from navrl.contracts import Agent, Env
from navrl.run.intervals import Interval, mean_interval, wilson
from navrl.run.options import MOST_ENVS, check_whole, check_writable, enough_memory, prepare_process
from navrl.run.policies import (
    OUTPUTS,
    Act,
    build_env,
    build_policy,
    examination,
    find_policy,
    opponent_name,
)
from navrl.selfplay.league_table import league_record, league_table, load_league
from navrl.storage.files import to_json as json_text
from navrl.storage.files import write_atomically
from navrl.storage.find import find

_GROUPS = ("opponent", "shield")  # which the command replaces in a run


def evaluate(cfg: DictConfig) -> None:
    """The command."""
    prepare_process(cfg.threads)
    output = None if cfg.output is None else check_writable(Path(cfg.output), "output")
    if cfg.league is not None:
        path = find(str(cfg.league), OUTPUTS)
        payoff = load_league(path, str(cfg.league))
        sys.stdout.write(f"{path}\n\n{league_table(payoff)}")
        _write(output, {"checkpoint": str(path), "version": __version__, **league_record(payoff)})
        return
    check_whole(cfg, "num_episodes", least=1, most=MOST_ENVS)
    check_whole(cfg, "seed", least=0)
    if cfg.deterministic not in (True, False):
        raise ConfigError(
            f"deterministic = {cfg.deterministic}; expected true or false; change deterministic"
        )
    given = HydraConfig.get().overrides.task
    overrides = [] if cfg.env_name is None else [f"env={cfg.env_name}"]
    overrides += [*cfg.set, *(word for word in given if word.startswith(_GROUPS))]
    config, state, label, choices = find_policy(
        str(cfg.policy), device=cfg.device, overrides=overrides
    )
    with enough_memory("num_episodes", cfg.num_episodes):
        env = build_env(config, num_envs=cfg.num_episodes, seed=cfg.seed, compile_mode=cfg.compile)
        policy = build_policy(str(cfg.policy), config, state, env)
        torch.manual_seed(cfg.seed)
        metrics = summarise(
            play(env, policy, deterministic=cfg.deterministic), env.rate_names, env.counted_when
        )
    opponent = opponent_name(config, choices)
    result = {
        "metrics": {name: interval._asdict() for name, interval in metrics.items()},
        "policy": label,
        "frames": None if state is None else state["frames"],
        "version": __version__,
        "opponent": opponent,
        "env": config.env.name,
        "seed": cfg.seed,
        "num_episodes": cfg.num_episodes,
        "deterministic": cfg.deterministic,
    }
    number = f"{cfg.num_episodes} episode{'s' * (cfg.num_episodes > 1)}"
    played = f"against {opponent}" if opponent else f"in {config.env.name}"
    sys.stdout.write(f"{label} {played}: {number}, seed {cfg.seed}\n")
    sys.stdout.write(table(metrics))
    _write(output, result)


def _write(output: Path | None, result: Mapping[str, Any]) -> None:
    """The result as JSON, if a file was asked for."""
    if output is not None:
        write_atomically(output, json_text(result, indent=2) + "\n")
        sys.stdout.write(f"wrote {output}\n")


@torch.no_grad()
def play(env: Env, policy: Act, *, deterministic: bool) -> dict[str, list[float]]:
    """The end of the first episode of every env, by statistic; no env plays a second one."""
    mode = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
    tensordict = env.reset()
    ends = torch.zeros_like(tensordict.get("episode"))
    running = torch.ones_like(tensordict.get("done"))
    with set_exploration_type(mode):
        while bool(running.any()):
            stepped, tensordict = env.step_and_maybe_reset(policy(tensordict))
            ended = stepped.get(("next", "done")) & running
            ends = torch.where(ended, stepped.get(("next", "episode")), ends)
            running = running & ~ended
    rows = ends.t().tolist()
    return dict(zip(env.episode_keys, rows, strict=True))


def summarise(
    ends: Mapping[str, list[float]],
    rates: Sequence[str],
    counted_when: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Interval]:
    """Means with 95 % intervals: Wilson's for the named rates, else Student's t.

    Of what `counted_when` names only the episodes count in which its rate is 1.
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
            counted = [value for value, one in zip(values, happened, strict=True) if one]
        interval = mean_interval(counted)
        signed = name == "return" or name.startswith("reward_") or min(values, default=0.0) < 0.0
        found[name] = interval if signed else interval.above_zero()
    return found


def table(metrics: Mapping[str, Interval]) -> str:
    """Aligned text, one metric a line."""
    width = max(len(name) for name in metrics)
    lines = [f"  {'metric':<{width}} {'mean':>10}   95 % interval"]
    lines += [
        f"  {name:<{width}} {m.mean:>10.4f}   {m.low:.4f} .. {m.high:.4f}"
        if m.n
        else f"  {name:<{width}} {'-':>10}   -"
        for name, m in metrics.items()
    ]
    return "\n".join(lines) + "\n"


def measure(
    cfg: DictConfig, agent: Agent, changes: Mapping[str, Any], *, seed: int
) -> dict[str, float]:
    """eval/<statistic> of deterministic episodes; draws none of training's random numbers."""
    config = examination(cfg, changes)
    env = build_env(config, num_envs=cfg.eval_episodes, seed=seed, compile_mode="off")
    with torch.random.fork_rng([env.device] if env.device.type == "cuda" else []):
        torch.manual_seed(seed)  # of policies that draw even where others take the best
        ends = play(env, agent.policy, deterministic=True)
    summary = summarise(ends, env.rate_names, env.counted_when)
    found = {f"eval/{name}": interval.mean for name, interval in summary.items() if interval.n}
    objective = summary[env.objective]
    name = f"eval/{env.objective}"
    return found | {f"{name}_low": objective.low, f"{name}_high": objective.high}


def measure_all(cfg: DictConfig, agent: Agent, tell: Callable[[str], None]) -> dict[str, float]:
    """eval/<opponent>/<statistic> against every name in eval_opponents, told line by line.

    An env without opponents is played once, under the name of the env. Lessons were passed and `best` was
    chosen on the episodes of eval_seed, so these are others.
    """
    trials: dict[str, dict[str, Any]] = {str(cfg.env.name): {}}
    if "opponent" in cfg:
        trials = {name: {"opponent": group_option("opponent", name)} for name in cfg.eval_opponents}
    final: dict[str, float] = {}
    for name, changes in trials.items():
        found = measure(cfg, agent, changes, seed=cfg.eval_seed + 1)
        final |= {key.replace("eval/", f"eval/{name}/", 1): value for key, value in found.items()}
        told = " | ".join(
            f"{key.removeprefix('eval/')} {value:.3f}{_bounds(key, found)}"
            for key, value in found.items()
            if "reward_" not in key and not key.endswith(("_low", "_high"))
        )
        tell(f"{'against' if changes else 'in'} {name:<9} {told}   ({cfg.eval_episodes} episodes)")
    return final


def _bounds(key: str, found: Mapping[str, float]) -> str:
    """The 95 % interval, where there is one."""
    low, high = (found.get(f"{key}_{side}") for side in ("low", "high"))
    return "" if low is None or high is None else f" ({low:.3f}..{high:.3f})"


def main() -> None:
    """Entry of `python -m navrl.evaluate` and `navrl evaluate`."""
    # Hydra takes `checkpoint=` and `env=` for groups of conf/, so the keys behind them have other names.
    words = [re.sub(r"^checkpoint=", "policy=", argument) for argument in sys.argv[1:]]
    words = [re.sub(r"^env=", "env_name=", word) for word in words]
    for place, word in enumerate(words):
        opponent, _, reference = word.partition("=checkpoint:")
        if opponent == "opponent":  # as `navrl replay --opponent` writes it
            words[place : place + 1] = ["opponent=checkpoint", f"opponent.checkpoint={reference}"]
            break
    if "--set" in words:
        place = words.index("--set")
        quoted = ("'" + word.replace("'", r"\'") + "'" for word in words[place + 1 :])
        words[place:] = [f"set=[{','.join(quoted)}]"]
    sys.argv[1:] = words
    run_main(evaluate, "evaluate")


if __name__ == "__main__":
    main()
