"""Playing all envs to the end of their first episodes, and saying meanwhile how far that is."""

import pytest
import torch
from tensordict import TensorDict

import navrl.view.episodes
from navrl.view.episodes import first_episodes


class Clockwork:
    """Env i ends its episode with step i + 1."""

    batch_size = torch.Size([3])

    def reset(self):
        self.clock = 0
        return TensorDict({"done": torch.zeros(3, 1, dtype=torch.bool)}, batch_size=[3])

    def step(self, tensordict):
        self.clock += 1
        done = (torch.arange(3) < self.clock).unsqueeze(-1)
        return tensordict.set("next", TensorDict({"done": done}, batch_size=[3]))


@pytest.mark.parametrize("every_s", [-1.0, 60.0])
def test_a_long_replay_says_how_far_it_is_and_a_short_one_nothing(every_s, monkeypatch, capsys):
    monkeypatch.setattr(navrl.view.episodes, "_PROGRESS_EVERY_S", every_s)
    assert len(list(first_episodes(Clockwork(), lambda tensordict: tensordict))) == 1 + 3
    told = capsys.readouterr().err.splitlines()
    expected = [f"played {ended} of 3 episodes to their ends, 0 s" for ended in (1, 2)]
    assert told == (expected if every_s < 0.0 else [])
