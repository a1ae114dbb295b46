"""Exported policies: what leaves acts as what stays, and nothing that differs leaves."""

import pytest
import torch

from navrl.config.checks import ConfigError
from navrl.config.compose import compose
from navrl.export.policies import (
    ACTION,
    DISTRIBUTION,
    NOISE,
    TOLERANCE,
    PolicyGraph,
    Recording,
    check,
    difference,
)
from navrl.run.build import build_agent, build_env
from navrl.run.episodes import play

MEMORY = ("agent.network.rnn=gru", "agent.network.chunk_length=4")
TEAM = ("env.team_size=2", "observation=entities", "agent=mappo")
NETWORK = "agent.network.hidden_sizes=[8]"


def small(*words, sampled=False, num_envs=3):
    """An untrained policy with plain preferences, its graph, and what it read and did in episodes."""
    cfg = compose("train", ["compile=off", "device=cpu", *words])
    env = build_env(cfg, num_envs=num_envs, seed=0)
    torch.manual_seed(0)
    policy = build_agent(cfg, env, num_iterations=1).policy.requires_grad_(False)
    for weights in policy.parameters():
        weights.mul_(3.0)
    graph = PolicyGraph(policy, env, sampled=sampled)
    recording = Recording(policy, graph, seed=0)
    play(env, recording, deterministic=not sampled)
    return graph, *recording.columns()


DUEL = ("env.sim.time_limit_s=8", NETWORK, "agent.network.precision=fp32")


@pytest.mark.parametrize(
    "words",
    [
        DUEL,
        (*DUEL, "action=continuous"),
        (*DUEL, *TEAM, *MEMORY),
        ("env=alice_and_bob", "agent=hmasd"),
    ],
    ids=lambda words: " ".join(words[3:5]),
)
def test_the_graph_does_what_the_policy_did_when_it_played(words):
    graph, inputs, played = small(*words)
    found = check(graph, inputs, played, graph(inputs))
    assert found.passed
    assert found.observations == len(inputs["ego" if "ego" in inputs else "view"]) > 20
    assert set(found.largest) == {ACTION, DISTRIBUTION, *(f"next_{name}" for name in graph.memory)}


def test_every_difference_is_found():
    graph, inputs, played = small(*DUEL, *MEMORY, "action=continuous")
    own = graph(inputs)
    for name in own:
        for change in (2.0 * TOLERANCE, torch.nan):
            wrong = {**own, name: own[name].clone()}
            wrong[name][5, 0] += change * wrong[name][5, 0].abs().clamp_min(1.0)
            found = check(graph, inputs, played, wrong)
            assert not found.passed
            assert found.largest[name] > TOLERANCE
        assert not check(graph, inputs, played, {**own, name: own[name][:, :1]}).passed
        assert not check(graph, inputs, played, {**own, name: own[name].double()}).passed


def test_what_was_played_counts_not_what_the_graph_says():
    graph, inputs, played = small(*DUEL)
    other = {ACTION: (played[ACTION] + 1) % 2}
    assert not check(graph, inputs, other, graph(inputs)).passed


def test_another_choice_is_as_good_only_where_it_is_as_probable():
    graph, inputs, _ = small(*DUEL)
    graph.policy.trunk.last.weight.zero_()
    graph.policy.trunk.last.bias.copy_(torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0]))
    own = graph(inputs)
    assert own[ACTION][:, 0].eq(0).all()
    for choice, passes in ((1, True), (2, False), (-1, False), (3, False)):
        action = own[ACTION].clone()
        action[7, 0] = choice
        found = check(graph, inputs, own, {**own, ACTION: action})
        assert (found.passed, found.ties) == (passes, int(passes))


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_drawn_actions_are_quantiles_of_the_noise(kind):
    graph, inputs, played = small(*DUEL, f"action={kind}", sampled=True)
    assert ACTION not in played  # the episodes drew other numbers
    own = graph(inputs)
    assert check(graph, inputs, played, own).passed
    nearby = {**inputs, NOISE: inputs[NOISE] + 0.5 * TOLERANCE}
    assert check(graph, inputs, played, {**own, ACTION: graph(nearby)[ACTION]}).passed
    far = {**inputs, NOISE: (inputs[NOISE] + 0.5) % 1.0}
    assert not check(graph, inputs, played, {**own, ACTION: graph(far)[ACTION]}).passed


def test_a_difference_is_relative_to_numbers_above_one():
    found = difference(torch.tensor([1e6 + 1.0, 0.5, -1.7e38]), torch.tensor([1e6, 0.25, -1.7e38]))
    assert found.tolist() == [pytest.approx(1e-6), 0.25, 0.0]
    assert difference(torch.ones(2, dtype=torch.int64), torch.ones(2)).isinf().all()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("observation=ego_spacetime", "action=discrete_fine"),
        ("env.team_size=3", "observation=entities", "action=continuous"),
        ("env.team_size=2", "observation=entities"),
        ("env=navigation", "world.count=2"),
        ("env=navigation_compat",),
        ("env=coverage",),
        ("env=alice_and_bob",),
    ],
    ids=" ".join,
)
def test_every_column_that_has_a_name_is_there(words):
    cfg = compose("train", ["compile=off", *words])
    env = build_env(cfg, num_envs=1, seed=0)
    group, action = env.observation_spec, env.action_spec
    if "agents" in group:
        group, action = group["agents"], action["agents", "action"]
    names = dict(env.column_names)
    assert len(names.pop("action")) == action.shape[-1]
    for leaf, columns in names.items():
        assert len(columns) == (1 if leaf == "lidar" else group["observation", leaf].shape[-1])
    assert env.decision_s == cfg.env.sim.get("decision_s", cfg.env.sim.get("step_s"))


def test_the_recording_is_a_fair_sample_of_all_decisions(monkeypatch):
    monkeypatch.setattr("navrl.export.policies.OBSERVATIONS", 30)
    _, inputs, played = small(*DUEL, num_envs=50)
    time_left = inputs["ego"][:, 5]  # from 1 down to 1/8
    assert len(time_left) == len(played[ACTION]) == 30
    assert len(time_left.unique()) == 8
    assert 0.4 < time_left.mean() < 0.72  # 0.5625 on the whole, with a deviation of 0.23 / sqrt(30)


@pytest.mark.parametrize(
    ("words", "sampled", "sentence"),
    [
        (("env=alice_and_bob", "agent=hmasd"), True, "--sampled is not for policies with skills"),
        (("env=alice_and_bob", "agent=hmasd", "agent.ablation=no_high"), False, "draws its skills"),
    ],
)
def test_policies_that_cannot_leave(words, sampled, sentence):
    with pytest.raises(ConfigError, match=sentence):
        small(*words, sampled=sampled)
