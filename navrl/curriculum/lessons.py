"""Lessons one after another, each with a gate on fixed episodes; who forgets an old one goes back to it."""

from collections.abc import Callable, Mapping
from typing import Any

from tensordict import TensorDictBase

from navrl.curriculum.gate import Gate
from navrl.curriculum.league import SelfPlay

Measure = Callable[[Any], dict[str, float]]  # plays the held-out episodes of an env


class Lesson:
    """What is met, what it is worth, and when it is learned."""

    def __init__(
        self,
        *,
        scenarios: Mapping[str, float],
        opponents: Mapping[str, float],
        reward: Mapping[str, float],
        gate: Gate,
        examined: Mapping[str, float] | None,
        league: bool,
    ) -> None:
        self.scenarios, self.opponents, self.reward = dict(scenarios), dict(opponents), dict(reward)
        self.gate, self.league = gate, league
        # Old lessons are mixed in while learning, but a gate asks for its own lesson alone.
        self.examined = self.opponents if examined is None else dict(examined)


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
        self._env, self._measure = env, measure
        self._league = self_play
        self._league.attach(env, agent)
        self._begin()

    @property
    def lesson(self) -> Lesson:
        """The lesson of the day."""
        return self.lessons[self.stage]

    def after(self, iteration: int, frames: int, rollout: TensorDictBase) -> dict[str, float]:
        """Metrics of the stage; now and then an examination, and what follows from it."""
        metrics: dict[str, float] = {}
        if self.lesson.league:
            metrics |= self._league.after(frames, rollout)
        if iteration % self.check_every == 0:
            metrics |= self._examine()
        return metrics | {"curriculum/stage": self.stage + 1.0}

    def _examine(self) -> dict[str, float]:
        """Ask for today's lesson, and for an old one in turn; move on, stay, or go back."""
        found = self._ask(self.lesson)
        metrics = {f"curriculum/{name}": found[name] for name in self.lesson.gate.names}
        if self.stage > 0:
            self.asked = (self.asked + 1) % self.stage
            old = self.lessons[self.asked]
            metrics["curriculum/old_lesson"] = self.asked + 1.0
            if old.gate.forgotten(self._ask(old)):
                self.stage = self.asked
                self._begin()
                return metrics
        if self.lesson.gate.passed(found) and self.stage + 1 < len(self.lessons):
            self.stage += 1
            self._begin()
        return metrics

    def _ask(self, lesson: Lesson) -> dict[str, float]:
        """How the policy does in a lesson against scripts, on the same episodes whenever it is asked."""
        self._league.pause()
        self._set(lesson, lesson.examined)
        try:
            return self._measure(self._env)
        finally:
            self._set(self.lesson, self.lesson.opponents)
            self._league.proceed()

    def _set(self, lesson: Lesson, opponents: Mapping[str, float]) -> None:
        names = self._env.lesson_names
        self._env.set_lesson(
            scenarios=_all(lesson.scenarios, names["scenarios"]),
            opponents=_all(opponents, names["opponents"]),
            reward=_all(lesson.reward, names["reward"]),
        )

    def _begin(self) -> None:
        self._set(self.lesson, self.lesson.opponents)
        self._league.play(on=self.lesson.league)

    def state_dict(self) -> dict[str, Any]:
        """The stage, and the league."""
        return {
            "stage": self.names[self.stage],
            "asked": self.asked,
            "league": self._league.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict."""
        if state["stage"] not in self.names:
            raise ValueError(
                f"the checkpoint is in lesson {state['stage']!r}; expected one of {', '.join(self.names)}; "
                "change curriculum"
            )
        self.stage, self.asked = self.names.index(state["stage"]), state["asked"]
        self._begin()
        self._league.load_state_dict(state["league"])


def _all(weights: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """A weight for every name: those that a lesson does not name have none."""
    return dict.fromkeys(names, 0.0) | dict(weights)
