"""The coordinator chooses skills in order, within their numbers; no step and no reward is lost."""

import pytest
import torch

from navrl.agents.hmasd.high_level import Coordinator
from navrl.agents.hmasd.returns import ENDS
from navrl.agents.hmasd.rollout import team_rollout
from navrl.agents.hmasd.transformer import Attention
from navrl.agents.networks.layers import NetworkOptions
from navrl.agents.networks.team import team_spec
from navrl.config.compose import build
from tests.agents.hmasd import game
from tests.agents.hmasd.conftest import configuration

NETWORK = NetworkOptions(hidden_sizes=[8], entity_sizes=[8], lidar_encoder="mlp", activation="relu")


def make(choices, num_agents, *, blocks=2, heads=2):
    team = team_spec(game.specs(num_agents)[0], "hmasd")
    options = configuration(()).coordinator
    options = build(options)._replace(width=8, blocks=blocks, heads=heads)
    found = Coordinator(num_skills=choices, team=team, network=NETWORK, options=options)
    for parameter in found.parameters():  # nearly zero layers would hide what they do
        torch.nn.init.normal_(parameter, std=0.5)
    return found


def inputs(rows, num_agents):
    seen = game.seen(rows, num_agents)
    return seen["state"], seen["agents"]


def log_probs(coordinator, state, frames, skills):
    """Return the log-probabilities of all choices at every position, given those of `skills` before it."""
    encoded = coordinator._encoded(state, frames)
    keys = coordinator._keys(skills, coordinator._keys_of_sequences())
    return coordinator._log_probs(encoded, keys, slice(0, coordinator.positions))


@pytest.mark.parametrize(
    ("choices", "num_agents"),
    [((2, 3, 3), 2), ((4, 2), 1), ((3,), 2), ((1, 5, 5, 5), 3), ((7, 2, 2), 2)],
)
@pytest.mark.parametrize("blocks", [1, 2])
def test_drawn_skills_are_as_likely_as_evaluated_and_within_their_numbers(
    choices, num_agents, blocks
):
    coordinator = make(choices, num_agents, blocks=blocks)
    state, frames = inputs(200, num_agents)
    with torch.no_grad():
        choice = coordinator.act(state, frames, deterministic=False)
        evaluation = coordinator.evaluate(state, frames, choice.skills)
    assert choice.skills.shape == evaluation.value.shape == (200, len(choices))
    torch.testing.assert_close(choice.log_prob, evaluation.log_prob, rtol=0.0, atol=1e-6)
    for position, number in enumerate(choices):
        assert choice.skills[:, position].unique().tolist() == list(range(number))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
def test_attention_is_torch_s_own(heads, causal):
    ours = Attention(width=8, heads=heads, causal=causal)
    torchs = torch.nn.MultiheadAttention(8, heads, batch_first=True)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter)
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        torchs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        torchs.in_proj_bias.copy_(torch.cat([ours.query.bias, torch.zeros(8), ours.value.bias]))
        torchs.out_proj.load_state_dict(ours.out.state_dict())
    query, tokens, upstream = (torch.randn(5, 3, 8, requires_grad=True) for _ in range(3))
    mask = torch.ones(3, 3, dtype=torch.bool).triu(1) if causal else None
    found = ours(query, ours.keys(tokens))
    wanted, _ = torchs(query, tokens, tokens, attn_mask=mask)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    gradients = torch.autograd.grad(
        found, [query, tokens, *(part.weight for part in parts), *ours.out.parameters()], upstream
    )
    of_torch = [query, tokens, torchs.in_proj_weight, *torchs.out_proj.parameters()]
    query_g, tokens_g, in_g, *out_g = torch.autograd.grad(wanted, of_torch, upstream)
    expected = [query_g, tokens_g, *in_g.chunk(3), *out_g]
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


def test_tokens_of_sequences_are_those_of_the_rows():
    coordinator, (state, frames) = make((2, 3, 4, 3), 3), inputs(200, 3)
    assert coordinator.sequences.tolist()[:5] == [
        *([0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 2, 0], [0, 0, 3, 0]),
        [0, 1, 0, 0],
    ]
    skills = torch.stack([torch.randint(number, (200,)) for number in (2, 3, 4, 3)], -1)
    results = []
    for sequences in (coordinator.sequences, None):
        coordinator.sequences = sequences
        evaluation = coordinator.evaluate(state, frames, skills)
        loss = sum(rows.square().mean() for rows in evaluation)
        gradients = torch.autograd.grad(loss, [*coordinator.parameters()])
        results.append([*evaluation, *gradients])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_draws_follow_the_probabilities():
    coordinator, (state, frames) = make((2, 3, 3), 2), inputs(1, 2)
    with torch.no_grad():
        choice = coordinator.act(
            state.expand(20_000, -1), frames.expand(20_000, 2), deterministic=False
        )
        every = torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(3))
        evaluation = coordinator.evaluate(state.expand(18, -1), frames.expand(18, 2), every)
    codes = choice.skills @ torch.tensor([9, 3, 1])
    share = torch.bincount(codes, minlength=18) / 20_000
    expected = evaluation.log_prob.sum(-1).exp()
    assert (share - expected).abs().max() < 4 * (0.25 / 20_000) ** 0.5


