"""A worker of a population: it trains one member after another until the last generation has ended."""

from __future__ import annotations

import math
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from navrl.config.checks import printable
from navrl.config.compose import compose, dotted_items, to_json
from navrl.config.quoting import override
from navrl.loggers.format import duration
from navrl.run.status import has_finished, read_status
from navrl.tune.evolution import WEIGHTS, Member
from navrl.tune.plan import Plan
from navrl.tune.population import Population, Turn, frames_until
from navrl.tune.space import constant_rates, words
from navrl.tune.training import TrainingFailed, final_score, train_on

_WAITING_S = 0.5  # between two looks for a member, while others end a generation


def work_on(plan: Plan, population: Population) -> None:
    """Train members until all generations have ended; a signal gives the present one to the next worker."""
    trainer = Trainer(plan)
    clock = _Clock(plan, population)
    while not population.over():
        turn = population.next()
        if turn is None:
            time.sleep(_WAITING_S)
            continue
        try:
            score, fault = trainer.train(turn)
            population.end(turn, score, fault)
        except KeyboardInterrupt:
            population.give_again(turn)
            raise
        finally:
            turn.lock.release()
        clock.show(turn, score, fault)


class Trainer:
    """The trainings of members, each a process in the folder of its run."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def train(self, turn: Turn) -> tuple[float | None, str]:
        """Train a member to the end of the generation; return its score, if known, and what went wrong."""
        plan, member = self._plan, turn.member
        folder = plan.folder / member.run
        frames = frames_until(plan, member, turn.generation)
        try:
            if not _is_there(folder, frames):
                source = plan.folder / member.source if member.source else None
                given = None if member.how == WEIGHTS else source
                train_on(plan, self.words(member, frames), folder, lambda: False, given)
        except TrainingFailed as failure:
            return None, str(failure)
        score = final_score(plan, folder)
        return (score if math.isfinite(score) else None), ""

    def words(self, member: Member, frames: int) -> list[str]:
        """Return the options of navrl train for a member."""
        plan = self._plan
        rates = constant_rates(self._known, plan.options.overrides, member.params)
        first = [override("init", plan.folder / member.source)] if member.how == WEIGHTS else []
        own = [f"seed={member.seed}", f"total_frames={frames}"]
        return [*words({**rates, **member.params}), *first, *own]

    @cached_property
    def _known(self) -> dict[str, Any]:
        return dict(dotted_items(to_json(compose("train", self._plan.options.overrides))))


def _is_there(folder: Path, frames: int) -> bool:
    """Return whether the run has finished with so many frames: its worker was killed after that."""
    return has_finished(folder) and int(read_status(folder).get("frames", 0)) >= frames


class _Clock:
    """The time that is left, from the trainings that have ended since this worker began."""

    def __init__(self, plan: Plan, population: Population) -> None:
        self._plan, self._population = plan, population
        self._since, self._before = time.monotonic(), population.trained()

    def show(self, turn: Turn, score: float | None, fault: str) -> None:
        """Print a line about a member that has ended a generation."""
        plan, number = self._plan, turn.member.number
        trained = self._population.trained()
        left = plan.generations * plan.options.population - trained
        each_s = (time.monotonic() - self._since) / max(trained - self._before, 1)
        eta = f" | eta {duration(each_s * left)}" if left else ""
        result = f"failed: {fault}" if fault else f"{plan.objective} {shown(score)}"
        mine = turn.member
        origin = f" ({mine.how} from {mine.parent})" if mine.parent != number else ""
        members = self._population.generations()[turn.generation - 1]
        known = [each for each in members if each.score is not None]
        best = max(known, key=lambda each: each.score or 0.0, default=None)
        tail = "" if best is None else f" | best {shown(best.score)} of member {best.number}"
        place = f"generation {turn.generation}/{plan.generations} | member {number}{origin}"
        sys.stdout.write(f"{printable(f'{place} {result}{tail}{eta}')}\n")
        sys.stdout.flush()


def shown(score: float | None) -> str:
    """Return a score as text."""
    return "-" if score is None else f"{score:.3f}"
