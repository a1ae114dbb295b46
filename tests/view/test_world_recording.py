"""Recordings of worlds: what is drawn and counted is what the simulator did."""

import math

import pytest
import torch

from navrl.config.checks import ConfigError
from navrl.config.compose import build
from navrl.envs.core.shapes import Circle, Line
from navrl.view import world_recording
from navrl.view.world_recording import play_worlds
from tests.envs.conftest import configuration

SIZE, HORIZON, EAST = 5, 6, 0


def grid(*changes, num_envs=3):
    """Alice and Bob on a small grid."""
    sizes = (f"env.sim.size={SIZE}", f"env.sim.horizon={HORIZON}")
    config = configuration("env=alice_and_bob", *sizes, *changes)
    return build(config.env)(num_envs=num_envs, device="cpu", seed=0)


def always(action):
    """A policy that takes one action."""

    def act(tensordict):
        env_shape = tensordict["agents", "observation"].batch_size
        return tensordict.set(("agents", "action"), torch.full((*env_shape, 1), action))

    return act


def test_a_picture_follows_the_simulator():
    env = grid()
    env.reset()
    column = env.state.column.clone()
    env.set_seed(0)
    for index, episode in enumerate(play_worlds(env, always(EAST))):
        assert (episode.steps, episode.ending) == (HORIZON, "truncated")
        (agents,) = [each for each in episode.drawings if getattr(each.shape, "trail", False)]
        for agent, shift in enumerate((-0.15, 0.15)):
            # From the middle of its cell to the last cell of the row, and no further.
            start = float(column[agent, index]) - 0.5 + shift
            expected = [min(start + step, SIZE - 0.5 + shift) for step in range(HORIZON + 1)]
            assert agents.points[:, 0, 0, agent].tolist() == pytest.approx(expected)
            assert agents.points[:, 1, 0, agent].unique().numel() == 1
        assert agents.colour[0].tolist() == [0.0, 1.0]


def test_numbers_belong_to_the_state_after_their_step():
    episode = play_worlds(grid(num_envs=1), always(EAST))[0]
    curves = {curve.name: curve for curve in episode.curves}
    assert list(curves)[:3] == ["reward", "reward terms", "return"]
    action = curves["agents/action"].values
    assert action.shape == (HORIZON + 1, 2)
    assert math.isnan(action[0, 0])
    assert action[1:].unique().tolist() == [EAST]
    assert not curves["agents/action"].is_observed
    view = curves["agents/observation/view"]
    assert view.is_observed
    assert view.values.shape == (HORIZON + 1, 22)  # of two agents, nine cells and a place each
    assert view.values[:, 10].tolist() == sorted(view.values[:, 10].tolist()), "its column"
    total = curves["reward"].values[1:].sum() - curves["return"].values[-1]
    assert float(total) == pytest.approx(0.0, abs=1e-6)


def test_many_lines_are_cut_and_counted(monkeypatch):
    monkeypatch.setattr(world_recording, "MOST_LINES", 4)
    episode = play_worlds(grid(num_envs=1), always(EAST))[0]
    (view,) = [curve for curve in episode.curves if curve.name.endswith("view")]
    assert (view.values.shape[1], view.left_out) == (4, 18)


def test_an_endless_episode_is_cut(monkeypatch):
    monkeypatch.setattr(world_recording, "LONGEST", 4)
    episode = play_worlds(grid(num_envs=1), always(EAST))[0]
    assert (episode.steps, episode.ending) == (4, "cut")
    assert len(episode.drawings[0].points) == 5


def test_a_rate_is_marked_where_it_became_one():
    sums = {"success": torch.tensor([0.0, 0.0, 1.0, 1.0]), "crash": torch.zeros(4)}
    assert world_recording._first_steps(sums, ("success", "crash")) == {"success": 2}


DOT = Circle((0.0, 0.0))
NONE = Circle(torch.zeros(2, 0, 1))


def test_shapes_of_which_there_are_none_are_left_out():
    env = grid(num_envs=1)
    env.draw = lambda state: [NONE, DOT]
    (drawing,) = play_worlds(env, always(EAST))[0].drawings
    assert drawing.shape is DOT


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ([DOT], [DOT, DOT], "Circle, Circle at step 1; expected .*, Circle; change draw"),
        ([], [DOT], "Circle at step 1; expected .*, none; change draw"),
        ([DOT], [], "nothing at step 1; expected .*, Circle; change draw"),
        ([NONE], [DOT], "Circle at step 1; expected .*, 0 x Circle; change draw"),
        ([DOT], [Circle([(0, 0), (1, 1)])], "2 x Circle at step 1; expected .*, Circle; change"),
        (
            [Line([(0, 0), (1, 1)])],
            [Line([(0, 0), (1, 1), (2, 0)])],
            "Line of 3 points at step 1; expected .*, Line of 2 points; change draw",
        ),
    ],
)
def test_other_shapes_at_a_later_step_are_refused(before, after, sentence):
    env, calls = grid(num_envs=1), iter([before, after])
    env.draw = lambda state: next(calls)
    with pytest.raises(ConfigError, match=f"returned {sentence}"):
        play_worlds(env, always(EAST))
