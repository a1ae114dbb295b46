"""Episode statistics of a rollout: only ended episodes count, and every number is a mean by hand."""

from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict

from navrl.run.episodes import episode_metrics, episode_sums

ENV = SimpleNamespace(
    episode_keys=("return", "length", "win", "reward_outcome"),
    objective="win",
    rate_names=("win",),
    counted_when={},
)


def rollout(done, episode):
    following = TensorDict({"done": done, "episode": episode}, batch_size=done.shape[:2])
    return TensorDict({"next": following}, batch_size=done.shape[:2])


def test_means_over_ended_episodes_only():
    done = torch.tensor(
        [[[False], [True], [False]], [[True], [False], [True]]]
    )  # three of six frames
    episode = torch.full((2, 3, 4), 100.0)
    episode[0, 1] = torch.tensor([1.0, 10.0, 1.0, 0.5])
    episode[1, 0] = torch.tensor([-1.0, 20.0, 0.0, -0.5])
    episode[1, 2] = torch.tensor([3.0, 30.0, 1.0, 0.75])
    metrics = episode_metrics(ENV, episode_sums(rollout(done, episode)))
    assert metrics["episode/count"] == 3
    assert metrics["episode/return"] == pytest.approx(1.0)
    assert metrics["episode/length"] == pytest.approx(20.0)
    assert metrics["episode/win"] == pytest.approx(2 / 3)
    assert metrics["reward/outcome"] == pytest.approx(0.25)
    # Wilson, 2 of 3, z = 1.96: half width = z / (1 + z^2/n) * sqrt(p q / n + z^2 / (4 n^2))
    z = 1.959964
    centre = (2 / 3 + z * z / 6) / (1 + z * z / 3)
    half = z / (1 + z * z / 3) * (2 / 9 / 3 + z * z / 36) ** 0.5
    assert metrics["episode/win_low"] == pytest.approx(centre - half, abs=1e-4)
    assert metrics["episode/win_high"] == pytest.approx(centre + half, abs=1e-4)


def test_no_ended_episode_gives_the_count_alone():
    done = torch.zeros(2, 3, 1, dtype=torch.bool)
    assert episode_metrics(ENV, episode_sums(rollout(done, torch.ones(2, 3, 4)))) == {
        "episode/count": 0.0
    }


def test_what_counts_in_some_episodes_only_is_a_mean_over_those():
    env = SimpleNamespace(**{**vars(ENV), "counted_when": {"length": "win"}})
    done = torch.ones(1, 3, 1, dtype=torch.bool)
    episode = torch.tensor([[[0.0, 4.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 7.0, 1.0, 0.0]]])
    assert episode_metrics(env, episode_sums(rollout(done, episode)))["episode/length"] == 5.5
    lost = episode_metrics(env, episode_sums(rollout(done, torch.zeros(1, 3, 4))))
    assert "episode/length" not in lost
    assert (lost["episode/win_low"], lost["episode/win"]) == (0.0, 0.0)
