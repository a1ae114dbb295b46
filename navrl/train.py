"""python -m navrl.train: build five objects, then the loop."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDictBase

from navrl.checkpoint import find, load, rng_state, set_rng_state
from navrl.config import ConfigError, build, resumed, run_main, to_json
from navrl.evaluate import (
    OUTPUTS,
    build_env,
    opponent_option,
    pick_device,
    play,
    set_threads,
    summarise,
)
from navrl.interrupt import Interrupt
from navrl.loggers import Loggers
from navrl.monitor import Monitor
from navrl.run import RunDirectory
from navrl.stats import wilson


def train(cfg: DictConfig) -> float:
    """The command; returns the number that sweeps compare (the final win rate, higher is better)."""
    path, checkpoint, saved = Path(HydraConfig.get().runtime.output_dir), None, None
    if cfg.resume is not None:
        checkpoint = find(str(cfg.resume), OUTPUTS)
        saved = load(checkpoint)
        cfg = resumed(saved["config"], cfg, _overrides(), list(HydraConfig.get().runtime.choices))
        shutil.rmtree(path, ignore_errors=True)  # the run goes on in its own folder, not in a new one
        path = checkpoint.absolute().parents[1]
    set_threads(cfg.threads)
    device = pick_device(cfg.device)
    with (
        RunDirectory(
            path,
            config=OmegaConf.to_yaml(cfg),
            overrides=_overrides(),
            device=str(device),
            latest=_latest(path),
            resumed_from=None if checkpoint is None else str(checkpoint),
        ) as run,
        Interrupt() as interrupt,
    ):
        return _loop(cfg, device, run, interrupt, saved)


def _loop(
    cfg: DictConfig,
    device: torch.device,
    run: RunDirectory,
    interrupt: Interrupt,
    saved: dict[str, Any] | None,
) -> float:
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    env = build(cfg.env)(num_envs=cfg.num_envs, device=device, seed=cfg.seed)
    frames_per_iteration = cfg.num_envs * cfg.rollout_steps
    num_iterations = math.ceil(cfg.total_frames / frames_per_iteration)
    total_frames = num_iterations * frames_per_iteration
    agent = build(cfg.agent)(
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        device=device,
        num_iterations=num_iterations,
    )
    start = 0 if saved is None else saved["iteration"]
    if start >= num_iterations:
        raise ConfigError(
            f"the run is complete at {saved['frames'] if saved else 0} frames; expected total_frames "
            f"above that to go on; add total_frames={2 * total_frames}"
        )
    collector = build(cfg.collector)(
        env=env,
        policy=agent.policy,
        rollout_steps=cfg.rollout_steps,
        total_frames=total_frames - start * frames_per_iteration,
    )
    saver = build(cfg.checkpoint)(directory=run.checkpoints)
    with Loggers.open(
        directory=run.path,
        name=f"{cfg.env.name}-{cfg.agent.name}",
        config=to_json(cfg),
        total_frames=total_frames,
        headline=env.headline,
        console=cfg.console,
        mirrors=[build(cfg.logger)],
    ) as loggers:
        loggers.note(_banner(cfg, env, agent, run, num_iterations))
        if saved is not None:
            _restore(saved, agent, env, collector, loggers)
        frames = run.frames = start * frames_per_iteration
        monitor = Monitor(device=device, total_frames=total_frames, start_frames=frames)
        metrics: dict[str, float] = {}

        # ---- the loop: collect with one policy version, learn from it, forget it ----
        for iteration, rollout in enumerate(_timed(collector, monitor), start + 1):
            with monitor.section("update"):
                metrics = agent.update(rollout)
            metrics |= episode_metrics(env, rollout)
            frames = run.frames = frames + rollout.numel()
            last = iteration == num_iterations or interrupt.requested
            if cfg.eval_every and iteration % cfg.eval_every == 0:
                with monitor.section("evaluate"):
                    metrics |= _evaluate(cfg, agent, cfg.opponent)
            loggers.log(metrics | monitor.pop(frames), iteration=iteration, frames=frames)
            if saver.due(iteration) or last:
                state = {
                    "agent": agent.state_dict(),
                    "env": env.runtime_state(),
                    "collector": collector.runtime_state(),
                    "rng": rng_state(),
                    "iteration": iteration,
                    "frames": frames,
                    "loggers": loggers.state_dict(),
                    "config": to_json(cfg),
                }
                saver.save(state, frames=frames, score=_score(cfg, env, metrics))
            if interrupt.requested:
                break

        collector.shutdown()
        saver.close()
        if interrupt.requested:
            run.set_status("interrupted", reason=f"signal {interrupt.number}", frames=frames)
            loggers.note(f"saved. To go on:  python -m navrl.train resume={_short(run.path)}")
            raise SystemExit(interrupt.exit_code)
        final = _final_evaluation(cfg, agent, loggers)
        loggers.summary(metrics | final)
        loggers.note(_next_commands(run))
    wins = [value for name, value in final.items() if name.endswith(f"/{env.objective}")]
    return sum(wins) / len(wins) if wins else metrics.get(f"episode/{env.objective}", math.nan)


def episode_metrics(env: Any, rollout: TensorDictBase) -> dict[str, float]:
    """Means over the episodes that ended in the rollout; empty when none did."""
    done = rollout.get(("next", "done"))
    ends = (rollout.get(("next", "episode")) * done).sum((0, 1))
    count, *sums = torch.cat([done.sum().reshape(1).to(ends.dtype), ends]).tolist()
    metrics = {"episode/count": count}
    if count == 0:
        return metrics
    for name, total in zip(env.episode_keys, sums, strict=True):
        term = name.removeprefix("reward_")
        metrics[f"reward/{term}" if term != name else f"episode/{name}"] = total / count
    objective = f"episode/{env.objective}"
    hits = round(metrics[objective] * count)
    metrics[f"{objective}_margin"] = wilson(hits, int(count)).margin
    return metrics


def _evaluate(cfg: DictConfig, agent: Any, opponent: Any) -> dict[str, float]:
    """eval/<statistic> of eval_episodes deterministic episodes; training's random numbers stay put."""
    config = cfg.copy()
    config.opponent = opponent
    env = build_env(
        config, num_envs=cfg.eval_episodes, seed=cfg.eval_seed, compile_mode="off"
    )
    summary = summarise(play(env, agent.policy, deterministic=True))
    return {f"eval/{name}": interval.mean for name, interval in summary.items()} | {
        f"eval/{env.objective}_margin": summary[env.objective].margin
    }