def test_a_choice_depends_on_those_before_it_and_on_no_later_one():
    coordinator, (state, frames) = make((3, 3, 3, 3), 3), inputs(50, 3)
    skills = torch.randint(3, (50, 4))
    before = log_probs(coordinator, state, frames, skills)
    for position in range(4):
        other = skills.clone()
        other[:, position] = (other[:, position] + 1) % 3
        after = log_probs(coordinator, state, frames, other)
        assert torch.equal(after[:, : position + 1], before[:, : position + 1])
        if position < 3:
            assert ((after - before)[:, position + 1 :].abs().amax((-1, -2)) > 1e-6).all()


def test_deterministic_is_the_most_probable_step_by_step():
    coordinator, (state, frames) = make((2, 3, 3), 2), inputs(50, 2)
    with torch.no_grad():
        best = coordinator.act(state, frames, deterministic=True).skills
        again = coordinator.act(state, frames, deterministic=True).skills
        likely = log_probs(coordinator, state, frames, best)
    assert torch.equal(best, again)
    assert torch.equal(likely.argmax(-1), best)


def test_entropy_of_equal_chances():
    coordinator, (state, frames) = make((2, 3, 3), 2), inputs(5, 2)
    torch.nn.init.zeros_(coordinator.logits[-1].weight)
    torch.nn.init.zeros_(coordinator.logits[-1].bias)
    entropy = coordinator.evaluate(state, frames, torch.zeros(5, 3, dtype=torch.int64)).entropy
    expected = torch.tensor([2.0, 3.0, 3.0]).log().expand(5, 3)
    torch.testing.assert_close(entropy, expected)


@pytest.mark.parametrize("interval", [1, 10, 50])
def test_steps_and_rewards_are_all_accounted_for(make_agent, interval):
    agent = make_agent(f"agent.k={interval}")
    rollout, _ = game.collect(agent.policy, 23)
    block = team_rollout(rollout)
    metrics = agent.high.prepare(block).metrics
    number = metrics["high/decisions"].item()
    frames = game.NUM_ENVS * 23
    assert number == (rollout["skill", "reason"] > 0).sum().item()
    assert metrics["high/decision_steps"].item() * number == pytest.approx(frames)
    assert metrics["high/decision_reward"].item() * number == pytest.approx(
        rollout["next", "reward"].sum().item(), rel=1e-5
    )
    by_reason = [metrics[f"high/ended_by/{name}"].item() for name in ENDS]
    assert sum(by_reason) == number
    assert by_reason[1] == rollout["next", "done"].sum().item()
    assert metrics["high/decisions_per_env/mean"].item() * game.NUM_ENVS == number


def test_a_skill_that_lasted_its_whole_interval_was_not_cut_by_the_end_of_the_rollout(make_agent):
    agent = make_agent("agent.k=5")
    for steps, whole, cut in ((10, 8, 0), (12, 8, 4)):
        rollout, _ = game.collect(agent.policy, steps, ending=0.0)
        metrics = agent.high.prepare(team_rollout(rollout)).metrics
        assert metrics["high/ended_by/interval"].item() == whole
        assert metrics["high/ended_by/rollout_end"].item() == cut


def test_what_is_cut_short_can_be_dropped(make_agent):
    agent = make_agent("agent.k=5", "agent.coordinator.partial=drop")
    rollout, _ = game.collect(agent.policy, 12, ending=0.0)
    assert agent.high.prepare(team_rollout(rollout)).batch.skills.shape == (2 * game.NUM_ENVS, 3)


def test_the_coordinator_waits_while_all_decisions_have_the_same_reward(make_agent):
    agent = make_agent("agent.k=3")
    before = game.weights(agent)
    nothing = torch.zeros(game.NUM_ENVS, 1)
    rollout, root = game.collect(agent.policy, 12, reward=nothing)
    assert agent.update(rollout)["high/skipped"] == 1.0
    moved = {name for name in game.changed(agent, before) if name.startswith("policy.coordinator.")}
    # The value layer follows the scale of values, so that every value stays what it was.
    assert moved <= {"policy.coordinator.value.3.weight", "policy.coordinator.value.3.bias"}
    rollout, _ = game.collect(agent.policy, 12, root=root)
    assert agent.update(rollout)["high/skipped"] == 0.0
    assert "policy.coordinator.logits.3.weight" in game.changed(agent, before)


def test_skills_of_dead_agents_have_no_advantage(make_agent):
    agent = make_agent("agent.k=3")
    rollout = game.with_deaths(game.collect(agent.policy, 12)[0])
    batch = agent.high.prepare(team_rollout(rollout)).batch
    alive = rollout["agents", "alive"].squeeze(-1)[rollout["skill", "reason"].squeeze(-1) > 0]
    assert (~alive).any()
    assert torch.equal(batch.advantage[:, 1:] != 0.0, alive)
    assert (batch.advantage[:, 0] != 0.0).all()
