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
    """Of one env, for each decision: step, end, reward, discount to what follows, and why it ended."""
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


def test_with_lambda_one_it_is_the_discounted_return_minus_the_value():
    given, discount = random_flags(), 0.9
    found = smdp_gae(**given, discount=discount, gae_lambda=1.0, mode="smdp")
    for env in range(NUM_ENVS):
        for t in range(STEPS):
            if not given["decide"][env, t]:
                continue
            total, weight = 0.0, 1.0
            for i in range(t, STEPS):
                total += weight * given["reward"][env, i].item()
                weight *= discount
                if given["done"][env, i]:
                    break
            if not given["terminated"][env, i]:
                total += weight * given["next_value"][env, i, 0].item()
            expected = total - given["value"][env, t, 0].item()
            assert found.advantage[env, t, 0].item() == pytest.approx(expected, abs=1e-9)


def test_values_count_only_where_decisions_are_made_and_episodes_cut():
    given = random_flags()
    cut = given["done"] & ~given["terminated"]
    cut[:, -1] = True
    noisy = {
        **given,
        "value": torch.where(given["decide"].unsqueeze(-1), given["value"], 1e6),
        "next_value": torch.where(cut.unsqueeze(-1), given["next_value"], 1e6),
    }
    options = {"discount": 0.9, "gae_lambda": 0.8, "mode": "per_decision"}
    one, other = (smdp_gae(**rows, **options).advantage for rows in (given, noisy))
    assert torch.equal(one[given["decide"]], other[given["decide"]])
