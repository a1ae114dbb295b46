"""Messages of the train command: before the loop, after it, and when interrupted."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from omegaconf import DictConfig

from navrl.config.checks import printable
from navrl.config.compile_cache import is_kept
from navrl.config.quoting import override, shell_line, shown_path
from navrl.envs.core.compiling import EAGER_ITERATIONS, Compilation
from navrl.ranks import cores, world
from navrl.run.stored_files import NO_FILES, Repeated

if TYPE_CHECKING:  # they import this module
    from navrl.run.build import Parts
    from navrl.run.plan import Plan


def banner(cfg: DictConfig, parts: Parts, run: Path, num_iterations: int, done: int = 0) -> str:
    """Return the first lines of a run: sizes, device, curriculum, folder."""
    frames = cfg.num_envs * cfg.rollout_steps
    compiling = "" if str(cfg.compile) in ("off", "False") else _compiling(done, num_iterations)
    lessons = f"{parts.curriculum.summary}\n" if parts.curriculum.summary else ""
    return (
        f"{cfg.env.name} with {cfg.agent.name}: {cfg.num_envs} envs x {cfg.rollout_steps} steps = "
        f"{frames} frames an iteration, {num_iterations} iteration{'s' * (num_iterations > 1)}\n"
        f"{_processes()}device {parts.env.device}, threads {torch.get_num_threads()}, "
        f"{parts.agent.precision}, "
        f"compile={cfg.compile}{compiling}\n"
        f"{lessons}{_horizon(cfg)}writing to {shown_path(run)}"
    )


def _compiling(done: int, num_iterations: int) -> str:
    """Return which iteration compiles."""
    iteration = max(done, EAGER_ITERATIONS) + 1
    if iteration > num_iterations:
        return ""
    name = "the first iteration" if iteration == done + 1 else f"iteration {iteration}"
    return f"; {name} compiles"


def _processes() -> str:
    """Return by how many processes the run is trained, if by several, and whether they share cores."""
    _, size = world()
    if size == 1:
        return ""
    here = _ranks_here()
    crowded = not torch.cuda.is_available() and here > cores()
    return f"{size} ranks{f' ({here} share {cores()} cores)' if crowded else ''}, "


def _ranks_here() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", world()[1]))


def one_core(idle: int) -> str:
    """Return why a training uses one core of several that are idle."""
    return (
        f"one of {idle} idle cores trains, the same run on every machine; ranks={idle} trains by {idle}, "
        "with as many shards, which is another run: docs/ranks.md"
    )


def compiled(seconds: float | None, compilations: Sequence[Compilation]) -> str:
    """Return the seconds of the first iteration, None after another one, and those of compiling in it."""
    done = "" if seconds is None else f"first iteration done after {seconds:.0f} s"
    if not compilations:
        return done
    durations: dict[str, float] = {}
    for compilation in compilations:
        durations[compilation.name] = durations.get(compilation.name, 0.0) + compilation.seconds
    parts = " and ".join(f"{name} in {duration:.1f} s" for name, duration in durations.items())
    cached = all(compilation.cached for compilation in compilations)
    now = "now kept for later runs" if is_kept() else "not kept for later runs"
    where = "kept by an earlier run" if cached else now
    return f"{done}{'; ' * bool(done)}compiled {parts}, {where}"


def other_arithmetic(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Return what computes otherwise than before the resume, in one sentence, or nothing."""
    changed = [
        f"{name} was {printable(before[name])}, is {value}"
        for name, value in now.items()
        if name in before and before[name] != value
    ]
    if not changed:
        return ""
    return f"not bit for bit as the saved run would have continued: {'; '.join(changed)}"


def going_on(plan: Plan, changed: str) -> str:
    """Return what was restored, what was not, and which options differ from the saved ones."""
    options = f"\nchanged against the saved run: {changed}" if changed else ""
    place = f"going on from {shown_path(Path(plan.origin))}, iteration {plan.done}, frame {plan.frames:,}"
    if plan.keeps_episodes or plan.saved is None:
        return f"{place}: everything is restored{options}"
    then, now = plan.saved["config"]["num_envs"], plan.cfg.num_envs
    why = f"num_envs was {then}, is {now}" if then != now else "this world cannot save them"
    return (
        f"{place}: weights, optimiser, counters, curriculum and random numbers are restored; the episodes "
        f"under way are not ({why}): every env begins a new one{options}"
    )


def _horizon(cfg: DictConfig) -> str:
    """Return how far ahead the discount looks, if env.sim.time_scale stretches a decision."""
    scale = float(cfg.env.get("sim", {}).get("time_scale", 1.0))
    discount = cfg.agent.discount
    if scale == 1.0 or not 0.0 < discount < 1.0:
        return ""
    step_s = cfg.env.sim.decision_s * scale
    ahead_s = -step_s / math.log(discount)
    return (
        f"a decision lasts {step_s:g} s: agent.discount={discount:g} looks {ahead_s:.0f} s ahead, "
        f"{discount**scale:.4g} would look {ahead_s / scale:.0f} s as at env.sim.time_scale=1\n"
    )


def next_commands(run: Path, further: str, files: Repeated = NO_FILES) -> str:
    """Return commands to copy: evaluate the run, train it further with this option."""
    if not _has_saved(run):
        return "nothing was saved, because of checkpoint=none"
    return f"next:\n  {_evaluate(run, files)}\n  {resume_command(run, files)} {further}"


def interrupted(run: Path, files: Repeated = NO_FILES, *, complete: bool) -> str:
    """Return the command that continues an interrupted run."""
    if not _has_saved(run):
        return "stopped; nothing was saved, because of checkpoint=none"
    if complete:
        return f"training was complete. To measure it:  {_evaluate(run, files)}"
    return f"saved. To go on:  {resume_command(run, files)}"


def not_finite(run: Path, number: int, saved_frames: int | None, files: Repeated = NO_FILES) -> str:
    """Return why the last iterations of a training are not saved."""
    last = f"the last {number} iterations" if number > 1 else "the last iteration"
    then = "nothing is saved; lower the learning rates, or look for rewards that are not finite"
    if saved_frames:
        again = shell_line([override("resume", shown_path(run)), *files.train])
        then = (
            f"the last checkpoint is of frame {saved_frames:,}; lower the learning rates and go on with "
            f"{again}"
        )
    return f"gradients were not finite in {last}, not saved for that reason; {then}"


def saved_files(run: Path) -> str:
    """Return the command that lists the checkpoints of a run."""
    return _command("cli", "checkpoint", "ls", shown_path(run))


def _has_saved(run: Path) -> bool:
    return any(run.glob("checkpoints/*.ckpt"))


def _evaluate(run: Path, files: Repeated) -> str:
    return _command("evaluate", override("checkpoint", shown_path(run)), *files.evaluate)


def resume_command(run: Path, files: Repeated = NO_FILES) -> str:
    """Return the command that goes on with the run, by as many processes as now if all are here."""
    _, size = world()
    ranks = [f"ranks={size}"] if size == _ranks_here() > 1 else []
    return _command("train", override("resume", shown_path(run)), *ranks, *files.train)


def _command(module: str, *words: str) -> str:
    """Return the command as a line that can be copied into a shell here."""
    # Its environment is active if python is this interpreter.
    active = shutil.which("python") == sys.executable
    python = "python" if active else shown_path(Path(sys.executable))
    return shell_line([python, "-m", f"navrl.{module}", *words])
