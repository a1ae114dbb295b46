"""Random play, the yardstick: uniform over what is allowed, for every kind of action and every agent."""

from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import MultiCategorical

from navrl.agents.scripted import RandomPolicy
from tests.agents.conftest import NUM_ENVS, spec
from tests.agents.squad import squad_specs

ROWS = 4000


def test_every_allowed_choice_is_equally_likely():
    env = SimpleNamespace(
        observation_spec=spec(), action_spec=MultiCategorical([3, 2], shape=(NUM_ENVS, 2))
    )
    mask = torch.tensor([True, False, True, True, True]).expand(ROWS, 5)
    policy = RandomPolicy(env=env)
    assert (policy.in_keys, policy.out_keys) == (["action_mask"], ["action"])
    action = policy(TensorDict({"action_mask": mask}, [ROWS]))["action"]
    for head, expected in enumerate(([0.5, 0.0, 0.5], [0.5, 0.5, 0.0])):
        frequencies = torch.bincount(action[:, head], minlength=3) / ROWS
        # four standard errors of a coin
        assert frequencies.tolist() == pytest.approx(expected, abs=4 * 0.5 / ROWS**0.5)


def test_every_agent_of_a_team_plays_and_holds_its_fire_when_it_must():
    observation, action = squad_specs(NUM_ENVS, 3)
    policy = RandomPolicy(env=SimpleNamespace(observation_spec=observation, action_spec=action))
    assert policy.out_keys == [("agents", "action")]
    mask = torch.ones(ROWS, 3, 2, dtype=torch.bool)
    mask[:, 1, 1] = False  # the second agent may not fire
    group = TensorDict({"action_mask": mask}, [ROWS, 3])
    drawn = policy(TensorDict({"agents": group}, [ROWS]))["agents", "action"]
    fire = drawn[..., 2].mean(0)
    assert fire[1].item() == 0.0
    assert fire[[0, 2]].tolist() == pytest.approx([0.5, 0.5], abs=4 * 0.5 / ROWS**0.5)
    assert drawn[..., :2].mean((0, 1)).tolist() == pytest.approx([0.0, 0.5], abs=0.03)
