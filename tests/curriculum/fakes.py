"""Fakes for tests of lessons: an env that records its settings, a league, and made-up results."""

import contextlib

import torch

from navrl.curriculum.gate import Gate
from navrl.curriculum.lessons import Lesson, Lessons

NAMES = {"scenarios": ("near", "far"), "opponents": ("a", "b"), "reward": ("outcome", "launch")}


class FakeEnv:
    """An env that records what it is set to."""

    lesson_names = NAMES
    episode_keys = ("return", "length", "win", "kill", "launches", "_opponent")
    rate_names = ("win", "kill")
    batch_size = torch.Size([100])

    def __init__(self):
        self.now = None

    def set_lesson(self, *, scenarios, opponents, reward):
        self.now = {"scenarios": scenarios, "opponents": opponents, "reward": reward}


class FakeLeague:
    """A league that records if it is on and if it is paused."""

    def __init__(self):
        self.on, self.is_paused, self.counted = None, False, 0

    def attach(self, env, agent):
        self.attached = env, agent

    def play(self, *, on):
        self.on = on

    @contextlib.contextmanager
    def paused(self):
        self.is_paused = True
        yield
        self.is_paused = False

    def after(self, frames, rollout):
        self.counted += 1
        return {"league/frames": float(frames)}

    def state_dict(self):
        return {"counted": self.counted}

    def load_state_dict(self, state):
        self.counted = state["counted"]


def lesson(number, *, at_least=None, gate_opponents=None, league=False, at_most_frames=None):
    """Return a lesson that its weight of `launch` identifies."""
    return Lesson(
        scenarios={"near": 1.0 + number},
        opponents={"a": 0.5, "b": float(number)},
        reward={"outcome": 1.0, "launch": -float(number)},
        gate=Gate(at_least={"win": 0.9} if at_least is None else at_least, at_most={}, slack=0.1),
        gate_opponents=gate_opponents,
        league=league,
        at_most_frames=at_most_frames,
    )


class Course:
    """Lessons whose gates have the results that a test wants."""

    def __init__(self, *lessons, check_every=5):
        self.env, self.league, self.results, self.evaluated, self.notes = (
            FakeEnv(),
            FakeLeague(),
            {},
            [],
            [],
        )
        self.lessons = Lessons(
            lessons={f"lesson{number}": each for number, each in enumerate(lessons)},
            check_every=check_every,
            self_play=self.league,
            env=self.env,
            measure=self.measure,
            agent="the agent",
        )
        self.iteration = 0

    def measure(self, env):
        assert env is self.env
        assert self.league.is_paused, "a gate is evaluated against scripts"
        number = -int(self.env.now["reward"]["launch"])
        self.evaluated.append((number, self.env.now))
        return {"win": self.results.get(number, 0.0), "kill": 0.25}

    def go(self, iterations=5):
        for _ in range(iterations):
            self.iteration += 1
            metrics = self.lessons.after(
                self.iteration, 1000 * self.iteration, "rollout", self.notes.append
            )
        return metrics


def settings(number):
    """Return the settings of the env in this lesson; names that it leaves out have no weight."""
    return {
        "scenarios": {"near": 1.0 + number, "far": 0.0},
        "opponents": {"a": 0.5, "b": float(number)},
        "reward": {"outcome": 1.0, "launch": -float(number)},
    }
