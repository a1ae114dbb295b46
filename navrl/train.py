"""python -m navrl.train: build five objects, then the loop."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDictBase

from navrl import notes
from navrl.checkpoint import find, rng_state, set_rng_state
from navrl.config import build, changes, resumed, run_main, to_json
from navrl.curriculum.gate import means
from navrl.evaluate import measure, measure_all, play
from navrl.interrupt import Interrupt
from navrl.loggers import Loggers
from navrl.monitor import Monitor
from navrl.options import enough_memory, pick_device, set_threads
from navrl.rollouts import episode_metrics, episode_sums
from navrl.run import RunDirectory
from navrl.start import (
    Start,
    folder_of,
    iterations,
    latest_link,
    leave_nothing,
    naming_changes,
    saved_run,
)
from navrl.subject import OUTPUTS, install_opponent, load_agent, pin_opponent


def train(cfg: DictConfig) -> float:
    """The command; returns what sweeps compare: the final rate of env.objective, more is better."""
    hydra = HydraConfig.get()
    path, checkpoint, saved = Path(hydra.runtime.output_dir), None, None
    overrides, chosen = list(hydra.overrides.task), dict(hydra.runtime.choices)
    try:
        if cfg.resume is not None:
            checkpoint = find(str(cfg.resume), OUTPUTS)
            saved = saved_run(checkpoint)
            cfg = resumed(saved["config"], saved["choices"], cfg, overrides, chosen)
            chosen, path = saved["choices"], folder_of(checkpoint, path)
        pin_opponent(cfg)
        start = Start(cfg, chosen, saved, str(checkpoint), *iterations(cfg, saved))
        with enough_memory("num_envs", cfg.num_envs):
            learners = _build(start)
    except (ValueError, OSError):
        leave_nothing(path)
        raise
    except KeyboardInterrupt:
        leave_nothing(path)
        raise KeyboardInterrupt("nothing was trained, nothing saved") from None
    with (
        RunDirectory(
            path,
            config=OmegaConf.to_yaml(cfg),
            overrides=overrides,
            device=str(learners.env.device),
            latest=latest_link(path),
            resumed_from=None if checkpoint is None else str(checkpoint),
        ) as run,
        enough_memory("num_envs", cfg.num_envs),
    ):
        return _run(start, learners, run)


class Learners(NamedTuple):
    """What learns."""

    env: Any
    agent: Any
    collector: Any
    curriculum: Any


class Records(NamedTuple):
    """What remembers."""

    run: RunDirectory
    saver: Any
    loggers: Loggers
    rollouts: Any


def _run(start: Start, learners: Learners, run: RunDirectory) -> float:
    """Everything between opening and closing the run directory."""
    cfg, env = start.cfg, learners.env
    with _loggers(start, learners, run) as loggers:
        saver = build(cfg.checkpoint)(directory=run.checkpoints)
        records = Records(run, saver, loggers, build(cfg.rollouts)(directory=run.path / "rollouts"))
        loggers.note(notes.banner(cfg, learners, run.path, start.total))
        if start.saved is not None:
            changed = changes(start.saved["config"], to_json(cfg))
            if changed:
                loggers.note(f"changed against the saved run: {changed}")
            _restore_records(start.saved, records)
        with Interrupt() as interrupt:
            if start.saved is not None:
                interrupt.saved_at(start.saved["frames"])
            metrics = _loop(start, learners, records, interrupt)
        learners.collector.shutdown()
        records.saver.close()
        loggers.summary(metrics)
        if interrupt.requested:
            complete = metrics["iteration"] == start.total
            run.set_status("interrupted", reason=f"signal {interrupt.number}")
            loggers.note(notes.interrupted(run.path, complete=complete))
            raise SystemExit(interrupt.exit_code)
        final = measure_all(cfg, learners.agent, loggers.note)
        loggers.summary({**metrics, **final})
        loggers.note(notes.next_commands(cfg, run.path))
    scores = [value for name, value in final.items() if name.endswith(f"/{env.objective}")]
    return (
        sum(scores) / len(scores) if scores else metrics.get(f"episode/{env.objective}", math.nan)
    )


def _loop(
    start: Start, learners: Learners, records: Records, interrupt: Interrupt
) -> dict[str, float]:
    """Collect with one policy version, learn from it, forget it; the last iteration's metrics."""
    cfg = start.cfg
    env, agent, collector, curriculum = learners
    run, saver, loggers, rollouts = records
    frames = run.frames = start.done * cfg.num_envs * cfg.rollout_steps
    total_frames = start.total * cfg.num_envs * cfg.rollout_steps
    monitor = Monitor(device=env.device, total_frames=total_frames, start_frames=frames)
    metrics: dict[str, float] = {}
    for iteration, rollout in enumerate(_timed(collector, monitor), start.done + 1):
        rollouts.after(iteration, rollout, loggers.note)
        with monitor.section("update"):
            ended = episode_sums(rollout)
            metrics = agent.update(rollout) | episode_metrics(env, ended)
        with monitor.section("curriculum"):
            stage = curriculum.stage  # in which these episodes were played
            after = run.frames + rollout.numel()
            metrics |= curriculum.after(iteration, after, rollout, loggers.note)
        frames = run.frames = frames + rollout.numel()
        evaluated = bool(cfg.eval_every) and iteration % cfg.eval_every == 0
        if evaluated:
            with monitor.section("evaluate"):
                metrics |= measure(cfg, agent, {}, seed=cfg.eval_seed)
        timing = monitor.pop(frames)
        if iteration == start.done + 1:
            del timing["time/eta_s"]  # this iteration compiled, so its speed foretells nothing
        loggers.log(metrics | timing, iteration=iteration, frames=frames)
        last = iteration == start.total or interrupt.requested
        if saver.due(iteration) or evaluated or last:
            state = _state(start, learners, records, iteration)
            if _save(records, state, _score(cfg, env, metrics), stage, last=last):
                interrupt.saved_at(frames)
        if last:
            break
    return metrics | {"iteration": iteration}


