"""The study of a search in Optuna: which trial is next, which are lost, what was found."""

from __future__ import annotations

import contextlib
import math
import socket
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import TPESampler
from optuna.storages import BaseStorage, JournalStorage, get_storage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from navrl.config.checks import ConfigError, printable
from navrl.config.signals import held
from navrl.run.lock import RunDirectoryError, RunLock
from navrl.tune.plan import Plan, keep
from navrl.tune.space import Choices, Dimension, Scalar

JOURNAL = "journal.log"
_MOST_TIMES = 20  # that a trial is given again; then it is what kills its workers
_SILENT_S = 300.0  # of a worker on another host, whose lock may not be seen here
_LONGEST_REASON = 300  # characters
_SAME_SHARE = 1e-6  # Optuna's answer where nothing tells good trials from others
_ALIVE = ".worker"  # touched by the worker of a trial
_PLACE, _HOST, _AGAIN_OF, _TIMES = "folder", "host", "again_of", "times"
_FAULT, _SCORES, _CPU_S, _FRAMES = "fault", "scores", "cpu_s", "frames"
_ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class Trial(NamedTuple):
    """A trial that this worker has; nobody else gets it while the worker lives."""

    number: int
    params: dict[str, Scalar]
    folder: Path
    inner: optuna.trial.Trial
    lock: RunLock


class Found(NamedTuple):
    """A trial as the report shows it."""

    number: int
    state: str  # complete, pruned, failed, running or waiting
    params: dict[str, Scalar]
    score: float  # of a pruned one the last value that it reported
    scores: tuple[float, ...]  # of its trainings
    cpu_s: float
    frames: int
    values: dict[int, float]  # reported, by step
    folder: str
    fault: str