def _final_evaluation(cfg: DictConfig, agent: Any, loggers: Loggers) -> dict[str, float]:
    """eval/<opponent>/<statistic> against every name in eval_opponents, told line by line."""
    final: dict[str, float] = {}
    for name in cfg.eval_opponents:
        found = _evaluate(cfg, agent, opponent_option(name))
        final |= {key.replace("eval/", f"eval/{name}/", 1): value for key, value in found.items()}
        loggers.note(
            f"against {name:<9} win {found['eval/win']:6.1%} | draw {found['eval/draw']:6.1%} | "
            f"loss {found['eval/loss']:6.1%}   ({cfg.eval_episodes} episodes, win +-"
            f"{found['eval/win_margin']:.1%})"
        )
    return final


def _timed(collector: Any, monitor: Monitor) -> Iterator[TensorDictBase]:
    """The collector's rollouts, with the time they took under time/collect."""
    rollouts = iter(collector)
    while True:
        with monitor.section("collect"):
            rollout = next(rollouts, None)
        if rollout is None:
            return
        yield rollout


def _restore(
    saved: dict[str, Any], agent: Any, env: Any, collector: Any, loggers: Loggers
) -> None:
    agent.load_state_dict(saved["agent"])
    env.load_runtime_state(saved["env"])
    collector.load_runtime_state(saved["collector"])
    if "loggers" in saved:
        loggers.load_state_dict(saved["loggers"])
    loggers.truncate_after(saved["frames"])
    set_rng_state(saved["rng"])  # last: building everything drew random numbers


def _score(cfg: DictConfig, env: Any, metrics: dict[str, float]) -> float | None:
    """What `best` goes by: the evaluation where there is one, else the training episodes."""
    source = "eval" if cfg.eval_every else "episode"
    return metrics.get(f"{source}/{env.objective}")


def _banner(
    cfg: DictConfig, env: Any, agent: Any, run: RunDirectory, num_iterations: int
) -> str:
    frames = cfg.num_envs * cfg.rollout_steps
    return (
        f"{cfg.env.name} with {cfg.agent.name}: {cfg.num_envs} envs x {cfg.rollout_steps} steps = {frames} "
        f"frames an iteration, {num_iterations} iterations\n"
        f"device {env.device}, {torch.get_num_threads()} threads, {agent.precision}, compile {cfg.compile}; "
        f"the first iteration compiles the simulator (up to a minute)\n"
        f"writing to {_short(run.path)}"
    )


def _next_commands(run: RunDirectory) -> str:
    place = _short(run.path)
    return (
        "next:\n"
        f"  python -m navrl.evaluate checkpoint={place} opponent=crank\n"
        f"  python -m navrl.train resume={place} total_frames=<more>"
    )


def _overrides() -> list[str]:
    return list(HydraConfig.get().overrides.task)


def _latest(path: Path) -> Path | None:
    """outputs/latest for single runs in outputs/; sweeps and folders elsewhere leave it alone."""
    single = HydraConfig.get().mode is not RunMode.MULTIRUN
    inside = path.absolute().is_relative_to(OUTPUTS.absolute())
    return OUTPUTS / "latest" if single and inside else None


def _short(path: Path) -> str:
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else absolute)


def main() -> None:
    """Entry of `python -m navrl.train` and `navrl train`."""
    run_main(train, "train")


if __name__ == "__main__":
    main()
