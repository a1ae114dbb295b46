"""python -m navrl.evaluate: play exactly N episodes of one policy and print what came of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, open_dict
from tensordict import TensorDictBase
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl import __version__
from navrl.agents.scripted import RandomPolicy, ScriptedPolicy
from navrl.checkpoint import check_fits, find, load
from navrl.config import ConfigError, build, compose, from_json, run_main, to_json
from navrl.record import to_json as json_text
from navrl.record import write_atomically
from navrl.stats import Interval, mean_interval, wilson

OUTPUTS = Path("outputs")
SCRIPTED = "scripted:"

Act = Callable[[TensorDictBase], TensorDictBase]


def evaluate(cfg: DictConfig) -> None:
    """The command."""
    set_threads(cfg.threads)
    output = None if cfg.output is None else check_writable(Path(cfg.output))
    check_whole(cfg, "num_episodes", least=1)
    check_whole(cfg, "seed", least=0)
    config, state, label = find_subject(
        str(cfg.policy), device=cfg.device, opponent=to_json(cfg).get("opponent")
    )
    env = build_env(config, num_envs=cfg.num_episodes, seed=cfg.seed, compile_mode=cfg.compile)
    policy = build_policy(str(cfg.policy), config, state, env)
    torch.manual_seed(cfg.seed)
    metrics = summarise(play(env, policy, deterministic=cfg.deterministic), env.rate_names)
    opponent = opponent_name(config)
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
    sys.stdout.write(f"{label} against {opponent}: {cfg.num_episodes} episodes, seed {cfg.seed}\n")
    sys.stdout.write(table(metrics))
    if output is not None:
        write_atomically(output, json_text(result, indent=2) + "\n")
        sys.stdout.write(f"wrote {output}\n")


@torch.no_grad()
def play(env: Any, policy: Act, *, deterministic: bool) -> dict[str, list[float]]:
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


def summarise(ends: Mapping[str, list[float]], rates: Sequence[str]) -> dict[str, Interval]:
    """Means with 95 % intervals: Wilson's for the named rates, else Student's t."""
    return {
        name: wilson(sum(values), len(values)) if name in rates else mean_interval(values)
        for name, values in ends.items()
    }


def table(metrics: Mapping[str, Interval]) -> str:
    """Aligned text, one metric a line."""
    width = max(len(name) for name in metrics)
    lines = [f"  {'metric':<{width}} {'mean':>10}   95 % interval"]
    lines += [
        f"  {name:<{width}} {m.mean:>10.4f}   {m.low:.4f} .. {m.high:.4f}"
        for name, m in metrics.items()
    ]
    return "\n".join(lines) + "\n"


def measure(cfg: DictConfig, agent: Any, opponent: Any) -> dict[str, float]:
    """eval/<statistic> of deterministic episodes; draws none of training's random numbers."""
    config = cfg.copy()
    config.opponent = opponent
    env = build_env(config, num_envs=cfg.eval_episodes, seed=cfg.eval_seed, compile_mode="off")
    summary = summarise(play(env, agent.policy, deterministic=True), env.rate_names)
    return {f"eval/{name}": interval.mean for name, interval in summary.items()} | {
        f"eval/{env.objective}_margin": summary[env.objective].margin
    }


def measure_all(cfg: DictConfig, agent: Any, tell: Callable[[str], None]) -> dict[str, float]:
    """eval/<opponent>/<statistic> against every name in eval_opponents, told line by line."""
    final: dict[str, float] = {}
    for name in cfg.eval_opponents:
        found = measure(cfg, agent, opponent_option(name))
        final |= {key.replace("eval/", f"eval/{name}/", 1): value for key, value in found.items()}
        margins = {key: value for key, value in found.items() if key.endswith("_margin")}
        rates = {key: value for key, value in found.items() if "reward_" not in key}
        told = " | ".join(
            f"{key.removeprefix('eval/')} {value:.3f}"
            + (f" +-{margins[f'{key}_margin']:.3f}" if f"{key}_margin" in margins else "")
            for key, value in rates.items()
            if key not in margins
        )
        tell(f"against {name:<9} {told}   ({cfg.eval_episodes} episodes)")
    return final


