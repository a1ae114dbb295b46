"""The state of a run: its records on the disk, the checkpoint of an iteration and the way back from one."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import OmegaConf

from navrl.agents.core.guards import TrainingDivergedError
from navrl.collectors.gathered import whole_state
from navrl.config.compose import build, to_json
from navrl.config.resumed import changes
from navrl.config.stored import LOCAL
from navrl.contracts import Agent, RolloutWriter, Saver, State
from navrl.envs.core.compiling import EAGER_ITERATIONS, compilations
from navrl.loggers.composite import Loggers
from navrl.loggers.jsonl import read_iterations
from navrl.ranks import idle_cores
from navrl.ranks.watch import on_loss
from navrl.run import messages
from navrl.run.attachments import attachments
from navrl.run.build import Parts
from navrl.run.device import enough_memory
from navrl.run.directory import RunDirectory
from navrl.run.early_stop import NEVER
from navrl.run.environment import describe_arithmetic
from navrl.run.episodes import TrainingEpisodes
from navrl.run.evaluation import Evaluations, Result, evaluations_of
from navrl.run.plan import AUTO, Plan, first_overrides, root_of
from navrl.run.progress import Monitor
from navrl.run.random_state import rng_state, set_rng_state
from navrl.run.requests import EVALUATE, SAVE, STOP, take_requests
from navrl.run.signals import Interrupt
from navrl.run.stored_files import NO_FILES, Repeated
from navrl.run.timers import NoProfiler, TraceProfiler, profiler_for
from navrl.storage.rollouts import NullRollouts
from navrl.storage.saver import NullSaver, SaveFailed
from navrl.storage.schema import loading

_NOT_IN_NAME = (*LOCAL, "env", "agent", "console", "device", "threads", "restarts", "resume")


class Records(NamedTuple):
    """The parts that remember: files of the run, loggers, and evaluations under way."""

    run: RunDirectory
    saver: Saver
    loggers: Loggers
    rollouts: RolloutWriter
    evaluations: Evaluations
    episodes: TrainingEpisodes
    files: Repeated = NO_FILES  # which commands that go on with the run have to name

    def note(self, text: str) -> None:
        """Print a sentence for the user without tearing a live table."""
        self.loggers.note(text)

    def monitor(self, plan: Plan, device: torch.device) -> Monitor:
        """Return the clock of the training loop."""
        return Monitor(
            device=device,
            total_frames=plan.total_frames,
            start_frames=self.run.frames,
            unsettled=plan.unsettled,
        )

    def profiler(self, plan: Plan, device: torch.device) -> TraceProfiler | NoProfiler:
        """Return the profiler that profile=... asks for."""
        folder = self.run.path / "profile"
        return profiler_for(plan.cfg.profile, folder, device, self.note, plan.unsettled)

    def note_compiling(self, plan: Plan, iteration: int) -> None:
        """Print how long the first iteration took, what this one compiled, and what the first one changed."""
        first = iteration == plan.done + 1
        now = [each for each in compilations if each.iteration == iteration]
        if plan.compiles and (first or now):
            seconds = time.monotonic() - plan.started
            self.note(messages.compiled(seconds if first else None, now))
        before = (plan.saved or {}).get("arithmetic", {})
        changed = messages.other_arithmetic(before, _arithmetic(iteration))
        if first and changed:
            self.note(changed)

    def evaluation_requested(self, interrupt: Interrupt) -> bool:
        """Take the requests of other processes: return that to evaluate, pass the others to the interrupt."""
        names = take_requests(self.run.path)
        for name in sorted(names):
            self.note(f"{name} requested")
        if STOP in names:
            interrupt.stop("stopped by request")
        interrupt.save_requested |= SAVE in names
        return EVALUATE in names

    def save(
        self,
        plan: Plan,
        parts: Parts,
        iteration: int,
        *,
        score: float | None,
        stage: int,
        last: bool,
    ) -> None:
        """Save everything that a fresh process needs to continue bit for bit."""
        self.write(self._state(plan, parts, iteration), score=score, stage=stage, last=last)

    def log_late(self, results: Iterator[Result], interrupt: Interrupt) -> None:
        """Log results of earlier iterations until a signal arrives."""
        while (result := interrupt.attempt(next, results, None)) is not None:
            self.loggers.late(*result)

    def require_saved(self, agent: Agent, interrupt: Interrupt) -> None:
        """Raise if the training ends with iterations that are not saved, because they skipped updates."""
        number = agent.skipped_in_a_row
        if not number:
            return
        reason = messages.not_finite(self.run.path, number, self.saver.saved_frames, self.files)
        if not interrupt.requested:
            raise TrainingDivergedError(reason)
        self.run.settle("failed", reason)
        self.note(reason)
        raise SystemExit(128 + interrupt.number)

    def last_iteration(self) -> dict[str, float]:
        """Return what the last iteration has logged, for a run that has none left."""
        rows = read_iterations(self.run.path / "metrics.jsonl")
        (last,) = rows[-1:] or [{"iteration": math.nan}]
        return {n: number for n, number in last.items() if n != "frames"} | self.episodes.latest

    def attach_files(self) -> None:
        """Give checkpoints and a replay of the final policy to the loggers that want them."""
        for kind, path in attachments(self.run.path, self.loggers.wants, self.files, self.note):
            self.loggers.attach(kind, path, frames=self.run.frames)

    def end_interrupted(self, interrupt: Interrupt, *, complete: bool) -> None:
        """Set the status, and print the command that goes on with the run."""
        self.run.settle("interrupted", interrupt.reason)
        self.note(messages.interrupted(self.run.path, self.files, complete=complete))

    def end_finished(self, summary: Mapping[str, float], early: str) -> None:
        """Write the summary and the status, and print commands that use the run."""
        self.loggers.summary({**summary, **({"stopped_early": 1.0} if early else {})})
        for name in sorted(take_requests(self.run.path)):
            self.note(f"{name} requested too late: the last iteration was over")
        further = NEVER if early else f"total_frames={2 * self.run.frames}"
        self.note(messages.next_commands(self.run.path, further, self.files))
        self.run.settle("finished", early)

    def write(self, state: State, *, score: float | None, stage: int, last: bool) -> None:
        """Save the state; unless it is the last one, a full disk costs a checkpoint and not the run."""
        try:
            self.run.restore()
            # There is no hurry any more: the queue is empty, whatever checkpoint.when_full says.
            if last:
                self._wait_for_saves()
            self.saver.save(state, frames=state["frames"], score=score, stage=stage)
            if last:
                self.saver.flush()
        except OSError as error:
            if last or self.saver.on_error == "stop":
                raise SaveFailed(
                    f"training ends, and a checkpoint is missing: {error}; "
                    f"what is there: {messages.saved_files(self.run.path)}"
                ) from error
            self.note(f"not saved ({error}); the run goes on and tries again")
            return
        try:  # the frames that a crash would not lose, so without those that a thread still writes
            self.run.set_status("running", frames=self.saver.saved_frames)
        except OSError as error:
            self.note(f"status.json not written ({error}); the checkpoint is")

    def _state(self, plan: Plan, parts: Parts, iteration: int) -> State:
        return {
            "agent": parts.agent.state_dict(),
            "env": whole_state(parts.env.runtime_state(), plan.ranks),
            "collector": parts.collector.runtime_state(),
            "curriculum": parts.curriculum.state_dict(),
            "loggers": self.loggers.state_dict(),
            "evaluations": self.evaluations.state_dict(),
            "scores": self.evaluations.scores,
            "episodes": self.episodes.state_dict(),
            "rng": rng_state(),
            "iteration": iteration,
            "frames": self.run.frames,
            "config": {**to_json(plan.cfg), "resume": None},  # which is of one command
            "choices": plan.choices,
            "arithmetic": _arithmetic(iteration),
        }

    def _wait_for_saves(self) -> None:
        """Finish earlier saves; a failure of one does not matter once a later one succeeds."""
        try:
            self.saver.flush()
        except OSError as error:
            self.note(f"not saved ({error})")


class _SilentRecords(Records):
    """The records of a rank other than the first, which leaves none."""

    def evaluation_requested(self, interrupt: Interrupt) -> bool:
        """Return False: rank 0 takes the requests."""
        return False

    def save(self, plan: Plan, parts: Parts, iteration: int, **_: object) -> None:
        """Send the episodes of the own envs to rank 0, in the order in which it asks for them."""
        whole_state(parts.env.runtime_state(), plan.ranks)
        parts.collector.runtime_state()


class _Nothing:
    """A run directory and loggers that keep nothing."""

    def __init__(self, frames: int) -> None:
        self.path, self.frames = Path(), frames

    def note(self, text: str) -> None:
        """Print nothing: rank 0 does."""

    def late(self, metrics: Mapping[str, float], iteration: int, frames: int) -> None:
        """Record nothing."""

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Record nothing."""