def _save(
    records: Records, state: dict[str, Any], score: float | None, stage: int, *, last: bool
) -> bool:
    """Whether it was saved; a full disk costs this checkpoint and not the run, unless it was the last."""
    try:
        path = records.saver.save(state, frames=state["frames"], score=score, stage=stage)
        records.run.set_status("running")  # with the frames that a crash would lose nothing of
    except OSError as error:
        if last:
            raise
        records.loggers.note(f"not saved ({error}); the run goes on and tries again")
        return False
    return path is not None


def _build(start: Start) -> Learners:
    cfg = start.cfg
    set_threads(cfg.threads)
    device = pick_device(cfg.device)
    foreign = start.saved is not None  # then somebody else may have written env and agent
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    env = build(cfg.env, from_checkpoint=foreign)(
        num_envs=cfg.num_envs, device=device, seed=cfg.seed
    )
    install_opponent(env)
    agent = build(cfg.agent, from_checkpoint=foreign)(
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        device=device,
        num_iterations=start.total,
    )
    frames_per_iteration = cfg.num_envs * cfg.rollout_steps
    agent.check_rollout_size(frames_per_iteration)
    curriculum = build(cfg.curriculum, from_checkpoint=foreign)(
        env=env,
        agent=agent,
        measure=partial(_examined, cfg, agent),
    )
    collector = build(cfg.collector)(
        env=env,
        policy=agent.policy,
        rollout_steps=cfg.rollout_steps,
        total_frames=(start.total - start.done) * frames_per_iteration,
    )
    if start.saved is not None:  # before the run is opened: what does not fit changes nothing there
        load_agent(agent, start.saved, start.origin)
        with naming_changes(cfg):
            env.load_runtime_state(start.saved["env"])
        curriculum.load_state_dict(start.saved["curriculum"])
        collector.load_runtime_state(start.saved["collector"])
    return Learners(env, agent, collector, curriculum)


def _examined(cfg: DictConfig, agent: Any, env: Any) -> dict[str, float]:
    """Means over one episode of every env, the same ones whenever it is asked; no random number is drawn."""
    with env.other_episodes(cfg.eval_seed):
        ends = play(env, agent.policy, deterministic=True)
    return means(ends, env.rate_names, env.lesson_names["opponents"])


def _loggers(start: Start, learners: Learners, run: RunDirectory) -> Loggers:
    cfg = start.cfg
    return Loggers.open(
        directory=run.path,
        name=f"{cfg.env.name}-{cfg.agent.name}",
        config=to_json(cfg),
        total_frames=start.total * cfg.num_envs * cfg.rollout_steps,
        headline={**learners.env.headline, **learners.curriculum.headline},
        words=learners.curriculum.words,
        console=cfg.console,
        mirrors=[build(cfg.logger)],
    )


def _state(start: Start, learners: Learners, records: Records, iteration: int) -> dict[str, Any]:
    """Everything that a fresh process needs to go on bit for bit."""
    return {
        "agent": learners.agent.state_dict(),
        "env": learners.env.runtime_state(),
        "collector": learners.collector.runtime_state(),
        "curriculum": learners.curriculum.state_dict(),
        "loggers": records.loggers.state_dict(),
        "rng": rng_state(),
        "iteration": iteration,
        "frames": records.run.frames,
        "config": to_json(start.cfg),
        "choices": start.choices,
    }


def _restore_records(saved: dict[str, Any], records: Records) -> None:
    """Go on with the run's records where the checkpoint left them, and with its random numbers."""
    if records.run.resumed:  # else this is a branch in a folder of its own, with its own records
        records.loggers.load_state_dict(saved["loggers"])
        records.loggers.truncate_after(saved["frames"])
    set_rng_state(saved["rng"])  # last: building everything drew random numbers


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
    """What `best` goes by within a stage: the evaluation if there is one, else the training episodes."""
    source = "eval" if cfg.eval_every else "episode"
    return metrics.get(f"{source}/{env.objective}")


def main() -> None:
    """Entry of `python -m navrl.train` and `navrl train`."""
    run_main(train, "train")


if __name__ == "__main__":
    main()
