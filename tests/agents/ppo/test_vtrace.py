"""V-trace: by hand, by its definition, beside TorchRL's, and as GAE where nothing is to be corrected."""

import copy

import pytest
import torch
from tensordict import TensorDict
from torchrl.objectives.value.functional import vtrace_advantage_estimate

from navrl.agents.ppo.lag import Correction, VTrace, vtrace
from tests.agents.conftest import make_rollout

DISCOUNT, TRACE = 0.9, 0.8


def frames_of(value, ahead, reward, terminated, truncated):
    upcoming = {"state_value": ahead, "reward": reward, "terminated": terminated}
    upcoming |= {"truncated": truncated, "done": terminated | truncated}
    shape = value.shape[:2]
    return TensorDict({"state_value": value, "next": TensorDict(upcoming, shape)}, shape)


def random_frames(envs=5, steps=9):
    """Values that fit together: V(s') is that of the next frame, unless an episode or the rollout ends."""
    value, ends = torch.randn(envs, steps, 1), torch.rand(envs, steps, 1)
    terminated, truncated = ends < 0.15, ends > 0.85
    ahead = torch.cat([value[:, 1:], torch.randn(envs, 1, 1)], 1)
    ahead = torch.where(terminated | truncated, torch.randn_like(value), ahead)
    return frames_of(value, ahead, torch.randn_like(value), terminated, truncated)


def column(*numbers):
    return torch.tensor(numbers).view(1, -1, 1)


def test_three_steps_by_hand():
    """Discount and lambda are 1/2; rho is cut at 2 and c at 1; the last step terminates.

    step  r  V(s)  V(s')  ratio  delta                   rho  c
      0   1    2     4     1/2   1 + 4/2 - 2 = 1         1/2  1/2
      1   0    4     1      4    0 + 1/2 - 4 = -7/2       2    1
      2   2    1     6      1    2 + 0 - 1 = 1            1    1

    What a target adds to V(s):  1;  2 (-7/2) + 1/4 1 = -27/4;  1/2 1 + 1/2 1/4 (-27/4) = -11/32
    Advantages:                  1;  2 (-7/2 + 1/4 1) = -13/2;  1/2 (1 + 1/4 (-27/4)) = -11/32
    """
    ends = column(False, False, True)
    value, ahead = column(2.0, 4.0, 1.0), column(4.0, 1.0, 6.0)
    frames = frames_of(value, ahead, column(1.0, 0.0, 2.0), ends, torch.zeros_like(ends))
    advantage, target = vtrace(frames, column(0.5, 4.0, 1.0), 0.5, 0.5, Correction(1, 2.0, 1.0))
    assert advantage.flatten().tolist() == [-11 / 32, -13 / 2, 1.0]
    assert target.flatten().tolist() == [2 - 11 / 32, 4 - 27 / 4, 2.0]


def by_definition(frames, ratio, limits):
    """Value targets as sums over the rest of the episode, equation 1 of arXiv:1802.01561, in float64."""
    value, ahead, reward = (
        x.double().squeeze(-1).tolist()
        for x in (frames["state_value"], frames["next", "state_value"], frames["next", "reward"])
    )
    terminated, done = (frames["next", key].squeeze(-1).tolist() for key in ("terminated", "done"))
    weight = ratio.double().squeeze(-1).tolist()
    targets = []
    for n in range(len(value)):
        for s in range(len(value[n])):
            total, product = value[n][s], 1.0
            for t in range(s, len(value[n])):
                follows = 0.0 if terminated[n][t] else DISCOUNT * ahead[n][t]
                delta = reward[n][t] + follows - value[n][t]
                total += product * min(limits.rho_clip, weight[n][t]) * delta
                if done[n][t]:
                    break
                product *= DISCOUNT * TRACE * min(limits.c_clip, weight[n][t])
            targets.append(total)
    return torch.tensor(targets).view_as(frames["state_value"])


@pytest.mark.parametrize("limits", [Correction(1, 1.0, 1.0), Correction(1, 1.5, 0.7)])
def test_value_targets_are_those_of_the_definition(limits):
    frames, ratio = random_frames(), torch.randn(5, 9, 1).exp()
    _, target = vtrace(frames, ratio, DISCOUNT, TRACE, limits)
    assert torch.allclose(target, by_definition(frames, ratio, limits), atol=1e-5)