def silent_records(plan: Plan, parts: Parts) -> Records:
    """Return records that write nothing, with the random numbers as the checkpoint left them."""
    if plan.saved is not None:
        rng = dict(plan.saved["rng"])  # of rank 0, which has drawn on its own GPU alone
        set_rng_state({**rng, "cuda": rng["cuda"][:1] * torch.cuda.device_count()})
    nothing: Any = _Nothing(plan.frames)
    kept = NullSaver(directory=nothing.path), nothing, NullRollouts(directory=nothing.path)
    return _SilentRecords(nothing, *kept, _NoEvaluations(plan.cfg), _episodes(plan, parts))


class _NoEvaluations(Evaluations):
    """Evaluations that rank 0 makes."""

    def due(self, iteration: int) -> bool:
        """Return False: rank 0 evaluates while the others wait for its next rollout."""
        return False


def _arithmetic(iteration: int) -> dict[str, str | int]:
    found = describe_arithmetic(compilation.name for compilation in compilations)
    if iteration <= EAGER_ITERATIONS:  # the others compile what they can
        del found["compiled"]
    return found


@contextlib.contextmanager
def open_records(plan: Plan, parts: Parts) -> Iterator[Records]:
    """Open the run directory and everything that writes into it, restored if the run continues."""
    cfg, episodes = plan.cfg, _episodes(plan, parts)
    continues = cfg.resume == AUTO or plan.saved is not None
    with (
        RunDirectory(
            plan.lock,
            config=OmegaConf.to_yaml(cfg),
            overrides=plan.overrides,
            device=str(parts.env.device),
            latest=plan.latest_link,
            resumed_from=plan.origin if continues else None,
        ) as run,
        enough_memory("num_envs", cfg.num_envs),
        _open_loggers(plan, parts, run) as loggers,
        evaluations_of(cfg) as evaluations,
        on_loss(partial(run.settle, "failed")),
    ):
        take_requests(run.path)  # what an earlier process left undone is of no use now
        saver = build(cfg.checkpoint)(directory=run.checkpoints)
        rollouts = build(cfg.rollouts)(directory=run.path / "rollouts")
        records = Records(run, saver, loggers, rollouts, evaluations, episodes, plan.repeated)
        loggers.note(messages.banner(cfg, parts, run.path, plan.total, plan.done))
        idle = idle_cores() if parts.env.device.type == "cpu" else 1
        if idle > 1 == plan.ranks.size and plan.saved is None:
            loggers.note(messages.one_core(idle))
        _restore(plan, records)
        yield records


