"""A sequence of lessons, each left when its gate on held-out episodes passes; a forgotten one is repeated.

A lesson with a budget of frames is left for good when that is spent, learned or not.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tensordict import TensorDictBase

from navrl.config.checks import ConfigError, require, require_whole
from navrl.contracts import LessonEnv, Note
from navrl.curriculum.base import STAGE, NamedStages
from navrl.curriculum.gate import Gate, is_number, require_known, require_mapping
from navrl.ranks.noise import rows_for
from navrl.selfplay.league import SelfPlay
from navrl.storage.schema import ANYTHING, Named, check, whole

Measure = Callable[[Any], dict[str, float]]  # means over the held-out episodes of an env


class Lesson:
    """The scenarios, opponents and reward of a phase of training, its gate and its budget."""

    def __init__(
        self,
        *,
        scenarios: Mapping[str, float],
        opponents: Mapping[str, float],
        reward: Mapping[str, float],
        gate: Gate,
        gate_opponents: Mapping[str, float] | None,
        league: bool,
        at_most_frames: int | None,
    ) -> None:
        self.scenarios, self.opponents, self.reward = scenarios, opponents, reward
        self.gate, self.league, self.at_most_frames = gate, league, at_most_frames
        # Training mixes opponents of old lessons in; the gate is about this lesson alone.
        self.gate_opponents = opponents if gate_opponents is None else gate_opponents

    def check(self, place: str, env: LessonEnv) -> None:
        """Raise ConfigError about the first thing that this env does not have or cannot do."""
        _require_class(f"{place}.gate", self.gate, Gate)
        names = env.lesson_names
        _require_chances(f"{place}.scenarios", self.scenarios, names["scenarios"])
        _require_chances(f"{place}.opponents", self.opponents, names["opponents"])
        _require_chances(f"{place}.gate_opponents", self.gate_opponents, names["opponents"])
        require_mapping(f"{place}.reward", self.reward)
        require_known(f"{place}.reward", self.reward, names["reward"])
        finite = all(is_number(weight) for weight in self.reward.values())
        require(finite, f"{place}.reward", dict(self.reward), "finite numbers")
        self.gate.check(f"{place}.gate", env.episode_keys, env.rate_names)
        num_envs = rows_for(env.batch_size.numel()).total
        self.gate.check_group_sizes(f"{place}.gate", self.gate_opponents, num_envs)
        if self.at_most_frames is not None:
            require_whole(f"{place}.at_most_frames", self.at_most_frames, 1)


class Lessons(NamedStages):
    """A curriculum that sets the env's mixtures and reward weights to those of the current lesson."""

    noun = "lesson"

    def __init__(
        self,
        *,
        lessons: Mapping[str, Lesson],
        check_every: int,
        self_play: SelfPlay,
        env: LessonEnv,
        measure: Measure,
        agent: Any,
    ) -> None:
        if check_every < 1 or not lessons:
            raise ConfigError(
                f"curriculum.check_every = {check_every} with {len(lessons)} lessons; expected 1 or more of "
                "both; change curriculum"
            )
        super().__init__(lessons)
        self.lessons, self.check_every = list(lessons.values()), check_every
        self.old_stage = 0  # the old lesson that was evaluated last
        self.frames, self.spent = 0, [0] * len(lessons)  # of the run, and of each lesson
        self._env, self._measure, self._league = env, measure, self_play
        self._league.attach(env, agent)
        for name, lesson in lessons.items():
            _require_class(f"curriculum.lessons.{name}", lesson, Lesson)
            lesson.check(f"curriculum.lessons.{name}", env)
        self._begin(0)

    @property
    def lesson(self) -> Lesson:
        """Return the current lesson."""
        return self.lessons[self.stage]

    def after(
        self, iteration: int, frames: int, rollout: TensorDictBase, note: Note
    ) -> dict[str, float]:
        """Count frames and games, evaluate the gates if due, move to another lesson if it follows."""
        metrics: dict[str, float] = {}
        self.spent[self.stage] += frames - self.frames
        self.frames = frames
        if self.lesson.league:
            metrics |= self._league.after(frames, rollout)
        if iteration % self.check_every == 0:
            metrics |= self._evaluate(f"after {frames:,} frames", note)
        if self._is_spent(self.stage) and not self.is_last:
            current, following = self.names[self.stage : self.stage + 2]
            budget = f"its {self.lesson.at_most_frames:,} frames"
            note(f"lesson {current!r} has had {budget} without being learned: next {following!r}")
            self._begin(self.stage + 1)
        return metrics | {STAGE: self.stage + 1.0}

    def _is_spent(self, stage: int) -> bool:
        """Return True if the budget of a lesson is spent."""
        budget = self.lessons[stage].at_most_frames
        return budget is not None and self.spent[stage] >= budget

    def _evaluate(self, when: str, note: Note) -> dict[str, float]:
        """Evaluate the current gate, and the old ones in turn; move on, stay, or go back."""
        values, described = self._values(self.lesson)
        metrics = {f"curriculum/{name}": value for name, value in values.items()}
        current, passed = self.name, self.lesson.gate.passed(values)
        verdict = "passed" if passed else "not passed"
        notes = [f"lesson {self.stage + 1} {current!r} {described}: {verdict}"] if values else []
        forgotten = self._evaluate_old(metrics, notes) if self.stage > 0 else ""
        if notes:
            note(f"evaluated {when} (most probable actions): {'; '.join(notes)}")
        if forgotten:
            note(f"lesson {forgotten!r} is forgotten {when}: back to it from {current!r}")
            self._begin(self.old_stage)
        elif passed and not self.is_last:
            note(f"lesson {current!r} is learned {when}: next {self.names[self.stage + 1]!r}")
            self._begin(self.stage + 1)
        return metrics

    def _evaluate_old(self, metrics: dict[str, float], notes: list[str]) -> str:
        """Evaluate the gate of the next old lesson; return its name if it has to be repeated."""
        self.old_stage = (self.old_stage + 1) % self.stage
        old, name = self.lessons[self.old_stage], self.names[self.old_stage]
        values, described = self._values(old)
        metrics["curriculum/old_lesson"] = self.old_stage + 1.0
        metrics |= {f"curriculum/old_{key}": value for key, value in values.items()}
        slipped = old.gate.forgotten(values)
        if values:
            verdict = "missed by more than the slack" if slipped else "kept"
            notes.append(f"old lesson {self.old_stage + 1} {name!r} {described}: {verdict}")
        return name if slipped and not self._is_spent(self.old_stage) else ""

    def _values(self, lesson: Lesson) -> tuple[dict[str, float], str]:
        """Return the gate's values against scripts, always in the same episodes, and their description."""
        if not lesson.gate.names:
            return {}, ""
        with self._league.paused():
            self._set(lesson, lesson.gate_opponents)
            try:
                means = self._measure(self._env)
                return lesson.gate.values(means), lesson.gate.describe(means)
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
        """Return the stage, the frames of every lesson, and the league."""
        return {
            "stage": self.name,
            "old_stage": self.old_stage,
            "frames": self.frames,
            "spent": dict(zip(self.names, self.spent, strict=True)),
            "league": self._league.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict returned."""
        stage = self.saved_stage(state)
        expected = {"stage": "", "old_stage": whole(0, len(self.names) - 1), "frames": whole()}
        expected |= {"spent": Named(whole()), "league": ANYTHING}  # which checks itself
        check(state, expected, "curriculum")
        self.old_stage, self.frames = state["old_stage"], state["frames"]
        self.spent = [state["spent"].get(name, 0) for name in self.names]
        self._begin(stage)
        self._league.load_state_dict(state["league"])


def _all(weights: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """Return a weight for every name: 0 for those that a lesson leaves out."""
    return dict.fromkeys(names, 0.0) | dict(weights)


def _require_class(place: str, value: Any, wanted: type) -> None:
    """Raise ConfigError about a plain mapping in place of an object."""
    if not isinstance(value, wanted):
        target = f"navrl.curriculum.{wanted.__name__}"
        raise ConfigError(f"{place} is a {type(value).__name__}; expected _target_: {target} in it")


def _require_chances(place: str, weights: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raise ConfigError about unknown names, and weights that nothing can be drawn by."""
    require_mapping(place, weights)
    require_known(place, weights, names)
    usable = all(is_number(weight) and weight >= 0.0 for weight in weights.values())
    usable = usable and sum(weights.values()) > 0.0
    require(usable, place, dict(weights), "weights of 0 or more, not all 0")
