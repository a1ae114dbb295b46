"""Lessons one after another, each with a gate on fixed episodes; who forgets an old one goes back to it.

A lesson with a budget is left for good when that is spent, learned or not.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tensordict import TensorDictBase

from navrl.curriculum.checks import (
    check_class,
    check_frames,
    check_gate,
    check_groups,
    check_weights,
)
from navrl.curriculum.gate import Gate
from navrl.selfplay.league import SelfPlay

Measure = Callable[[Any], dict[str, float]]  # means over the held-out episodes of an env
Tell = Callable[[str], None]  # says a sentence to the user
STAGE = "curriculum/stage"  # the metric, counted from 1


class Lesson:
    """What is met, what it is worth, when it is learned, and how many frames it may take."""

    def __init__(
        self,
        *,
        scenarios: Mapping[str, float],
        opponents: Mapping[str, float],
        reward: Mapping[str, float],
        gate: Gate,
        examined: Mapping[str, float] | None,
        league: bool,
        at_most_frames: int | None,
    ) -> None:
        self.scenarios, self.opponents, self.reward = scenarios, opponents, reward
        self.gate, self.league, self.at_most_frames = gate, league, at_most_frames
        # Old lessons are mixed in while learning, but a gate asks for its own lesson alone.
        self.examined = opponents if examined is None else examined


class Lessons:
    """Sets the env's mixtures to the lesson of the day."""

    def __init__(
        self,
        *,
        lessons: Mapping[str, Lesson],
        check_every: int,
        self_play: SelfPlay,
        env: Any,
        measure: Measure,
        agent: Any,
    ) -> None:
        if check_every < 1 or not lessons:
            raise ValueError(
                f"curriculum.check_every = {check_every} with {len(lessons)} lessons; expected 1 or more of "
                "both; change curriculum"
            )
        self.names, self.lessons = list(lessons), list(lessons.values())
        self.check_every, self.stage, self.asked = check_every, 0, 0
        self.frames, self.spent = 0, [0] * len(lessons)  # of the run, and of each lesson
        self._env, self._measure = env, measure
        self._league = self_play
        self._league.attach(env, agent)
        for name, lesson in lessons.items():
            _check(f"curriculum.lessons.{name}", lesson, env)
        self._begin(0)

    @property
    def lesson(self) -> Lesson:
        """The lesson of the day."""
        return self.lessons[self.stage]

    @property
    def headline(self) -> dict[str, str]:
        """What the console shows of it."""
        return {"stage": STAGE}

    @property
    def words(self) -> dict[str, list[str]]:
        """What the numbers of a metric stand for, from 1 on."""
        return {STAGE: self.names}

    @property
    def summary(self) -> str:
        """The lessons, and how far the run has come."""
        return f"lessons {', '.join(self.names)}; now {self.stage + 1} {self.names[self.stage]}"

    def after(
        self, iteration: int, frames: int, rollout: TensorDictBase, tell: Tell
    ) -> dict[str, float]:
        """Metrics of the stage; now and then an examination, and what follows from it."""
        metrics: dict[str, float] = {}
        self.spent[self.stage] += frames - self.frames
        self.frames = frames
        if self.lesson.league:
            metrics |= self._league.after(frames, rollout)
        if iteration % self.check_every == 0:
            metrics |= self._examine(f"after {frames:,} frames", tell)
        if self._is_over(self.stage) and self.stage + 1 < len(self.lessons):
            today, following = self.names[self.stage : self.stage + 2]
            budget = f"its {self.lesson.at_most_frames:,} frames"
            tell(f"lesson {today!r} has had {budget} without being learned: next {following!r}")
            self._begin(self.stage + 1)
        return metrics | {STAGE: self.stage + 1.0}

    def _is_over(self, stage: int) -> bool:
        """Whether the budget of a lesson is spent."""
        budget = self.lessons[stage].at_most_frames
        return budget is not None and self.spent[stage] >= budget

    def _examine(self, when: str, tell: Tell) -> dict[str, float]:
        """Ask for today's lesson, and for an old one in turn; move on, stay, or go back."""
        seen, told = self._ask(self.lesson)
        metrics = {f"curriculum/{name}": value for name, value in seen.items()}
        today, passed, said = self.names[self.stage], self.lesson.gate.passed(seen), []
        if seen:
            verdict = "passed" if passed else "not passed"
            said.append(f"lesson {self.stage + 1} {today!r} {told}: {verdict}")
        forgotten = ""
        if self.stage > 0:
            self.asked = (self.asked + 1) % self.stage
            old, name = self.lessons[self.asked], self.names[self.asked]
            again, told = self._ask(old)
            metrics["curriculum/old_lesson"] = self.asked + 1.0
            metrics |= {f"curriculum/old_{key}": value for key, value in again.items()}
            slipped = old.gate.forgotten(again)
            if again:
                verdict = "missed by more than the slack" if slipped else "kept"
                said.append(f"old lesson {self.asked + 1} {name!r} {told}: {verdict}")
            forgotten = name if slipped and not self._is_over(self.asked) else ""
        if said:
            tell(f"examined {when} (most probable actions): {'; '.join(said)}")
        if forgotten:
            tell(f"lesson {forgotten!r} is forgotten {when}: back to it from {today!r}")
            self._begin(self.asked)
        elif passed and self.stage + 1 < len(self.lessons):
            tell(f"lesson {today!r} is learned {when}: next {self.names[self.stage + 1]!r}")
            self._begin(self.stage + 1)
        return metrics

    def _ask(self, lesson: Lesson) -> tuple[dict[str, float], str]:
        """What the gate sees against scripts, in the same episodes whenever it is asked; in words too."""
        if not lesson.gate.names:
            return {}, ""
        with self._league.paused():
            self._set(lesson, lesson.examined)
            try:
                means = self._measure(self._env)
                return lesson.gate.seen(means), lesson.gate.told(means)
            finally:
                self._set(self.lesson, self.lesson.opponents)

    def _set(self, lesson: Lesson, opponents: Mapping[str, float]) -> None:
        names = self._env.lesson_names
        self._env.set_lesson(
            scenarios=_all(lesson.scenarios, names["scenarios"]),
            opponents=_all(opponents, names["opponents"]),
            reward=_all(lesson.reward, names["reward"]),
        )

    def _begin(self, stage: int) -> None:
        self.stage = stage
        self._set(self.lesson, self.lesson.opponents)
        self._league.play(on=self.lesson.league)

    def state_dict(self) -> dict[str, Any]:
        """The stage, what every lesson has taken, and the league."""
        return {
            "stage": self.names[self.stage],
            "asked": self.asked,
            "frames": self.frames,
            "spent": dict(zip(self.names, self.spent, strict=True)),
            "league": self._league.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict."""
        saved = state.get("stage")  # None: saved without a curriculum
        if saved not in self.names:
            raise ValueError(
                f"the checkpoint is in lesson {saved!r}; expected one of {', '.join(self.names)}; go on with "
                "the curriculum it was saved with"
            )
        self.asked, self.frames = state["asked"], state["frames"]
        self.spent = [state["spent"].get(name, 0) for name in self.names]
        self._begin(self.names.index(saved))
        self._league.load_state_dict(state["league"])


def _all(weights: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """A weight for every name: those that a lesson does not name have none."""
    return dict.fromkeys(names, 0.0) | dict(weights)


def _check(place: str, lesson: Lesson, env: Any) -> None:
    """One sentence about the first thing in a lesson that this env cannot do."""
    check_class(place, lesson, Lesson)
    check_class(f"{place}.gate", lesson.gate, Gate)
    names = env.lesson_names
    check_weights(f"{place}.scenarios", lesson.scenarios, names["scenarios"], drawn=True)
    check_weights(f"{place}.opponents", lesson.opponents, names["opponents"], drawn=True)
    check_weights(f"{place}.examined", lesson.examined, names["opponents"], drawn=True)
    check_weights(f"{place}.reward", lesson.reward, names["reward"], drawn=False)
    check_gate(f"{place}.gate", lesson.gate, env.episode_keys, env.rate_names)
    check_groups(f"{place}.gate", lesson.gate, lesson.examined, env.batch_size.numel())
    check_frames(f"{place}.at_most_frames", lesson.at_most_frames)
