"""PPO's guards: numbers that are not finite, rollouts of somebody else, and going on from a checkpoint."""

import copy
import warnings

import pytest
import torch
from tensordict import TensorDict

from navrl.agents.core.guards import TrainingDivergedError, UpdateGuard
from tests.agents.conftest import make_rollout


def everything(agent):
    """Copies of all that learning changes: weights, moments, step counts, normaliser, schedule."""
    return copy.deepcopy(agent.state_dict())


def differences(found, expected, path=""):
    """Paths at which two states differ in any bit."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        pairs = [(f"{path}/{key}", found[key], expected[key]) for key in expected]
    elif isinstance(expected, list):
        pairs = [(f"{path}/{i}", *pair) for i, pair in enumerate(zip(found, expected, strict=True))]
    elif isinstance(expected, torch.Tensor):
        return [] if torch.equal(found, expected) else [path]
    else:
        return [] if found == expected else [path]
    return [name for name, a, b in pairs for name in differences(a, b, name)]


def plant_nan(observations):
    observations[2, 3, 1] = float("nan")


def experienced(make_agent, **options):
    """An agent after one good update, so that Adam has moments to lose."""
    agent = make_agent(**options)
    agent.update(make_rollout(agent))
    return agent


def test_a_nan_in_one_env_is_skipped_and_named(make_agent):
    agent = experienced(make_agent)
    before = everything(agent)
    rollout = make_rollout(agent, spoil=plant_nan)
    with pytest.warns(UserWarning, match="skipped gradient steps") as caught:
        metrics = agent.update(rollout)
    (warning,) = caught
    assert "'observation/ego' of the rollout in env rows 2)" in str(warning.message)
    assert metrics["loss/skipped_steps"] == 1.0
    changed = differences(everything(agent), before)
    assert [name for name in changed if name.startswith("/optimizer/state")] == []
    learned = [name for name in changed if name.startswith(("/policy/", "/critic/"))]
    assert all("normalisers" in name for name in learned)
    for normaliser in agent.policy.trunk.encoder.normalisers.values():
        assert normaliser.mean.isfinite().all()
        assert normaliser.count.item() == 24 + 23  # the row with the NaN did not count


def test_minibatches_without_the_nan_still_learn(make_agent):
    agent = experienced(make_agent, num_minibatches=24)
    before = everything(agent)
    rollout = make_rollout(agent)
    rollout["next", "observation", "ego"][1, -1, 0] = float("nan")
    with pytest.warns(UserWarning, match=r"'next/observation/ego' .* env rows 1\)"):
        metrics = agent.update(rollout)
    # Advantages are sums backwards in time: all 6 steps of this env are lost, 18 of the others learn.
    assert metrics["loss/skipped_steps"] == 6.0
    after = everything(agent)
    assert "/policy/trunk.layers.0.weight" in differences(after, before)
    tensors = [*after["policy"].values(), *after["critic"].values()]
    assert all(tensor.isfinite().all() for tensor in tensors)
    assert {int(state["step"]) for state in after["optimizer"]["state"].values()} == {24 + 18}


def test_training_ends_after_too_many_broken_iterations_in_a_row(make_agent):
    agent = make_agent(max_skipped_updates=3)
    for _ in range(2):
        with pytest.warns(UserWarning, match="skipped"):
            agent.update(make_rollout(agent, spoil=plant_nan))
    agent.update(make_rollout(agent))  # a good one, the count begins anew
    for _ in range(2):
        with pytest.warns(UserWarning, match="skipped"):
            agent.update(make_rollout(agent, spoil=plant_nan))
    with pytest.raises(
        TrainingDivergedError, match=r"3 iterations in a row .*observation/ego"
    ) as end:
        agent.update(make_rollout(agent, spoil=plant_nan))
    assert "\n" not in str(end.value)


def test_an_overflow_of_the_weights_is_told_from_bad_data(make_agent):
    agent = make_agent()
    with torch.no_grad():
        agent.critic.trunk.layers[-1].bias.fill_(float("inf"))
    with pytest.warns(
        UserWarning, match="rollout is finite, so the loss or the weights overflowed"
    ):
        agent.update(make_rollout(agent))


@pytest.mark.parametrize("rows", [3, 9])
def test_at_most_eight_bad_rows_are_listed(rows):
    reward = torch.zeros(12, 4, 1)
    reward[:rows, 2] = float("inf")
    listed = ", ".join(str(row) for row in range(min(rows, 8))) + (", ..." if rows > 8 else "")
    guard = UpdateGuard(replay_tolerance=1.0, max_skipped_updates=5)
    frames = TensorDict({"next": {"reward": reward}}, [12, 4])
    with pytest.warns(UserWarning, match="skipped") as caught:
        guard.check(frames, replay_error=0.0, skipped_steps=1.0)
    assert f"('next/reward' of the rollout in env rows {listed})" in str(caught[0].message)


def test_the_reward_is_named_before_the_sums_that_it_breaks():
    broken = torch.full((2, 3, 1), float("nan"))
    ahead = {"episode": broken, "reward": broken}
    frames = TensorDict({"episode": broken, "next": ahead}, [2, 3])
    guard = UpdateGuard(replay_tolerance=1.0, max_skipped_updates=5)
    with pytest.warns(UserWarning, match=r"'next/reward' of the rollout in env rows 0, 1"):
        guard.check(frames, replay_error=0.0, skipped_steps=1.0)


def test_a_rollout_of_another_version_is_refused(make_agent):
    agent = make_agent()
    rollout = make_rollout(agent)
    agent.update(rollout)
    before = everything(agent)
    with pytest.raises(RuntimeError, match="carries policy version 0; expected 1"):
        agent.update(rollout)
    assert differences(everything(agent), before) == []


def test_weights_changed_during_collection_are_refused_before_any_step(make_agent):
    agent = experienced(make_agent, num_minibatches=4, num_epochs=2)
    rollout = make_rollout(agent)
    with torch.no_grad():
        agent.policy.trunk.layers[-1].bias[0] += 1.0
    before = everything(agent)
    with pytest.raises(RuntimeError, match="was not collected by this policy: log-probs differ"):
        agent.update(rollout)
    assert differences(everything(agent), before) == []


def test_one_changed_log_prob_in_the_last_step_is_enough(make_agent):
    agent = make_agent(replay_tolerance=0.05)
    rollout = make_rollout(agent)
    rollout["action_log_prob"][3, -1] += 0.04
    assert agent.update(rollout)["sync/replay_error"] == pytest.approx(0.04, abs=1e-5)
    rollout = make_rollout(agent)
    rollout["action_log_prob"][3, -1] += 0.06
    with pytest.raises(RuntimeError, match=r"differ by 0.06, expected at most 0.05"):
        agent.update(rollout)


def test_a_restored_agent_makes_the_same_next_update(make_agent):
    options = {"num_minibatches": 4, "num_epochs": 2, "learning_rate": 3e-3}
    agent = experienced(make_agent, **options)
    agent.update(make_rollout(agent))
    saved = everything(agent)
    restored = make_agent(**options)
    restored.load_state_dict(saved)
    assert differences(everything(restored), saved) == []
    for _ in range(2):
        rollout = make_rollout(agent)
        results = []
        for each in (agent, restored):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(9)
                results.append(each.update(rollout))
        assert results[0] == results[1]
        assert differences(everything(restored), everything(agent)) == []
    assert results[0]["policy/learning_rate"] < 3e-3


def test_a_good_update_is_silent(make_agent):
    agent = make_agent(num_minibatches=4)
    rollout = make_rollout(agent)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.update(rollout)
