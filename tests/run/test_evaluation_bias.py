"""Evaluations count the first episode of every env and no other, however long each of them takes."""

import pytest
import torch
from tensordict import TensorDict

from navrl.config.compose import build
from navrl.run.episodes import play, summarise
from tests.envs.conftest import ENVS, configuration

KEYS = ("return", "length", "win", "goal_time_s", "_label")
COUNT, LONGEST = 60, 6
ENVS_PLAYED = 2


class Timetable:
    """The first episode of env e takes 1 + e % 6 steps and is won if it takes 4 or more; all later ones are
    won in one step with a return of a million, so that one of them in a mean is seen in it.
    """

    def __init__(self):
        self.length = 1 + torch.arange(COUNT) % LONGEST
        self.steps, self.first = torch.zeros(COUNT), torch.ones(COUNT, dtype=torch.bool)

    def reset(self):
        episode, done = torch.zeros(COUNT, len(KEYS)), torch.zeros(COUNT, 1, dtype=torch.bool)
        return TensorDict({"episode": episode, "done": done}, [COUNT])

    def step_and_maybe_reset(self, tensordict):
        self.steps += 1
        over = self.steps >= torch.where(self.first, self.length, 1)
        won = over & (~self.first | (self.length > LONGEST / 2))
        earned = torch.where(self.first, self.steps**2, 1e6)
        rows = [earned, self.steps, won.float(), won * self.steps, torch.ones(COUNT)]
        following = {"episode": torch.stack(rows, -1), "done": over.unsqueeze(-1)}
        self.first, self.steps = self.first & ~over, torch.where(over, 0.0, self.steps)
        return tensordict.set("next", TensorDict(following, [COUNT])), self.reset()

    episode_keys = KEYS


def test_every_env_counts_once_whatever_its_length():
    """Ten episodes of each length: of the first 60 that end two thirds would be short or second ones."""
    ends = play(Timetable(), lambda tensordict: tensordict, deterministic=True)
    assert ends["length"] == [1.0 + env % LONGEST for env in range(COUNT)]
    found = summarise(ends, ("win",), {"goal_time_s": "win"})
    assert {name: interval.mean for name, interval in found.items()} == {
        "return": pytest.approx((1 + 4 + 9 + 16 + 25 + 36) / 6),
        "length": pytest.approx(3.5),
        "win": 0.5,
        "goal_time_s": pytest.approx((4 + 5 + 6) / 3),  # of those that arrive
    }
    counted = {name: interval.n for name, interval in found.items()}
    assert counted == {"return": 60, "length": 60, "win": 60, "goal_time_s": 30}


def test_a_time_of_arrival_has_no_mean_where_nobody_arrives():
    found = summarise(
        {"win": [0.0, 0.0], "goal_time_s": [0.0, 0.0]}, ("win",), {"goal_time_s": "win"}
    )
    assert found["goal_time_s"].n == 0
    assert found["win"].mean == 0.0


@pytest.mark.parametrize("name", ["combat, a team", "navigation"])
def test_a_batch_is_evaluated_as_its_envs_one_by_one(name):
    """Real worlds, with episodes of different lengths, teams among them, against a loop over single envs."""
    make = build(configuration(*ENVS[name]).env)
    options = {"device": "cpu", "seed": 11}  # in which one drone of two collides
    env = make(num_envs=ENVS_PLAYED, **options)
    ends = play(env, constant(env), deterministic=True)
    assert len(set(ends["length"])) > 1
    for number in range(ENVS_PLAYED):
        one = make(num_envs=1, first_env_id=number, **options)
        act, root = constant(one), one.reset()
        done = False
        while not done:
            frame, root = one.step_and_maybe_reset(act(root))
            done = bool(frame["next", "done"])
        assert frame["next", "episode"][0].tolist() == [
            ends[key][number] for key in env.episode_keys
        ]


def constant(env):
    """Return a policy of one action: the largest of every column."""
    spec = env.full_action_spec[env.action_key]
    action = spec.high if hasattr(spec, "high") else spec.zero()
    return lambda root: root.set(env.action_key, action.clone())
