"""The coordinator: one order of choices, each in view of those before, within what there is."""

import pytest
import torch

from navrl.agents.hmasd.high_level import Coordinator, UniformSkills
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


def told(rows, num_agents):
    seen = game.seen(rows, num_agents)
    return seen["state"], seen["agents"]


@pytest.mark.parametrize(
    ("choices", "num_agents"),
    [((2, 3, 3), 2), ((4, 2), 1), ((3,), 2), ((1, 5, 5, 5), 3), ((7, 2, 2), 2)],
)
def test_drawn_skills_are_as_likely_as_evaluated_and_within_their_numbers(choices, num_agents):
    coordinator, (state, frames) = make(choices, num_agents), told(200, num_agents)
    with torch.no_grad():
        choice = coordinator.act(state, frames, deterministic=False)
        judged = coordinator.evaluate(state, frames, choice.skills)
    assert choice.skills.shape == judged.value.shape == (200, len(choices))
    torch.testing.assert_close(choice.log_prob, judged.log_prob, rtol=0.0, atol=1e-6)
    for position, number in enumerate(choices):
        assert choice.skills[:, position].unique().tolist() == list(range(number))


def test_probabilities_of_all_teams_of_skills_sum_to_one():
    coordinator, (state, frames) = make((2, 3, 3), 2), told(1, 2)
    every = torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(3))
    judged = coordinator.evaluate(state.expand(18, -1), frames.expand(18, 2), every)
    assert judged.log_prob.sum(-1).exp().sum().item() == pytest.approx(1.0, abs=1e-5)


def test_draws_follow_the_probabilities():
    coordinator, (state, frames) = make((2, 3, 3), 2), told(1, 2)
    with torch.no_grad():
        choice = coordinator.act(
            state.expand(20_000, -1), frames.expand(20_000, 2), deterministic=False
        )
        every = torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(3))
        judged = coordinator.evaluate(state.expand(18, -1), frames.expand(18, 2), every)
    codes = choice.skills @ torch.tensor([9, 3, 1])
    share = torch.bincount(codes, minlength=18) / 20_000
    expected = judged.log_prob.sum(-1).exp()
    assert (share - expected).abs().max() < 4 * (0.25 / 20_000) ** 0.5


def test_a_choice_depends_on_those_before_it_and_on_no_later_one():
    coordinator, (state, frames) = make((3, 3, 3, 3), 3), told(50, 3)
    skills = torch.randint(3, (50, 4))
    before = coordinator._log_probs(coordinator._encoded(state, frames), skills)
    for position in range(4):
        other = skills.clone()
        other[:, position] = (other[:, position] + 1) % 3
        after = coordinator._log_probs(coordinator._encoded(state, frames), other)
        assert torch.equal(after[:, : position + 1], before[:, : position + 1])
        if position < 3:
            assert ((after - before)[:, position + 1 :].abs().amax((-1, -2)) > 1e-6).all()


def test_deterministic_is_the_most_probable_step_by_step():
    coordinator, (state, frames) = make((2, 3, 3), 2), told(50, 2)
    with torch.no_grad():
        best = coordinator.act(state, frames, deterministic=True).skills
        again = coordinator.act(state, frames, deterministic=True).skills
        log_probs = coordinator._log_probs(coordinator._encoded(state, frames), best)
    assert torch.equal(best, again)
    assert torch.equal(log_probs.argmax(-1), best)


def test_entropy_of_equal_chances():
    coordinator, (state, frames) = make((2, 3, 3), 2), told(5, 2)
    torch.nn.init.zeros_(coordinator.logits[-1].weight)
    torch.nn.init.zeros_(coordinator.logits[-1].bias)
    entropy = coordinator.evaluate(state, frames, torch.zeros(5, 3, dtype=torch.int64)).entropy
    expected = torch.tensor([2.0, 3.0, 3.0]).log().expand(5, 3)
    torch.testing.assert_close(entropy, expected)


def test_every_parameter_has_a_gradient_that_is_finite():
    for choices, num_agents in (((2, 3, 3), 2), ((2, 3), 1), ((2,), 2)):
        coordinator, (state, frames) = make(choices, num_agents), told(9, num_agents)
        skills = torch.zeros(9, len(choices), dtype=torch.int64)
        judged = coordinator.evaluate(state, frames, skills)
        (judged.log_prob.sum() + judged.entropy.sum() + judged.value.sum()).backward()
        for name, parameter in coordinator.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


def test_uniform_skills():
    choice = UniformSkills((2, 3)).act(torch.zeros(5000, 1), None, deterministic=True)
    counts = [torch.bincount(column).tolist() for column in choice.skills.unbind(-1)]
    assert [len(count) for count in counts] == [2, 3]
    assert min(counts[0]) > 2300
    assert min(counts[1]) > 1500
    torch.testing.assert_close(choice.log_prob[0], -torch.tensor([2.0, 3.0]).log())
