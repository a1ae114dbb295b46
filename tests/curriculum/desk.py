"""Lessons without an env: what they set is written down, and examinations have made-up results."""

import contextlib

import torch

from navrl.curriculum.gate import Gate
from navrl.curriculum.lessons import Lesson, Lessons

NAMES = {"scenarios": ("near", "far"), "opponents": ("a", "b"), "reward": ("outcome", "launch")}


class Desk:
    """Stands for an env: writes down what it is set to."""

    lesson_names = NAMES
    episode_keys = ("return", "length", "win", "kill", "launches", "_opponent")
    rate_names = ("win", "kill")
    batch_size = torch.Size([100])

    def __init__(self):
        self.now = None

    def set_lesson(self, *, scenarios, opponents, reward):
        self.now = {"scenarios": scenarios, "opponents": opponents, "reward": reward}


class Bench:
    """Stands for the league: knows whether it is on, and whether it is paused."""

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


def lesson(number, *, at_least=None, examined=None, league=False, at_most_frames=None):
    """A lesson that can be told by its weight of `launch`."""
    return Lesson(
        scenarios={"near": 1.0 + number},
        opponents={"a": 0.5, "b": float(number)},
        reward={"outcome": 1.0, "launch": -float(number)},
        gate=Gate(at_least={"win": 0.9} if at_least is None else at_least, at_most={}, slack=0.1),
        examined=examined,
        league=league,
        at_most_frames=at_most_frames,
    )


class School:
    """Lessons whose examinations have the results that a test wants."""

    def __init__(self, *lessons, check_every=5):
        self.desk, self.bench, self.results, self.asked, self.told = Desk(), Bench(), {}, [], []
        self.lessons = Lessons(
            lessons={f"lesson{number}": each for number, each in enumerate(lessons)},
            check_every=check_every,
            self_play=self.bench,
            env=self.desk,
            measure=self.measure,
            agent="the agent",
        )
        self.iteration = 0

    def measure(self, env):
        assert env is self.desk
        assert self.bench.is_paused, "an examination is against scripts"
        number = -int(self.desk.now["reward"]["launch"])
        self.asked.append((number, self.desk.now))
        return {"win": self.results.get(number, 0.0), "kill": 0.25}

    def go(self, iterations=5):
        for _ in range(iterations):
            self.iteration += 1
            metrics = self.lessons.after(
                self.iteration, 1000 * self.iteration, "rollout", self.told.append
            )
        return metrics


def settings(number):
    """What the desk has in this lesson; what it does not name has no weight."""
    return {
        "scenarios": {"near": 1.0 + number, "far": 0.0},
        "opponents": {"a": 0.5, "b": float(number)},
        "reward": {"outcome": 1.0, "launch": -float(number)},
    }
