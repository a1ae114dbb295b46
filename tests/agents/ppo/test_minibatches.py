"""Minibatches: every frame once per epoch, numbers that change, and gradients gathered part by part."""

import copy
import itertools

import pytest
import torch

from navrl.agents.ppo.update import Minibatches
from tests.agents.conftest import make_rollout
from tests.agents.squad import make_team_rollout

STEPS = {"num_epochs": 2, "accumulate": 1, "num_iterations": 10}
CPU = torch.device("cpu")


def twins(make, options, others):
    """Two agents of these options with the same weights."""
    one, other = make(**options), make(**options, **others)
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    return one, other


def updated(agent, rollout):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return agent.update(rollout)


def assert_equal(agent, other):
    for found, expected in zip(other.parameters, agent.parameters, strict=True):
        torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-6)


def test_every_frame_is_used_once_per_epoch():
    seen = list(Minibatches(num_minibatches=4, **STEPS).indices(24, 0, CPU))
    assert [len(frames) for frames in seen] == [6] * 8
    for epoch in (seen[:4], seen[4:]):
        assert sorted(torch.cat(epoch).tolist()) == list(range(24))
    assert torch.cat(seen[:4]).tolist() != torch.cat(seen[4:]).tolist()


def test_every_number_of_a_list_has_an_equal_share_of_the_run():
    cut = Minibatches(num_minibatches=[8, 4, 2, 1], **STEPS)
    numbers = [cut.number(done) for done in range(12)]
    # Ten iterations: quarters begin at 0, 2.5, 5 and 7.5; a run that goes on stays at the last number.
    assert numbers == [8] * 3 + [4] * 2 + [2] * 3 + [1] * 4
    assert [len(frames) for frames in cut.indices(24, 4, CPU)] == [6] * 8


def test_the_number_of_gradient_steps_follows_the_list(make_agent):
    agent = make_agent(num_minibatches=[4, 2])  # ten iterations in all
    counts = []
    for _ in range(7):
        agent.update(make_rollout(agent))
        (count,) = {int(state["step"]) for state in agent.optimizer.adam.state.values()}
        counts.append(count)
    made = [after - before for before, after in itertools.pairwise([0, *counts])]
    assert made == [4] * 5 + [2] * 2
    resumed = make_agent(num_minibatches=[4, 2])
    resumed.load_state_dict(agent.state_dict())
    assert resumed.minibatches.number(resumed.optimizer.done) == 2


# Six frames a minibatch; with so large an epsilon Adam's step is proportional to the gradient.
PLAIN = {"num_minibatches": 4, "num_epochs": 2, "adam_epsilon": 1.0, "learning_rate": 0.5}


@pytest.mark.parametrize("parts", [2, 3, 6])
def test_gradients_gathered_in_parts_make_the_same_steps(make_agent, parts):
    one, other = twins(make_agent, PLAIN, {"accumulate": parts})
    start = copy.deepcopy(one.parameters)
    rollout = make_rollout(one)
    metrics = updated(one, rollout)
    assert updated(other, rollout) == pytest.approx(metrics, rel=1e-4, abs=1e-6)
    assert_equal(one, other)
    moved = max((a - b).abs().max() for a, b in zip(one.parameters, start, strict=True))
    assert moved > 1e-2


def test_parts_count_by_their_living(make_squad_agent):
    options = {**PLAIN, "max_kl": 1e-3}
    one, other = twins(make_squad_agent, options, {"accumulate": 3})
    rollout = make_team_rollout(one)
    assert not rollout["agents", "alive"].all()
    metrics = updated(one, rollout)
    assert updated(other, rollout) == pytest.approx(metrics, rel=1e-4, abs=1e-6)
    assert metrics["policy/kl_stopped_steps"] > 0.0  # the KL of a whole minibatch decides
    assert_equal(one, other)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"num_minibatches": 0}, "agent.num_minibatches = 0; expected a whole number, 1 or more"),
        ({"num_minibatches": [4, 1.5]}, "agent.num_minibatches = 1.5; expected a whole number"),
        (
            {"num_minibatches": []},
            r"agent.num_minibatches = \[\]; expected 1 to 8 different numbers",
        ),
        ({"num_minibatches": list(range(1, 10))}, "expected 1 to 8 different numbers"),
        ({"num_epochs": -1}, "agent.num_epochs = -1; expected a whole number, 1 or more"),
        ({"accumulate": 0}, "agent.accumulate = 0; expected a whole number, 1 or more"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make_agent, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_agent(**options)


def test_what_does_not_divide_is_refused():
    Minibatches(num_minibatches=[8, 4], **{**STEPS, "accumulate": 3}).check(24)
    with pytest.raises(ValueError, match="= 24 is not a multiple of num_minibatches = 5"):
        Minibatches(num_minibatches=[8, 5], **STEPS).check(24)
    with pytest.raises(ValueError, match="has 6 frames, not a multiple of accumulate = 4"):
        Minibatches(num_minibatches=4, **{**STEPS, "accumulate": 4}).check(24)
