"""python -m navrl.train: build five objects, then the loop."""

from __future__ import annotations

import math
import random
import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDictBase

from navrl.config.command import run_main
from navrl.config.compose import build, to_json
from navrl.config.resumed import changes, resumed
from navrl.curriculum.gate import means
from navrl.envs.core.compiling import compilations
from navrl.evaluate import measure_all, play
from navrl.loggers.composite import Loggers
from navrl.run import messages as notes
from navrl.run.auto_resume import AUTO, origin, supervised_command, supervised_folder
from navrl.run.directory import RunDirectory
from navrl.run.early import job_age_s, job_begins
from navrl.run.episodes import episode_metrics, episode_sums
from navrl.run.evaluation import examiner
from navrl.run.options import (
    allow_lag,
    check_flag,
    check_whole,
    enough_memory,
    pick_device,
    prepare_process,
)
from navrl.run.plan import (
    RunComplete,
    Start,
    iterations,
    latest_link,
    leave_nothing,
    naming_changes,
    saved_run,
)
from navrl.run.policies import install_opponent, load_agent, made, pin_opponent
from navrl.run.profiler import profiler_for
from navrl.run.signals import Interrupt
from navrl.run.state import Records, restore, save, state_of
from navrl.run.supervisor import supervise
from navrl.run.timers import Monitor


def train(cfg: DictConfig) -> float:
    """The command; returns what sweeps compare: the final rate of env.objective, more is better."""
    job_begins()
    compilations.clear()
    hydra = HydraConfig.get()
    path, saved, auto = Path(hydra.runtime.output_dir), None, cfg.resume == AUTO
    overrides, chosen = list(hydra.overrides.task), dict(hydra.runtime.choices)
    try:
        check_whole(cfg, "restarts", least=0)
        check_flag(cfg, "profile")
        if cfg.restarts:
            return _supervised(cfg, supervised_folder(cfg, path, overrides))
        path, checkpoint, said = origin(cfg, path, overrides)
        if checkpoint is not None:
            saved = saved_run(checkpoint)
            cfg = resumed(saved["config"], saved["choices"], cfg, said, chosen)
            chosen = saved["choices"]
        pin_opponent(cfg)
        start = Start(cfg, chosen, saved, str(checkpoint or "nothing"), *iterations(cfg, saved))
        with enough_memory("num_envs", cfg.num_envs):
            learners = _build(start)
    except RunComplete as complete:
        leave_nothing(path)
        if not auto:
            raise
        sys.stdout.write(f"{complete}\n{notes.unmeasured(path)}")
        return math.nan
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
            resumed_from=start.origin if auto or checkpoint is not None else None,
        ) as run,
        enough_memory("num_envs", cfg.num_envs),
    ):
        return _run(start, learners, run)


def _supervised(cfg: DictConfig, folder: Path) -> float:
    """The training in a child process that may crash; the exit code is the child's."""
    code = supervise(partial(supervised_command, cfg, folder), folder, cfg.restarts)
    if code:
        raise SystemExit(code)
    return math.nan


class Learners(NamedTuple):
    """What learns."""

    env: Any
    agent: Any
    collector: Any
    curriculum: Any


def _run(start: Start, learners: Learners, run: RunDirectory) -> float:
    """Everything between opening and closing the run directory."""
    cfg, env = start.cfg, learners.env
    with _loggers(start, learners, run) as loggers, examiner(cfg) as evaluations:
        saver = build(cfg.checkpoint)(directory=run.checkpoints)
        rollouts = build(cfg.rollouts)(directory=run.path / "rollouts")
        records = Records(run, saver, loggers, rollouts, evaluations)
        loggers.note(notes.banner(cfg, learners, run.path, start.total))
        if start.saved is not None:
            changed = changes(start.saved["config"], to_json(cfg))
            loggers.note(notes.going_on(start, changed))
        restore(start, records)
        waits = bool(cfg.eval_every) and not cfg.eval_async
        examines = waits or "check_every" in cfg.curriculum
        with (
            Interrupt(lambda: saver.saved_frames or start.frames, examines=examines) as interrupt,
            saver,
            profiler_for(cfg.profile, run.path / "profile", env.device, loggers.note) as profiler,
        ):
            metrics = _loop(start, learners, records, interrupt, profiler)
        learners.collector.shutdown()
        loggers.summary(metrics)
        if interrupt.requested:
            complete = metrics["iteration"] == start.total
            run.set_status("interrupted", reason=f"signal {interrupt.number}")
            loggers.note(notes.interrupted(run.path, complete=complete))
            raise SystemExit(interrupt.exit_code)
        for result in evaluations.rest(loggers.note):
            loggers.late(*result)
        final = measure_all(cfg, learners.agent, loggers.note)
        loggers.summary({**metrics, **final})
        loggers.note(notes.next_commands(run.path, run.frames))
    scores = [value for name, value in final.items() if name.endswith(f"/{env.objective}")]
    return (
        sum(scores) / len(scores) if scores else metrics.get(f"episode/{env.objective}", math.nan)
    )


