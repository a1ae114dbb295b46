"""Advantages of decisions against loops over every env on its own, in double precision."""

import pytest
import torch

from navrl.agents.hmasd.returns import EPISODE_END, INTERVAL_END, ROLLOUT_END, smdp_gae

NUM_ENVS, STEPS, HEADS = 6, 40, 3


def random_flags():
    """Rewards, flags and values; every env decides at its first step, as rollouts do."""
    shape = (NUM_ENVS, STEPS)
    done = torch.rand(shape) < 0.1
    decide = (torch.rand(shape) < 0.25) | torch.cat(
        [torch.ones(NUM_ENVS, 1).bool(), done[:, :-1]], 1
    )
    return {
        "reward": torch.randn(shape, dtype=torch.float64),
        "decide": decide,
        "done": done,
        "terminated": done & (torch.rand(shape) < 0.5),
        "value": torch.randn(*shape, HEADS, dtype=torch.float64),
        "next_value": torch.randn(*shape, HEADS, dtype=torch.float64),
    }


def intervals(given, env, discount, mode):
    """Return step, end, reward, discount to the next and reason of the end for each decision of one env."""
    steps = [t for t in range(STEPS) if given["decide"][env, t]]
    found = []
    for t, following in zip(steps, [*steps[1:], STEPS], strict=True):
        dones = [e for e in range(t, following) if given["done"][env, e]]
        end = dones[0] if dones else following - 1
        inside = discount if mode == "smdp" else 1.0
        reward = sum(inside ** (i - t) * given["reward"][env, i].item() for i in range(t, end + 1))
        factor = discount ** (end - t + 1) if mode == "smdp" else discount
        why = EPISODE_END if dones else ROLLOUT_END if following == STEPS else INTERVAL_END
        found.append((t, end, reward, factor, why))
    return found


@pytest.mark.parametrize("mode", ["per_decision", "smdp"])
@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
def test_against_a_loop_over_every_env(mode, gae_lambda):
    given, discount = random_flags(), 0.9
    found = smdp_gae(**given, discount=discount, gae_lambda=gae_lambda, mode=mode)
    for env in range(NUM_ENVS):
        for head in range(HEADS):
            following = None  # advantage and value of the next decision
            for t, end, reward, factor, why in reversed(intervals(given, env, discount, mode)):
                value = given["value"][env, t, head].item()
                if why == INTERVAL_END:
                    trace, ahead = following
                else:
                    trace, ahead = 0.0, given["next_value"][env, end, head].item()
                    if given["terminated"][env, end]:
                        ahead = 0.0
                expected = reward + factor * (ahead + gae_lambda * trace) - value
                assert found.advantage[env, t, head].item() == pytest.approx(expected, abs=1e-9)
                assert found.reward[env, t].item() == pytest.approx(reward, abs=1e-9)
                assert found.duration[env, t].item() == end - t + 1
                assert found.end[env, t].item() == why
                following = expected, value