def test_with_whole_traces_it_is_torchrl_s():
    frames, ratio = random_frames(), torch.randn(5, 9, 1).exp()
    found = vtrace(frames, ratio, DISCOUNT, 1.0, Correction(1, 1.5, 0.7))
    ahead = frames["next"]
    expected = vtrace_advantage_estimate(
        DISCOUNT,
        ratio.log(),
        torch.zeros_like(ratio),
        frames["state_value"],
        *(ahead[key] for key in ("state_value", "reward", "done", "terminated")),
        rho_thresh=1.5,
        c_thresh=0.7,
    )
    assert torch.allclose(found[0], expected[0], atol=1e-5)
    assert torch.allclose(found[1], expected[1], atol=1e-5)


def test_of_the_policy_s_own_rollout_it_is_gae(make_agent):
    agent = make_agent()
    rollout = make_rollout(agent)
    expected = agent.advantages(rollout)
    agent.allow_lag(Correction(max_lag=2, rho_clip=1.0, c_clip=1.0))
    with torch.no_grad():
        found = agent.advantages(rollout)
    for key in ("advantage", "value_target", "action_log_prob"):
        assert torch.allclose(found[key], expected[key], atol=1e-5)
    assert [float(number) for number in agent.lag.statistics] == pytest.approx([1.0, 1.0], abs=1e-5)


def test_where_all_actions_are_equally_good_none_is_preferred(make_agent):
    """A minibatch subtracts the mean advantage: 3 - 1 for all frames, whatever their ratios are."""
    steps = torch.ones(5, 9, 1)
    ends = steps.bool()
    frames = frames_of(steps, steps, 3.0 * steps, ends, torch.zeros_like(ends))
    frames["action_log_prob"] = torch.zeros(5, 9)
    correction = VTrace(Correction(1, 1.0, 1.0))
    found = correction.with_advantages(frames, make_agent().gae, lambda _: torch.randn(5, 9))
    assert torch.allclose(found["advantage"], 2.0 * steps, atol=1e-5)


def test_ratios_and_clipping_refer_to_the_policy_that_learns(make_agent):
    """The first gradient step of an old rollout has a KL of 0 to itself, and the stored log-probs stay."""
    agent = make_agent(learning_rate=0.03)
    agent.allow_lag(Correction(max_lag=1, rho_clip=1.0, c_clip=1.0))
    old = make_rollout(agent)
    stored = old["action_log_prob"].clone()
    assert agent.update(make_rollout(agent))["policy/kl"] == pytest.approx(0.0, abs=1e-6)
    metrics = agent.update(old)
    assert metrics["sync/lag"] == 1.0
    assert metrics["policy/kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["sync/mean_ratio"] != pytest.approx(1.0, abs=1e-4)
    assert 0.0 < metrics["sync/mean_weight"] < metrics["sync/mean_ratio"]
    assert torch.equal(old["action_log_prob"], stored)


def test_older_than_allowed_is_refused_and_changes_nothing(make_agent):
    agent = make_agent()
    agent.allow_lag(Correction(max_lag=2, rho_clip=1.0, c_clip=1.0))
    old = make_rollout(agent)
    for _ in range(3):
        agent.update(make_rollout(agent))
    before = copy.deepcopy(agent.state_dict())
    with pytest.raises(RuntimeError, match="policy version 0; expected 3, or at most 2 before"):
        agent.update(old)
    assert all(
        torch.equal(each, before["policy"][key]) for key, each in agent.policy.state_dict().items()
    )


def test_log_probs_that_are_not_the_policy_s_are_found_out(make_agent):
    agent = make_agent()
    agent.allow_lag(Correction(max_lag=2, rho_clip=1.0, c_clip=1.0))
    rollout = make_rollout(agent)
    rollout["action_log_prob"] += 0.1
    with pytest.raises(RuntimeError, match="was not collected by this policy"):
        agent.update(rollout)


def test_a_dead_agent_s_ratio_counts_for_nothing(make_squad_agent):
    agent = make_squad_agent()
    correction = VTrace(Correction(1, 1.0, 1.0))
    frames = random_frames()
    alive = torch.rand(5, 9, 1) < 0.5
    frames["alive"], frames["action_log_prob"] = alive, torch.zeros(5, 9)
    now = torch.where(alive.squeeze(-1), 0.0, 30.0)
    found = correction.with_advantages(frames.copy(), agent.gae, lambda _: now)
    expected = agent.gae(frames.copy())
    assert torch.allclose(found["advantage"], expected["advantage"], atol=1e-4)
