"""What the train command tells its user before, after and when interrupted."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from navrl.envs.core.compiling import Compilation
from navrl.run.directory import has_finished


def banner(cfg: Any, learners: Any, run: Path, num_iterations: int) -> str:
    """What is about to run, on what, and where to."""
    frames = cfg.num_envs * cfg.rollout_steps
    compiling = "" if str(cfg.compile) in ("off", "False") else "; the first iteration compiles"
    lessons = f"{learners.curriculum.summary}\n" if learners.curriculum.summary else ""
    return (
        f"{cfg.env.name} with {cfg.agent.name}: {cfg.num_envs} envs x {cfg.rollout_steps} steps = "
        f"{frames} frames an iteration, {num_iterations} iteration{'s' * (num_iterations > 1)}\n"
        f"device {learners.env.device}, threads {torch.get_num_threads()}, "
        f"{learners.agent.precision}, "
        f"compile={cfg.compile}{compiling}\n"
        f"{lessons}{_horizon(cfg)}writing to {_short(run)}"
    )


def first_iteration(age_s: float, compilations: Sequence[Compilation]) -> str:
    """How long it took to get here, and which part of it was compiling."""
    took: dict[str, float] = {}
    for each in compilations:
        took[each.name] = took.get(each.name, 0.0) + each.seconds
    parts = " and ".join(f"{name} in {seconds:.1f} s" for name, seconds in took.items())
    kept = all(each.cached for each in compilations)
    where = "kept by an earlier run" if kept else "now kept for later runs"
    return f"first iteration done after {age_s:.0f} s; compiled {parts}, {where}"


def going_on(start: Any, changed: str) -> str:
    """What was restored, what was not, and the options that are other ones now."""
    options = f"\nchanged against the saved run: {changed}" if changed else ""
    place = f"going on from {_short(Path(start.origin))}, iteration {start.done}, frame {start.frames:,}"
    if start.keeps_episodes:
        return f"{place}: everything is restored{options}"
    then, now = start.saved["config"]["num_envs"], start.cfg.num_envs
    return (
        f"{place}: weights, optimiser, counters, curriculum and random numbers are restored; the episodes "
        f"under way are not (num_envs was {then}, is {now}): every env begins a new one{options}"
    )


def _horizon(cfg: Any) -> str:
    """How far ahead the discount looks, where a decision is not as long as it is meant for."""
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


def next_commands(run: Path, frames: int) -> str:
    """Commands to copy: measure it, train it for as many frames again."""
    place = shlex.quote(_short(run))
    if not _has_saved(run):
        return "nothing was saved, because of checkpoint=none"
    return (
        "next:\n"
        f"  {_python()} -m navrl.evaluate checkpoint={place}\n"
        f"  {_python()} -m navrl.train resume={place} total_frames={2 * frames}"
    )


def interrupted(run: Path, *, complete: bool) -> str:
    """How to go on from what the interruption left."""
    place = shlex.quote(_short(run))
    if not _has_saved(run):
        return "stopped; nothing was saved, because of checkpoint=none"
    if complete:
        return f"training was complete. To measure it:  {_python()} -m navrl.evaluate checkpoint={place}"
    return f"saved. To go on:  {_python()} -m navrl.train resume={place}"


def unmeasured(run: Path) -> str:
    """A line for a complete run that was stopped or killed in its final evaluation, else nothing."""
    return "" if has_finished(run) else f"{interrupted(run, complete=True)}\n"


def _has_saved(run: Path) -> bool:
    return any(run.glob("checkpoints/*.ckpt"))


def _short(path: Path) -> str:
    """Relative to the working directory where that is shorter to read."""
    absolute = path.absolute()
    inside = absolute.is_relative_to(Path.cwd())
    return str(absolute.relative_to(Path.cwd()) if inside else absolute)


def _python() -> str:
    """This interpreter as the user would type it here."""
    if shutil.which("python") == sys.executable:  # its environment is active
        return "python"
    return shlex.quote(_short(Path(sys.executable)))
