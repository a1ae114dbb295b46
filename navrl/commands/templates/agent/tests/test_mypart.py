"""Tests of agent=mypart."""

import pytest
import torch
from tensordict import TensorDict

from mylab.mypart import MyPart


def test_returns_are_discounted_and_end_with_the_episode() -> None:
    agent = MyPart.__new__(MyPart)  # without networks
    agent.discount = 0.5
    reward = torch.tensor([[1.0, 2.0, 4.0]]).unsqueeze(-1)
    done = torch.tensor([[False, True, False]]).unsqueeze(-1)
    frames = TensorDict({"next": {"reward": reward, "done": done}}, batch_size=[1, 3])
    assert agent.returns(frames).tolist() == [pytest.approx([1.0 + 0.5 * 2.0, 2.0, 4.0])]