def _episodes(plan: Plan, parts: Parts) -> TrainingEpisodes:
    """Return the statistics of training, which go on with the episodes under way if those continue."""
    episodes = TrainingEpisodes(parts.env)
    if plan.saved is not None and plan.keeps_episodes and "episodes" in plan.saved:
        with loading(plan.origin):
            episodes.load_state_dict(plan.saved["episodes"])
    return episodes


def _open_loggers(plan: Plan, parts: Parts, run: RunDirectory) -> Loggers:
    cfg, env, agent, curriculum = plan.cfg, parts.env, parts.agent, parts.curriculum
    return Loggers.open(
        directory=run.path,
        name=_name(plan, run),
        config=to_json(cfg),
        total=plan.total,
        headline={**env.headline, **agent.headline, **curriculum.headline},
        words=curriculum.words,
        console=cfg.console,
        mirrors=[build(cfg.logger)],
    )


def _name(plan: Plan, run: RunDirectory) -> str:
    """Return a name that tells the run from others: world, agent, typed options, the end of its folder."""
    words = [word for word in first_overrides(run.path) if root_of(word) not in _NOT_IN_NAME]
    ending = run.path.name.rpartition("-")[2]
    return " ".join([f"{plan.cfg.env.name}-{plan.cfg.agent.name}", *words, ending])


def _restore(plan: Plan, records: Records) -> None:
    """Restore the run's records and random numbers as the checkpoint left them."""
    saved = plan.saved
    if saved is not None:
        records.note(messages.going_on(plan, changes(saved["config"], to_json(plan.cfg))))
    if records.run.resumed:  # else this is a branch in a folder of its own, with its own records
        if saved is not None:
            records.loggers.load_state_dict(saved["loggers"])
        records.loggers.truncate_after(plan.frames)
    if saved is not None:
        records.evaluations.load_state_dict(saved.get("evaluations", []), saved.get("scores", []))
        set_rng_state(saved["rng"])  # last: building everything drew random numbers
    records.run.frames = plan.frames
