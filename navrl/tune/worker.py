"""A worker: it takes one trial after another until the search has as many as it is to have."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from navrl.config.checks import ConfigError, printable
from navrl.loggers.format import duration
from navrl.tune.plan import REPORTS, Plan
from navrl.tune.search import Found, Search, Trial, alive
from navrl.tune.space import words
from navrl.tune.training import Progress, TrainingFailed, final_score, read_progress, train

_WAITING_S = 1.0  # between two looks for a trial that another worker has lost


def work(plan: Plan, search: Search) -> None:
    """Take trials until all have ended; a signal gives the present one to the next worker."""
    clock = _Clock(search)
    while search.ended() < plan.options.trials:
        trial = search.next()
        if trial is None:
            time.sleep(_WAITING_S)
            continue
        try:
            _Run(plan, search, trial).through()
        except KeyboardInterrupt:
            search.give_again(trial)
            raise
        finally:
            trial.lock.release()
        clock.show(plan, trial.number)


class _Run:
    """The trainings of a trial, one after another."""

    def __init__(self, plan: Plan, search: Search, trial: Trial) -> None:
        self._plan, self._search, self._trial = plan, search, trial
        self._done: list[Progress] = []  # of the trainings before
        self._scores: list[float] = []
        self._reported = 0

    def through(self) -> None:
        """Train with every seed, and record the end of the trial."""
        try:
            for seed in self._plan.seeds:
                if not self._with_seed(seed):
                    return self._end("pruned")
        except TrainingFailed as failure:
            self._end("failed", str(failure))
            if not any(each.state == "complete" for each in self._search.found()):
                raise ConfigError(
                    f"trial {self._trial.number} failed, and none has succeeded yet: {failure}"
                ) from failure
            return None
        return self._end("complete")

    def _with_seed(self, seed: int) -> bool:
        """Train with one seed; return false if the trial is to end."""
        plan, folder = self._plan, self._trial.folder / f"seed-{seed}"
        if not train(
            plan, [*words(self._trial.params), f"seed={seed}"], folder, self._watched(folder)
        ):
            self._done.append(read_progress(plan, folder))
            return False
        progress = read_progress(plan, folder)
        pruned = self._report(progress)
        self._done.append(progress)
        score = final_score(plan, folder)
        if not math.isfinite(score):
            raise TrainingFailed(
                f"{plan.objective} is unknown in the end; expected an episode or more"
            )
        self._scores.append(score)
        # What came to its end is paid for; only trainings that would follow are saved.
        return not pruned or len(self._scores) == len(plan.seeds)

    def _watched(self, folder: Path) -> Callable[[], bool]:
        """Return the function that reports new values of a training and says whether it is to end."""
        size = -1

        def watch() -> bool:
            nonlocal size
            alive(self._trial)
            log = folder / "metrics.jsonl"
            now = log.stat().st_size if log.exists() else 0
            if now == size:
                return False
            size = now
            return self._report(read_progress(self._plan, folder))

        return watch

    def _report(self, progress: Progress) -> bool:
        """Report new values, averaged over the seeds so far; return whether the trial is to end."""
        for tenth, value in progress.values.items():
            step = REPORTS * len(self._done) + tenth
            if step <= self._reported:
                continue
            self._reported = step
            before = [each.values[tenth] for each in self._done if tenth in each.values]
            if self._search.reported(self._trial, step, fmean([*before, value])):
                return True
        return False

    def _end(self, state: str, fault: str = "") -> None:
        self._search.end(
            self._trial,
            state,
            scores=self._scores,
            cpu_s=sum(each.cpu_s for each in self._done),
            frames=sum(each.frames for each in self._done),
            fault=fault,
        )


class _Clock:
    """The time that is left, from the trials that have ended since this worker began."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._since, self._before = time.monotonic(), search.ended()

    def show(self, plan: Plan, number: int) -> None:
        """Print a line about a trial that has ended."""
        found = self._search.found()
        trial = next(each for each in found if each.number == number)
        over = [each for each in found if each.state in ("complete", "pruned", "failed")]
        left = max(plan.options.trials - len(over), 0)
        each_s = (time.monotonic() - self._since) / max(len(over) - self._before, 1)
        eta = f" | eta {duration(each_s * left)}" if left else ""
        place = f"{len(over)}/{plan.options.trials} | trial {number}"
        options = " ".join(words(trial.params))
        line = f"{place} {outcome(plan, trial)}{_best(plan, found)}{eta} | {options}"
        sys.stdout.write(f"{printable(line)}\n")
        sys.stdout.flush()


def outcome(plan: Plan, trial: Found) -> str:
    """Return what became of a trial in a few words."""
    if trial.state == "complete":
        cost = f" in {trial.cpu_s:.3g} CPU s" if plan.options.cost else ""
        return f"{plan.objective} {trial.score:.3f}{cost}"
    if trial.state == "pruned":
        share = trial.frames / (plan.total_frames * len(plan.seeds))
        return f"pruned after {share:.0%} at {plan.objective} {trial.score:.3f}"
    return f"failed: {trial.fault}"


def _best(plan: Plan, found: list[Found]) -> str:
    complete = [each for each in found if each.state == "complete"]
    if not complete:
        return ""
    best = max(complete, key=lambda each: each.score)
    return f" | best {best.score:.3f} of trial {best.number}"