def _loop(
    start: Start, learners: Learners, records: Records, interrupt: Interrupt, profiler: Any
) -> dict[str, float]:
    """Collect with one policy version, learn from it, forget it; the last iteration's metrics."""
    cfg = start.cfg
    env, agent, collector, curriculum = learners
    run, saver, loggers, rollouts, evaluations = records
    frames = run.frames = start.frames
    monitor = Monitor(device=env.device, total_frames=start.total_frames, start_frames=frames)
    metrics: dict[str, float] = {}
    stages: deque[int] = deque(maxlen=1 + collector.lag)
    collected = _timed(collector, monitor, profiler)
    for iteration, rollout in enumerate(collected, start.done + 1):
        with monitor.section("rollouts"):
            rollouts.after(iteration, rollout, loggers.note)
        with collector.ahead(), monitor.section("update"):
            ended = episode_sums(rollout)
            metrics = agent.update(rollout) | episode_metrics(env, ended)
        with monitor.section("curriculum"):
            stages.append(curriculum.stage)
            stage = stages[0]  # in which these episodes were played
            after = run.frames + rollout.numel()
            metrics |= curriculum.after(iteration, after, rollout, loggers.note)
        frames = run.frames = frames + rollout.numel()
        for result in evaluations.results():  # of earlier iterations; what is not here yet is saved
            loggers.late(*result)
        evaluated = evaluations.due(iteration)
        if evaluated:
            with monitor.section("evaluate"):
                metrics |= evaluations.examine(agent, iteration=iteration, frames=frames)
        timing = monitor.pop(frames) | saver.metrics() | collector.metrics()
        if iteration == start.done + 1:
            del timing["time/eta_s"]  # this iteration compiled, so its speed foretells nothing
            if compilations:
                loggers.note(notes.first_iteration(job_age_s(), compilations))
        loggers.log(metrics | timing, iteration=iteration, frames=frames)
        last = iteration == start.total or interrupt.requested
        good = not agent.skipped_in_a_row  # or a restart would go on from where numbers overflow
        if ((saver.due(iteration) or evaluated) and good) or last:
            with monitor.section("save"):
                state = state_of(start, learners, records, iteration)
                save(records, state, _score(cfg, env, metrics), stage, last=last)
        if last:
            break
    return metrics | monitor.summary() | {"iteration": iteration}


def _build(start: Start) -> Learners:
    cfg = start.cfg
    prepare_process(cfg.threads)
    device = pick_device(cfg.device)
    foreign = start.saved is not None  # then somebody else may have written env and agent
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    make_env = build(cfg.env, from_checkpoint=foreign)
    env = made("env", make_env, num_envs=cfg.num_envs, device=device, seed=cfg.seed)
    install_opponent(env)
    agent = made(
        "agent",
        build(cfg.agent, from_checkpoint=foreign),
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        device=device,
        num_iterations=start.total,
    )
    frames_per_iteration = cfg.num_envs * cfg.rollout_steps
    agent.check_rollout_size(cfg.num_envs, cfg.rollout_steps)
    curriculum = build(cfg.curriculum, from_checkpoint=foreign)(
        env=env,
        agent=agent,
        measure=partial(_examined, cfg, agent),
    )
    make_collector = build(cfg.collector)
    allow_lag(cfg, agent, make_collector)
    saved = start.saved  # before the run is opened: what does not fit changes nothing there
    if saved is not None:
        load_agent(agent, saved, start.origin)
    if saved is not None and not start.keeps_episodes:
        curriculum.load_state_dict(saved["curriculum"])
        env.set_seed(cfg.seed)  # the collector begins episodes of the curriculum's stage
    collector = make_collector(
        env=env,
        policy=agent.policy,
        rollout_steps=cfg.rollout_steps,
        total_frames=(start.total - start.done) * frames_per_iteration,
    )
    if saved is not None and start.keeps_episodes:
        with naming_changes(cfg):
            env.load_runtime_state(saved["env"])
        curriculum.load_state_dict(saved["curriculum"])
        collector.load_runtime_state(saved["collector"])
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
        total=start.total,
        headline={
            **learners.env.headline,
            **learners.agent.headline,
            **learners.curriculum.headline,
        },
        words=learners.curriculum.words,
        console=cfg.console,
        mirrors=[build(cfg.logger)],
    )


def _timed(collector: Any, monitor: Monitor, profiler: Any) -> Iterator[TensorDictBase]:
    """The collector's rollouts, with the time they took under time/collect."""
    rollouts = iter(collector)
    while True:
        with monitor.section("collect"):
            rollout = next(rollouts, None)
        if rollout is None:
            return
        yield rollout
        profiler.step()


def _score(cfg: DictConfig, env: Any, metrics: dict[str, float]) -> float | None:
    """What `best` goes by within a stage: the evaluation if the loop makes any, else training's episodes."""
    source = "eval" if cfg.eval_every and not cfg.eval_async else "episode"
    return metrics.get(f"{source}/{env.objective}")


def main() -> None:
    """Entry of `python -m navrl.train` and `navrl train`."""
    run_main(train, "train")


if __name__ == "__main__":
    main()
