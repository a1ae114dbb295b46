"""PPO's arithmetic: advantages, the clipped objective, gradient clipping, the KL stop."""

import statistics

import pytest
import torch
from torch import nn

from navrl.agents.core.objective import explained_variance
from navrl.agents.ppo.agent import MINIBATCH_KEYS
from tests.agents.conftest import CHOICES, loss_of, make_rollout

DISCOUNT = 0.5


def weights(agent):
    """A copy of every parameter."""
    return [parameter.detach().clone() for parameter in agent.parameters]


def same(found, expected):
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def twins(make_agent, **options):
    """Two agents with equal weights, one per set of options."""
    first, second = make_agent(**options), make_agent(**options)
    second.load_state_dict(first.state_dict())
    return first, second


def column(*numbers):
    return torch.tensor(numbers).view(1, -1, 1)


def hand_worked(agent):
    """One env, five steps: a truncation after the second, a termination after the fourth.

    step  reward  V(s)  V(s')  end          with discount 1/2 and lambda 1/2
      0      1      2     3                 delta = 1 + 3/2 - 2 = 1/2     A = 1/2 + 1/4 (-1) = 1/4
      1      0      3     4    truncated    delta = 0 + 4/2 - 3 = -1      A = -1
      2      2      1     2                 delta = 2 + 2/2 - 1 = 2       A = 2 + 1/4 (-3) = 5/4
      3     -1      2     7    terminated   delta = -1 + 0 - 2 = -3       A = -3
      4    1/2      6     8    rollout ends delta = 1/2 + 8/2 - 6 = -3/2  A = -3/2
    """
    # The first feature of the observation is the value, so V(s') after an end is the value of the
    # terminal observation, not of the next opening.
    agent.critic = lambda td: td.set("state_value", td["observation", "ego"][..., :1])
    rollout = make_rollout(agent)[:1, :5].clone()
    rollout["observation", "ego"][..., :1] = column(2.0, 3.0, 1.0, 2.0, 6.0)
    rollout["next", "observation", "ego"][..., :1] = column(3.0, 4.0, 2.0, 7.0, 8.0)
    rollout["next", "reward"] = column(1.0, 0.0, 2.0, -1.0, 0.5)
    rollout["next", "truncated"] = column(False, True, False, False, False)
    rollout["next", "terminated"] = column(False, False, False, True, False)
    rollout["next", "done"] = rollout["next", "truncated"] | rollout["next", "terminated"]
    return rollout


def test_advantages_by_hand(make_agent):
    agent = make_agent(discount=DISCOUNT, gae_lambda=0.5)
    rollout = hand_worked(agent)
    before = rollout.clone()
    batch = agent.advantages(rollout)
    advantages, values = [0.25, -1.0, 1.25, -3.0, -1.5], [2.0, 3.0, 1.0, 2.0, 6.0]
    targets = [a + v for a, v in zip(advantages, values, strict=True)]
    assert batch["advantage"].flatten().tolist() == advantages
    assert batch["value_target"].flatten().tolist() == targets
    expected = 1.0 - statistics.variance(advantages) / statistics.variance(targets)
    assert explained_variance(batch["state_value"], batch["value_target"]).item() == pytest.approx(
        expected
    )
    assert set(rollout.keys(True, True)) == set(before.keys(True, True))


def test_any_number_of_ends_makes_few_numbers_of_rows(make_agent, monkeypatch):
    # oneDNN keeps its kernels, a megabyte for each layer, of every number of rows that it ever multiplied.
    monkeypatch.setattr("navrl.agents.ppo.agent._END_ROWS", 16)
    agent, looked = make_agent(), set()
    rollout = make_rollout(agent, steps=16)
    critic = agent.critic
    expected = critic(rollout["next"].clone())["state_value"].view(-1)

    def counted(rows):
        looked.add(len(rows))
        return critic(rows)

    agent.critic = counted
    for number in range(64):
        done = torch.zeros(64, dtype=torch.bool)
        done[torch.randperm(64)[:number]] = True
        rollout["next", "done"] = rollout["next", "terminated"] = done.view(4, 16, 1)
        found = agent.advantages(rollout)["next", "state_value"].view(-1)
        torch.testing.assert_close(found[done], expected[done])
    assert looked == {16, 32, 48, 64}


def reference_loss(agent, batch):
    """Pieces of the loss from float64 matrices, as in equation 7 and 9 of arXiv:1707.06347."""

    def forward(trunk):
        first, second = (m for m in trunk.layers if isinstance(m, nn.Linear))
        w1, b1, w2, b2 = (p.double() for layer in (first, second) for p in layer.parameters())
        rows = batch["observation", "ego"].double() / (1.0 + 1e-4) ** 0.5  # untrained normaliser
        return (rows @ w1.T + b1).tanh() @ w2.T + b2

    logits = forward(agent.policy.trunk).masked_fill(~batch["action_mask"], -torch.inf)
    log_probs = [head.log_softmax(-1) for head in logits.split(CHOICES, -1)]
    chosen = sum(
        head.gather(-1, batch["action"][:, [i]]).squeeze(-1) for i, head in enumerate(log_probs)
    )
    ratio = (chosen - batch["action_log_prob"].double()).exp()
    advantage = batch["advantage"].squeeze(-1).double()
    advantage = (advantage - advantage.mean()) / advantage.std()
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
    probs = [head.exp() for head in log_probs]
    entropy = -sum(
        (p * head.where(p > 0, 0.0)).sum(-1) for p, head in zip(probs, log_probs, strict=True)
    )
    error = forward(agent.critic.trunk) - batch["value_target"].double()
    means = {
        "loss/policy": -surrogate.mean(),
        "loss/critic": 0.5 * error.square().mean(),
        "policy/entropy": entropy.mean(),
        "policy/clip_fraction": ((ratio - 1.0).abs() > 0.2).double().mean(),
        "policy/kl": -ratio.log().mean(),
    }
    return means["loss/policy"] + means["loss/critic"] - 0.01 * entropy.mean(), means