def build_env(
    config: DictConfig, *, num_envs: int, seed: int, compile_mode: str, first_env_id: int = 0
) -> Any:
    """The env of a run's configuration, in another size and with other episodes."""
    config = config.copy()
    with open_dict(config):
        config.compile = compile_mode
    factory = build(config.env, from_checkpoint=True)
    device = pick_device(config.device)
    return factory(num_envs=num_envs, device=device, seed=seed, first_env_id=first_env_id)


def load_agent(agent: Any, state: Mapping[str, Any], origin: str) -> None:
    """The agent's saved state into `agent`, after a look at every name and shape."""
    for name in ("policy", "critic"):
        check_fits(getattr(agent, name).state_dict(), state["agent"][name], origin)
    agent.load_state_dict(state["agent"])


def opponent_option(name: str) -> Any:
    """The YAML of one opponent, by name."""
    return compose("train", [f"opponent={name}"]).opponent


def opponent_name(config: DictConfig) -> str:
    """What the opponent of a configuration is called."""
    return str(config.opponent._target_).rpartition(".")[2].lower()


def pick_device(wanted: str) -> torch.device:
    """The device, or one sentence if this machine or this torch has none of the kind."""
    if wanted == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device = {wanted!r}; expected auto, cpu or cuda; change device"
        ) from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError(
                f"device = {wanted}, but torch {torch.__version__} sees no GPU; expected a CUDA build "
                "of torch and a driver; use device=cpu, or see `navrl doctor`"
            )
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)  # streams and events of this process belong to it
    return device


def check_whole(cfg: DictConfig, *names: str, least: int) -> None:
    """Raise about the first option that is not a whole number of at least `least`."""
    for name in names:
        if type(cfg[name]) is not int or cfg[name] < least:
            raise ConfigError(
                f"{name} = {cfg[name]}; expected a whole number, {least} or more; change {name}"
            )


def set_threads(threads: int | None) -> None:
    """torch's threads, unless null."""
    if threads is None:
        return
    if type(threads) is not int or threads < 1:
        raise ConfigError(f"threads = {threads}; expected 1 or more, or null; change threads")
    torch.set_num_threads(threads)


def check_writable(path: Path) -> Path:
    """The path, if its folder exists; asked before hours of work, not after."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(f"output = {path}; expected a file in an existing folder; change output")
    return path


def find_subject(
    policy: str, *, device: str, opponent: Any = None, overrides: Sequence[str] = ()
) -> tuple[DictConfig, dict[str, Any] | None, str]:
    """Configuration, checkpoint if any, and name of a policy; `opponent` is YAML, None: the run's own."""
    state: dict[str, Any] | None = None
    if policy.startswith(SCRIPTED):
        config, label = compose("train", overrides), policy
    else:
        path = find(policy, OUTPUTS)
        state = load(path)
        config, label = from_json(state["config"]), str(path)
    with open_dict(config):
        config.device = device
        if opponent is not None:
            config.opponent = opponent
    return config, state, label


def build_policy(policy: str, config: DictConfig, state: dict[str, Any] | None, env: Any) -> Act:
    """The policy of that name, made for `env`."""
    if state is not None:
        agent = build(config.agent, from_checkpoint=True)(
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            device=env.device,
            num_iterations=1,
        )
        load_agent(agent, state, "the checkpoint")
        return agent.policy
    name = policy[len(SCRIPTED) :]
    if name == "random":
        return RandomPolicy(env=env)
    try:
        option = opponent_option(name)
    except ConfigError as error:
        raise ConfigError(
            str(error).replace("Unknown opponent", "Unknown scripted policy")
        ) from error
    return ScriptedPolicy(env=env, pilot=build(option))


def main() -> None:
    """Entry of `python -m navrl.evaluate` and `navrl evaluate`."""
    # Hydra takes `checkpoint=` for the group conf/checkpoint, so the key behind it has another name.
    sys.argv[1:] = [re.sub(r"^checkpoint=", "policy=", argument) for argument in sys.argv[1:]]
    run_main(evaluate, "evaluate")


if __name__ == "__main__":
    main()
