"""Value normalisation: its statistics, and that nothing that the critic knows is lost when they move."""

import math

import pytest
import torch
from tensordict import TensorDict
from torch import nn

from navrl.agents.core.value_scale import EmaValues, ValueScale, value_scale
from tests.agents.conftest import make_rollout
from tests.agents.drone import make_drone_rollout

CALM = torch.tensor(False)


def batch(targets, predicted=None, alive=None):
    """Frames with these value targets."""
    rows = torch.as_tensor(targets, dtype=torch.float32).view(-1, 1)
    predicted = torch.zeros_like(rows) if predicted is None else predicted
    leaves = {"value_target": rows.clone(), "state_value": predicted}
    if alive is not None:
        leaves["alive"] = torch.tensor(alive).view(-1, 1)
    return TensorDict(leaves, [len(rows)])


def followed(scale, *batches, last=None, frozen=CALM):
    for frames in batches:
        scale.learn(frames, last or nn.Linear(2, 1), frozen)
    return scale


def reference(means_and_squares):
    """Mean and deviation in float64, as sums of geometric weights instead of running means."""
    weights = [0.995**age for age in range(len(means_and_squares))][::-1]
    means, squares = (
        sum(w * row[i] for w, row in zip(weights, means_and_squares, strict=True)) / sum(weights)
        for i in (0, 1)
    )
    return means, math.sqrt(max(squares - means**2, 0.01))


def test_statistics_are_weighted_means_without_the_zeros_of_the_beginning():
    scale, seen = EmaValues(), []
    for _ in range(7):
        rows = 30.0 * torch.randn(50) + 100.0
        followed(scale, batch(rows))
        values = rows.double()
        seen.append((values.mean().item(), values.square().mean().item()))
        mean, deviation = reference(seen)
        assert scale.moments()[0].item() == pytest.approx(mean, rel=1e-4)
        assert scale.moments()[1].item() == pytest.approx(deviation, rel=1e-3)


def test_targets_are_measured_with_the_new_statistics():
    scale, frames = EmaValues(), batch([100.0, 300.0])
    followed(scale, frames)
    assert frames["value_target"].flatten().tolist() == pytest.approx([-1.0, 1.0], rel=1e-3)
    assert scale.values(frames["value_target"]).flatten().tolist() == pytest.approx([100.0, 300.0])


def test_equal_targets_are_not_blown_up():
    scale, frames = EmaValues(), batch([5.0, 5.0, 5.05])  # deviations below 0.1 count as 0.1
    followed(scale, frames)
    assert scale.moments()[1].item() == pytest.approx(0.1)
    assert frames["value_target"].abs().max().item() < 0.5


def test_values_stay_what_they_were_when_statistics_move():
    scale, last = EmaValues(), nn.Linear(6, 1)
    followed(scale, batch(20.0 * torch.randn(99) + 400.0))
    features = torch.randn(30, 6)
    before = scale.values(last(features)).detach()
    frames = batch(50.0 * torch.randn(30) - 200.0, predicted=before)
    followed(scale, frames, last=last)
    assert scale.moments()[0].item() < 390.0
    torch.testing.assert_close(scale.values(last(features)), before, rtol=1e-5, atol=1e-3)
    # What clipping compares with is what the critic says now, in its new units.
    torch.testing.assert_close(frames["state_value"], last(features), rtol=1e-4, atol=1e-4)


def test_the_first_statistics_leave_the_critic_alone():
    scale, last = EmaValues(), nn.Linear(6, 1)
    weight, features = last.weight.detach().clone(), torch.randn(3, 6)
    frames = batch([100.0, 300.0, 200.0], predicted=scale.values(last(features)).detach())
    followed(scale, frames, last=last)
    assert torch.equal(last.weight, weight)
    torch.testing.assert_close(frames["state_value"], last(features))


def test_the_dead_and_what_is_not_finite_do_not_count():
    plain = followed(EmaValues(), batch([1.0, 3.0]))
    odd = followed(
        EmaValues(),
        batch([1.0, float("nan"), 3.0, 900.0, float("inf")], alive=[True, True, True, False, True]),
    )
    assert odd.moments() == plain.moments()
    assert odd.moments()[0].item() == pytest.approx(2.0)


@pytest.mark.parametrize("nothing", [batch([7.0, 9.0]), batch([float("nan")])])
def test_frozen_or_empty_batches_change_no_bit(nothing):
    last = nn.Linear(2, 1)
    for scale in (EmaValues(), followed(EmaValues(), batch([100.0, 300.0]), last=last)):
        before = [x.clone() for x in (*scale.buffers(), *last.parameters())]
        frozen = torch.tensor(len(nothing) == 2)
        followed(scale, nothing.clone(), last=last, frozen=frozen)
        after = [*scale.buffers(), *last.parameters()]
        assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_without_normalisation_nothing_is_touched():
    scale, frames, last = ValueScale(), batch([3.0]), nn.Linear(2, 1)
    before = last.weight.detach().clone()
    followed(scale, frames, last=last)
    assert frames["value_target"].item() == 3.0
    assert scale.values(frames["value_target"]).item() == 3.0
    assert torch.equal(last.weight, before)
    assert list(scale.state_dict()) == []  # checkpoints of agents without it stay as they are


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"agent\.value_normalisation = popart; expected one of"):
        value_scale("popart")


def test_advantages_are_in_units_of_rewards(make_navrl_agent):
    """Two agents whose critics mean the same values in other units find the same advantages."""
    agent, plain = make_navrl_agent(), make_navrl_agent(value_normalisation="none")
    plain.policy.load_state_dict(agent.policy.state_dict())
    plain.critic.trunk.load_state_dict(agent.critic.trunk.state_dict())
    scale = followed(agent.value_scale, batch([90.0, 110.0]))
    mean, deviation = scale.moments()
    with torch.no_grad():
        plain.critic.trunk.last.weight.mul_(deviation)
        plain.critic.trunk.last.bias.mul_(deviation).add_(mean)
    rollout = make_drone_rollout(agent)
    found, expected = (each.advantages(rollout)["advantage"] for each in (agent, plain))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


def test_what_comes_next_is_worth_what_the_critic_says_of_it(make_agent):
    """Also where an episode ends, and another frame begins the next."""
    agent = make_agent()
    rollout = make_rollout(agent)
    ended = rollout["next", "done"].squeeze(-1)
    assert 0 < ended.sum() < ended.numel()
    rollout["next", "observation", "ego"][ended] += 1.0
    with torch.no_grad():
        found = agent.advantages(rollout)["next", "state_value"]
        expected = agent.critic(rollout["next"].clone())["state_value"]
    torch.testing.assert_close(found, expected)


def test_a_rollout_of_somebody_else_moves_no_statistic(make_navrl_agent):
    agent = make_navrl_agent()
    agent.update(make_drone_rollout(agent))
    rollout = make_drone_rollout(agent)
    rollout["action_log_prob"] += 1.0
    before = [x.clone() for x in agent.critic.state_dict().values()]
    with pytest.raises(RuntimeError, match="was not collected by this policy"):
        agent.update(rollout)
    after = agent.critic.state_dict().values()
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))
