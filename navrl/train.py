"""python -m navrl.train: build five objects, then the loop."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
from navrl.rollouts import episode_metrics, episode_sums
from navrl.run import RunDirectory


def train(cfg: DictConfig) -> float:
    """The command; returns what sweeps compare: the final rate of env.objective, more is better."""
    path, checkpoint, saved = Path(HydraConfig.get().runtime.output_dir), None, None
    if cfg.resume is not None:
        checkpoint = find(str(cfg.resume), OUTPUTS)
        saved = load(checkpoint)
        cfg = resumed(saved["config"], cfg, _overrides(), list(HydraConfig.get().runtime.choices))
        shutil.rmtree(
            path, ignore_errors=True
        )  # the run goes on in its own folder, not in a new one
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
        return _run(cfg, device, run, interrupt, saved)


class Objects(NamedTuple):
    """What a run is made of."""

    env: Any
    agent: Any
    collector: Any
    saver: Any
    loggers: Loggers


def _run(
    cfg: DictConfig,
    device: torch.device,
    run: RunDirectory,
    interrupt: Interrupt,
    saved: dict[str, Any] | None,
) -> float:
    """Everything between opening and closing the run directory."""
    frames_per_iteration = cfg.num_envs * cfg.rollout_steps
    num_iterations = math.ceil(cfg.total_frames / max(frames_per_iteration, 1))
    start = 0 if saved is None else saved["iteration"]
    if start >= num_iterations:
        raise ConfigError(
            f"the run is complete at {start * frames_per_iteration} frames; expected total_frames "
            f"above that to go on; add total_frames={2 * start * frames_per_iteration}"
        )
    objects = _build(cfg, device, run, num_iterations, num_iterations - start)
    with objects.loggers as loggers:
        loggers.note(_banner(cfg, objects, run, num_iterations))
        if saved is not None:
            _restore(saved, objects)
        metrics = _loop(cfg, objects, run, interrupt, start, num_iterations)
        objects.collector.shutdown()
        objects.saver.close()
        if interrupt.requested:
            run.set_status("interrupted", reason=f"signal {interrupt.number}")
            loggers.note(f"saved. To go on:  python -m navrl.train resume={_short(run.path)}")
            raise SystemExit(interrupt.exit_code)
        final = _final_evaluation(cfg, objects)
        loggers.summary(metrics | final)
        loggers.note(_next_commands(cfg, run))
    objective = objects.env.objective
    scores = [value for name, value in final.items() if name.endswith(f"/{objective}")]
    return sum(scores) / len(scores) if scores else metrics.get(f"episode/{objective}", math.nan)


def _loop(
    cfg: DictConfig,
    objects: Objects,
    run: RunDirectory,
    interrupt: Interrupt,
    start: int,
    num_iterations: int,
) -> dict[str, float]:
    """Collect with one policy version, learn from it, forget it; the last iteration's metrics."""
    env, agent, collector, saver, loggers = objects
    frames = run.frames = start * cfg.num_envs * cfg.rollout_steps
    total_frames = num_iterations * cfg.num_envs * cfg.rollout_steps
    monitor = Monitor(device=env.device, total_frames=total_frames, start_frames=frames)
    metrics: dict[str, float] = {}
    for iteration, rollout in enumerate(_timed(collector, monitor), start + 1):
        with monitor.section("update"):
            ended = episode_sums(rollout)
            metrics = agent.update(rollout) | episode_metrics(env, ended)
        frames = run.frames = frames + rollout.numel()
        if cfg.eval_every and iteration % cfg.eval_every == 0:
            with monitor.section("evaluate"):
                metrics |= _evaluate(cfg, agent, cfg.opponent)
        timing = monitor.pop(frames)
        if iteration == start + 1:
            del timing["time/eta_s"]  # this iteration compiled, so its speed foretells nothing
        loggers.log(metrics | timing, iteration=iteration, frames=frames)
        if saver.due(iteration) or iteration == num_iterations or interrupt.requested:
            state = _state(cfg, objects, iteration, frames)
            saver.save(state, frames=frames, score=_score(cfg, env, metrics))
        if interrupt.requested:
            break
    return metrics


