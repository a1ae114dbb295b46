"""Harder worlds: when the next stage begins, when the one before comes back, what a checkpoint keeps."""

import pytest
import torch
from tensordict import TensorDict

from navrl.curriculum.stages import Stages
from navrl.envs.navigation.worlds.pool import Difficulty

EASY, HARD, HARDEST = Difficulty(10, 0), Difficulty(20, 8), Difficulty(30, 16)


class Worlds:
    """An env that only records its calls."""

    episode_keys = ("return", "success", "_stage")
    objective = "success"

    def __init__(self):
        self.evaluated, self.started = [], 0

    def check_difficulty(self, prefix, difficulty):
        difficulty.checked(prefix, HARDEST)

    def set_stages(self, stages, shares):
        assert stages == [EASY, HARD, HARDEST]
        self.evaluated.append(dict(shares))

    def start_over(self):
        self.started += 1


def make(env=None, **changes):
    options = {"earlier_share": 0.2, "episodes": 10, "promote_at": 0.8, "fall_back_at": 0.5}
    stages = {"easy": EASY, "hard": HARD, "hardest": HARDEST}
    return Stages(stages=stages, env=env or Worlds(), agent=None, measure=None, **options | changes)


def ended(stage, successes, failures):
    """A rollout in which so many episodes of a stage have ended, and one goes on."""
    count = successes + failures + 1
    rows = torch.zeros(count, 1, 3)
    rows[:successes, 0, 1] = 1.0
    rows[..., 2] = stage
    done = torch.ones(count, 1, 1, dtype=torch.bool)
    done[-1] = False
    return TensorDict({"next": {"episode": rows, "done": done}}, batch_size=[count, 1])


def learn(stages, *rollouts):
    notes = []
    for number, rollout in enumerate(rollouts, 1):
        metrics = stages.after(number, 1000 * number, rollout, notes.append)
    return metrics, notes


def test_enough_successes_lead_to_the_next_stage_and_some_old_worlds_stay():
    env = Worlds()
    metrics, notes = learn(make(env), ended(0, 9, 1))
    assert metrics["curriculum/stage"] == 2.0
    assert env.evaluated == [{0: 1.0}, {0: 0.2, 1: 0.8}]
    assert "'easy' is passed after 1,000 frames (success 0.900): next 'hard'" in notes[0]


def test_too_few_episodes_decide_nothing():
    metrics, notes = learn(make(), ended(0, 9, 0))
    assert (metrics["curriculum/stage"], notes) == (1.0, [])
    assert metrics["curriculum/success"] == pytest.approx(1.0)


def test_episodes_of_other_stages_do_not_count():
    stages = make()
    learn(stages, ended(0, 10, 0))
    metrics, _ = learn(stages, ended(0, 50, 0))
    assert (metrics["curriculum/stage"], stages.seen) == (2.0, 0)


def test_who_fails_goes_back():
    env = Worlds()
    stages = make(env)
    metrics, notes = learn(stages, ended(0, 10, 0), ended(1, 2, 8))
    assert metrics["curriculum/stage"] == 1.0
    assert "'hard' is too hard" in notes[-1]
    assert env.evaluated[-1] == {0: 1.0}


def test_there_is_nothing_easier_than_the_first_nor_harder_than_the_last():
    assert learn(make(), ended(0, 0, 30))[0]["curriculum/stage"] == 1.0
    stages = make()
    metrics, _ = learn(stages, ended(0, 10, 0), ended(1, 10, 0), ended(2, 10, 0), ended(2, 30, 0))
    assert metrics["curriculum/stage"] == 3.0


def test_old_episodes_are_forgotten():
    stages = make(promote_at=1.0, fall_back_at=0.0)
    learn(stages, ended(0, 0, 10), *[ended(0, 10, 0)] * 6)
    # each episode counts a tenth: of the failures (1 - 1/10)^60 is left
    assert stages.rate == pytest.approx(1.0 - 0.9**60, abs=1e-9)


def test_a_fresh_curriculum_goes_on_where_the_saved_one_was():
    saved = make()
    learn(saved, ended(0, 10, 0), ended(1, 3, 2))
    env = Worlds()
    again = make(env)
    again.load_state_dict(saved.state_dict())
    assert (again.stage, again.seen, again.rate) == (1, 5, pytest.approx(0.6))
    assert env.evaluated[-1] == {0: 0.2, 1: 0.8}
    with pytest.raises(ValueError, match="stage 'aim'; expected one of easy, hard, hardest"):
        make().load_state_dict({"stage": "aim"})


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({"promote_at": 0.4}, "curriculum.fall_back_at"),
        ({"episodes": 0}, "curriculum.episodes"),
        ({"earlier_share": 1.0}, "curriculum.earlier_share"),
    ],
)
def test_impossible_options_are_refused_by_name(changes, notes):
    with pytest.raises(ValueError, match=notes):
        make(**changes)