def test_loss_and_gradient_equal_the_formula_in_float64(make_agent):
    agent = make_agent(clip_epsilon=0.2, critic_coef=0.5, entropy_coef=0.01)
    batch = agent.advantages(make_rollout(agent)).reshape(-1).detach()
    with torch.no_grad():  # somewhere else than at ratio 1, on both sides of the clip
        for parameter in agent.parameters:
            parameter.add_(0.2 * torch.randn_like(parameter))
    (loss, found), (expected_loss, expected) = loss_of(agent, batch), reference_loss(agent, batch)
    for name, value in expected.items():
        assert found[name].item() == pytest.approx(value.item(), rel=1e-4, abs=1e-6), name
    assert 0.2 < found["policy/clip_fraction"].item() < 0.9
    gradients, references = (
        torch.autograd.grad(total, agent.parameters) for total in (loss, expected_loss)
    )
    for gradient, reference in zip(gradients, references, strict=True):
        assert reference.abs().max() > 0.0
        torch.testing.assert_close(gradient, reference, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("max_grad_norm", [0.01, 1000.0])
def test_clipping_inside_adam_equals_clipping_before_it(make_agent, max_grad_norm):
    # With so large an epsilon Adam's step is proportional to the gradient, so its length shows.
    options = {"max_grad_norm": max_grad_norm, "adam_epsilon": 10.0, "learning_rate": 10.0}
    fused, plain = twins(make_agent, **options, final_learning_rate=10.0)
    adam = torch.optim.Adam(plain.parameters, lr=10.0, eps=10.0)
    for _ in range(2):
        rollout = make_rollout(fused)
        batch = plain.advantages(rollout).reshape(-1).detach()
        adam.zero_grad()
        loss_of(plain, batch)[0].backward()
        norm = nn.utils.clip_grad_norm_(plain.parameters, max_grad_norm)
        before = weights(plain)
        adam.step()
        for normaliser in plain.policy.trunk.encoder.normalisers.values():
            normaliser.update(batch["observation", "ego"])
        metrics = fused.update(rollout)
        assert metrics["loss/grad_norm"] == pytest.approx(norm.item(), rel=1e-4)
        for found, expected, start in zip(fused.parameters, plain.parameters, before, strict=True):
            moved = (expected - start).abs().max().item()
            torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-3 * moved + 1e-8)


def test_kl_stop_keeps_the_first_minibatch_only(make_agent):
    steep = {"num_minibatches": 4, "learning_rate": 0.1, "final_learning_rate": 0.1}
    stopping, once = make_agent(**steep, max_kl=1e-4), make_agent(**steep, max_kl=None)
    once.load_state_dict(stopping.state_dict())
    rollout = make_rollout(stopping, steps=64)
    flat = once.advantages(rollout).select(*MINIBATCH_KEYS, strict=False).reshape(-1)
    with torch.random.fork_rng(devices=[]):
        first = next(once.minibatches.indices(flat.numel(), 0, once.device))
        once.steps.step(once.steps.gradients.of(flat)(first), torch.tensor(False))
    start = weights(stopping)
    metrics = stopping.update(rollout)
    assert not same(weights(stopping), start)
    assert same(weights(stopping), weights(once))
    assert metrics["policy/kl_stopped_steps"] == 3.0
    assert metrics["policy/kl"] == pytest.approx(0.0, abs=1e-6)  # of the one step that was made
    restarted = make_rollout(stopping)
    stopping.update(restarted)
    assert not same(weights(stopping), weights(once))  # the stop ends with its iteration


def test_learning_rate_falls_on_a_line(make_agent):
    agent = make_agent(learning_rate=1e-3, final_learning_rate=2e-4)
    rates = [agent.update(make_rollout(agent))["policy/learning_rate"] for _ in range(12)]
    # Ten iterations in all: 8e-5 less after each, then it stays.
    expected = [1e-3 - 8e-5 * min(done, 10) for done in range(12)]
    assert rates == pytest.approx(expected)


def test_normaliser_learns_after_the_update(make_agent):
    agent = make_agent()
    rollout = make_rollout(agent)
    agent.update(rollout)
    rows = rollout["observation", "ego"].reshape(-1, 3)
    torch.testing.assert_close(agent.policy.trunk.encoder.normalisers["ego"].mean, rows.mean(0))
    assert agent.policy.trunk.encoder.normalisers["ego"].count.item() == 24.0
    assert agent.update(make_rollout(agent))["sync/replay_error"] < 1e-5


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("discount", -0.1), ("gae_lambda", 1.1), ("loss.clip_epsilon", 1.1)),
        *(("loss.value_clip", 0), ("loss.huber_delta", 0.0)),
        *(("optimizer.learning_rate", 0.0), ("optimizer.max_grad_norm", -1)),
    ],
)
def test_numbers_without_meaning_are_refused(make_agent, option, value):
    with pytest.raises(ValueError, match=f"agent.{option} = {value}; expected a finite number"):
        make_agent(**{option.split(".")[-1]: value})