def _build(
    cfg: DictConfig,
    device: torch.device,
    run: RunDirectory,
    num_iterations: int,
    iterations_left: int,
) -> Objects:
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    env = build(cfg.env)(num_envs=cfg.num_envs, device=device, seed=cfg.seed)
    agent = build(cfg.agent)(
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        device=device,
        num_iterations=num_iterations,
    )
    frames_per_iteration = cfg.num_envs * cfg.rollout_steps
    collector = build(cfg.collector)(
        env=env,
        policy=agent.policy,
        rollout_steps=cfg.rollout_steps,
        total_frames=iterations_left * frames_per_iteration,
    )
    loggers = Loggers.open(
        directory=run.path,
        name=f"{cfg.env.name}-{cfg.agent.name}",
        config=to_json(cfg),
        total_frames=num_iterations * frames_per_iteration,
        headline=env.headline,
        console=cfg.console,
        mirrors=[build(cfg.logger)],
    )
    return Objects(env, agent, collector, build(cfg.checkpoint)(directory=run.checkpoints), loggers)


def _state(cfg: DictConfig, objects: Objects, iteration: int, frames: int) -> dict[str, Any]:
    """Everything that a fresh process needs to go on bit for bit."""
    return {
        "agent": objects.agent.state_dict(),
        "env": objects.env.runtime_state(),
        "collector": objects.collector.runtime_state(),
        "loggers": objects.loggers.state_dict(),
        "rng": rng_state(),
        "iteration": iteration,
        "frames": frames,
        "config": to_json(cfg),
    }


def _restore(saved: dict[str, Any], objects: Objects) -> None:
    """The inverse of _state."""
    objects.agent.load_state_dict(saved["agent"])
    objects.env.load_runtime_state(saved["env"])
    objects.collector.load_runtime_state(saved["collector"])
    objects.loggers.load_state_dict(saved["loggers"])
    objects.loggers.truncate_after(saved["frames"])
    set_rng_state(saved["rng"])  # last: building everything drew random numbers


def _evaluate(cfg: DictConfig, agent: Any, opponent: Any) -> dict[str, float]:
    """eval/<statistic> of deterministic episodes; draws none of training's random numbers."""
    config = cfg.copy()
    config.opponent = opponent
    env = build_env(config, num_envs=cfg.eval_episodes, seed=cfg.eval_seed, compile_mode="off")
    summary = summarise(play(env, agent.policy, deterministic=True))
    return {f"eval/{name}": interval.mean for name, interval in summary.items()} | {
        f"eval/{env.objective}_margin": summary[env.objective].margin
    }


def _final_evaluation(cfg: DictConfig, objects: Objects) -> dict[str, float]:
    """eval/<opponent>/<statistic> against every name in eval_opponents, told line by line."""
    final: dict[str, float] = {}
    objective = objects.env.objective
    for name in cfg.eval_opponents:
        found = _evaluate(cfg, objects.agent, opponent_option(name))
        final |= {key.replace("eval/", f"eval/{name}/", 1): value for key, value in found.items()}
        told = " | ".join(
            f"{key} {found[f'eval/{key}']:.3f}" for key in objects.env.statistic_names
        )
        objects.loggers.note(
            f"against {name:<9} {told}   ({cfg.eval_episodes} episodes, "
            f"{objective} +-{found[f'eval/{objective}_margin']:.3f})"
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


def _score(cfg: DictConfig, env: Any, metrics: dict[str, float]) -> float | None:
    """What `best` goes by: the evaluation where there is one, else the training episodes."""
    source = "eval" if cfg.eval_every else "episode"
    return metrics.get(f"{source}/{env.objective}")


def _banner(cfg: DictConfig, objects: Objects, run: RunDirectory, num_iterations: int) -> str:
    frames = cfg.num_envs * cfg.rollout_steps
    compiling = "" if str(cfg.compile) in ("off", "False") else "; the first iteration compiles"
    return (
        f"{cfg.env.name} with {cfg.agent.name}: {cfg.num_envs} envs x {cfg.rollout_steps} steps = "
        f"{frames} frames an iteration, {num_iterations} iterations\n"
        f"device {objects.env.device}, {torch.get_num_threads()} threads, {objects.agent.precision}, "
        f"compile={cfg.compile}{compiling}\n"
        f"writing to {_short(run.path)}"
    )


def _next_commands(cfg: DictConfig, run: RunDirectory) -> str:
    place = _short(run.path)
    return (
        "next:\n"
        f"  .venv/bin/python -m navrl.evaluate checkpoint={place}\n"
        f"  .venv/bin/python -m navrl.train resume={place} total_frames={2 * cfg.total_frames}"
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
    return str(
        absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else absolute
    )


def main() -> None:
    """Entry of `python -m navrl.train` and `navrl train`."""
    run_main(train, "train")


if __name__ == "__main__":
    main()