class Search:
    """A study that several workers share."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore", ExperimentalWarning)
        self._distributions = {
            key: _distribution(each) for key, each in plan.space.dimensions.items()
        }
        with plan.turn(), _plain_errors(plan):
            self._study = optuna.create_study(
                study_name=plan.name,
                storage=_storage(plan),
                sampler=TPESampler(
                    multivariate=True, constant_liar=True, n_startup_trials=plan.options.trials // 4
                ),
                pruner=_pruner(plan),
                directions=["maximize", "minimize"] if plan.options.cost else ["maximize"],
                load_if_exists=True,
            )
            if not self._study.get_trials(deepcopy=False):
                self._study.enqueue_trial(dict(plan.space.defaults))
            keep(plan)

    def ended(self) -> int:
        """Return how many trials are over, without those that were given again."""
        return len(self._over(self._trials()))

    def next(self) -> Trial | None:
        """Return the next trial, a lost one first; None while others have all that are left."""
        with self.plan.turn(), _plain_errors(self.plan):
            self._give_lost_again()
            trials = self._trials()
            running = [each for each in trials if each.state is TrialState.RUNNING]
            if len(self._over(trials)) + len(running) >= self.plan.options.trials:
                return None
            inner = self._study.ask(self._distributions)
            folder = Path(inner.user_attrs.get(_PLACE, self.plan.trial_folder(inner.number)))
            lock = RunLock(folder)
            inner.set_user_attr(_PLACE, str(folder))
            inner.set_user_attr(_HOST, socket.gethostname())
            trial = Trial(inner.number, dict(inner.params), folder, inner, lock)
            alive(trial)
            return trial

    def reported(self, trial: Trial, step: int, value: float) -> bool:
        """Report a value of a running trial; return whether it is to end."""
        if self.plan.options.cost:  # Optuna has no values in between with two goals
            return False
        trial.inner.report(value, step)
        return trial.inner.should_prune()

    def end(
        self,
        trial: Trial,
        state: str,
        *,
        scores: list[float],
        cpu_s: float,
        frames: int,
        fault: str = "",
    ) -> None:
        """Record the end of a trial: complete, pruned or failed."""
        for key, value in ((_SCORES, scores), (_CPU_S, cpu_s), (_FRAMES, frames), (_FAULT, fault)):
            trial.inner.set_user_attr(key, value)
        mean = sum(scores) / len(scores) if scores else math.nan
        values = [mean, cpu_s] if self.plan.options.cost else [mean]
        complete = state == "complete"
        outcome = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}.get(
            state, TrialState.FAIL
        )
        self._study.tell(trial.inner, values if complete else None, outcome)

    def give_again(self, trial: Trial) -> None:
        """Give a trial that has to stop to the next worker, who goes on in its folder."""
        with held(), self.plan.turn():
            self._enqueue_again(self._trials()[trial.number])

    def found(self) -> list[Found]:
        """Return every trial but those that were given again."""
        trials = self._trials()
        given = _given_again(trials)
        return [_found(each) for each in trials if each.number not in given]

    def front(self) -> list[int]:
        """Return the numbers of the best trials; with --cost those that no other beats in both goals."""
        complete = [each for each in self._trials() if each.state is TrialState.COMPLETE]
        return [each.number for each in self._study.best_trials] if complete else []

    def importance(self) -> dict[str, float]:
        """Return the share of every option in what makes a trial good; empty with too few trials."""
        complete = [each for each in self._trials() if each.state is TrialState.COMPLETE]
        if len(complete) < 4:
            return {}
        target = (lambda trial: trial.values[0]) if self.plan.options.cost else None
        with warnings.catch_warnings(), contextlib.suppress(ValueError, RuntimeError):
            warnings.simplefilter("ignore")
            shares = optuna.importance.get_param_importances(self._study, target=target)
            values = shares.values()
            if all(map(math.isfinite, values)) and max(values) - min(values) > _SAME_SHARE:
                return shares
        return {}

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _over(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        given = _given_again(trials)
        return [each for each in trials if each.state in _ENDED and each.number not in given]

    def _give_lost_again(self) -> None:
        for each in self._trials():
            if each.state is TrialState.RUNNING and self._is_lost(each):
                self._enqueue_again(each)

    def _is_lost(self, trial: FrozenTrial) -> bool:
        """Return whether the worker of a running trial has ended: the system gave its lock back."""
        folder = Path(trial.user_attrs.get(_PLACE, self.plan.trial_folder(trial.number)))
        if trial.user_attrs.get(_HOST, socket.gethostname()) != socket.gethostname():
            with contextlib.suppress(OSError):
                return time.time() - (folder / _ALIVE).stat().st_mtime > _SILENT_S
            return False
        try:
            RunLock(folder).release()
        except RunDirectoryError:
            return False
        return True

    def _enqueue_again(self, trial: FrozenTrial) -> None:
        """Enqueue the options of a trial once more, then end it; a kill in between repeats only the end."""
        if trial.state is not TrialState.RUNNING:
            return
        times = int(trial.user_attrs.get(_TIMES, 0)) + 1
        if trial.number not in _given_again(self._trials()) and times <= _MOST_TIMES:
            folder = trial.user_attrs.get(_PLACE, str(self.plan.trial_folder(trial.number)))
            # A trial may be lost while it was drawn, even one that was given again before.
            params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
            attributes = {_PLACE: folder, _AGAIN_OF: trial.number, _TIMES: times}
            self._study.enqueue_trial(params, user_attrs=attributes)
        self._study.tell(trial.number, state=TrialState.FAIL)


def alive(trial: Trial) -> None:
    """Show workers on other hosts that this one works."""
    path = trial.folder / _ALIVE
    with contextlib.suppress(OSError):
        path.touch()


def _given_again(trials: list[FrozenTrial]) -> set[int]:
    return {each.user_attrs[_AGAIN_OF] for each in trials if _AGAIN_OF in each.user_attrs}


def _found(trial: FrozenTrial) -> Found:
    attributes = trial.user_attrs
    values = trial.intermediate_values
    failed = trial.state is TrialState.FAIL
    score = trial.values[0] if trial.values else math.nan
    if trial.state is TrialState.PRUNED and values:
        score = values[max(values)]
    return Found(
        number=trial.number,
        state="failed" if failed else trial.state.name.lower(),
        params=dict(trial.params),
        score=score,
        scores=tuple(attributes.get(_SCORES, ())),
        cpu_s=float(attributes.get(_CPU_S, math.nan)),
        frames=int(attributes.get(_FRAMES, 0)),
        values=dict(values),
        folder=str(attributes.get(_PLACE, "")),
        fault=str(attributes.get(_FAULT, "its workers were killed" if failed else "")),
    )


def _distribution(dimension: Dimension) -> BaseDistribution:
    if isinstance(dimension, Choices):
        return CategoricalDistribution(dimension.values)
    low, high, log, step = dimension
    if dimension.whole:
        return IntDistribution(int(low), int(high), log=log, step=int(step or 1))
    return FloatDistribution(float(low), float(high), log=log, step=step)


def _pruner(plan: Plan) -> BasePruner:
    if plan.options.pruner == "median":
        return MedianPruner(n_startup_trials=4)  # which are the scale
    if plan.options.pruner == "hyperband":
        return HyperbandPruner(min_resource=1, max_resource=plan.steps, reduction_factor=3)
    return NopPruner()


def _storage(plan: Plan) -> BaseStorage:
    url = plan.options.storage
    if url is None:
        return JournalStorage(JournalFileBackend(str(plan.folder / JOURNAL)))
    return get_storage(url)


@contextlib.contextmanager
def _plain_errors(plan: Plan) -> Iterator[None]:
    """Turn what a storage says into one sentence."""
    try:
        yield
    except Exception as error:
        from_library = type(error).__module__.partition(".")[0] in ("optuna", "sqlalchemy")
        if not from_library and not isinstance(error, ImportError):
            raise
        where = printable(plan.storage_shown or plan.folder / JOURNAL)
        reason = printable(" ".join(str(error).split()))[:_LONGEST_REASON]
        raise ConfigError(
            f"the storage {where} does not work ({reason}); expected a URL of Optuna such as "
            "sqlite:///study.db, and its driver; change --storage"
        ) from error
