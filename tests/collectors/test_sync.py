"""collector=sync: what a rollout is, who collected it, and going on from a checkpoint."""

import pytest
import torch
from tensordict.nn import TensorDictModuleBase

from tests.small_fight import NUM_ENVS, STEPS


class Counting(TensorDictModuleBase):
    """Flies straight, and counts the steps of its episode in a memory of its own."""

    in_keys = (("observation", "ego"),)
    out_keys = ("action", "hidden", ("next", "hidden"))

    def forward(self, tensordict):
        hidden = tensordict.get("hidden", torch.zeros(NUM_ENVS, 2))
        tensordict.set("action", torch.tensor([[1, 0]] * NUM_ENVS))
        tensordict.set("hidden", hidden)
        return tensordict.set(("next", "hidden"), hidden + 1.0)


@pytest.fixture
def trio(make_env, make_agent, make_collector):
    """Env, agent and collector."""
    env = make_env()
    agent = make_agent(env)
    return env, agent, make_collector(env, agent.policy)


def test_rollouts_are_envs_by_steps_until_the_frames_are_used_up(trio):
    _, _, collector = trio
    shapes = [(tuple(rollout.shape), rollout.names) for rollout in collector]
    assert shapes == 4 * [((NUM_ENVS, STEPS), [None, "time"])]


def test_frames_follow_each_other_and_rollouts_too(trio):
    _, _, collector = trio
    last = None
    for rollout in collector:
        frames = rollout.clone()
        done = frames["next", "done"].squeeze(-1)
        ends, starts = frames["next", "observation", "ego"], frames["observation", "ego"]
        running = ~done[:, :-1]
        assert torch.equal(starts[:, 1:][running], ends[:, :-1][running])
        if last is not None:
            running = ~last["next", "done"].squeeze(-1)
            assert torch.equal(starts[:, 0][running], last["next", "observation", "ego"][running])
        last = frames[:, -1]


def test_keys_of_the_user_never_reach_the_buffer(trio):
    _, _, collector = trio
    expected = None
    for rollout in collector:
        keys = set(rollout.keys(True, True))
        assert expected in (None, keys)
        expected = keys
        rollout["advantage"] = torch.zeros(NUM_ENVS, STEPS, 1)
        rollout["next", "state_value"] = torch.zeros(NUM_ENVS, STEPS, 1)
        rollout["observation", "mine"] = torch.zeros(NUM_ENVS, STEPS, 1)
        rollout.pop("action_log_prob")
        rollout["next"].pop("reward")
    assert {"action_log_prob", ("next", "reward")} <= expected


def test_only_the_fast_path_is_used(trio, monkeypatch):
    env, _, collector = trio
    calls = []

    def watch(name):
        original = getattr(env, name)

        def counted(*args, **kwargs):
            calls.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(env, name, counted)

    for name in ("step_and_maybe_reset", "step", "_step", "reset", "_reset", "maybe_reset"):
        watch(name)
    finished = sum(int(rollout["next", "done"].sum()) for rollout in collector)
    assert finished > 0
    assert calls == 4 * STEPS * ["step_and_maybe_reset"]


def test_collection_goes_on_bit_for_bit(trio, make_env, make_agent, make_collector):
    env, agent, collector = trio
    iterator = iter(collector)
    for _ in range(2):
        next(iterator)
    saved = env.runtime_state(), collector.runtime_state(), torch.get_rng_state()
    expected = [next(iterator).clone() for _ in range(2)]
    other_env = make_env(seed=99)
    other_agent = make_agent(other_env)
    other_agent.load_state_dict(agent.state_dict())
    other = make_collector(other_env, other_agent.policy, iterations=2)
    other_env.load_runtime_state(saved[0])
    other.load_runtime_state(saved[1])
    torch.set_rng_state(saved[2])
    found = [rollout.clone() for rollout in other]
    for one, two in zip(found, expected, strict=True):
        assert set(one.keys(True, True)) == set(two.keys(True, True))
        assert (one.exclude("policy_version") == two.exclude("policy_version")).all()


def test_a_policy_may_carry_a_memory(make_env, make_collector):
    env = make_env()
    lengths = []
    for rollout in make_collector(env, Counting()):
        length = rollout["episode"][..., env.episode_keys.index("length")]
        assert torch.equal(rollout["hidden"], length.unsqueeze(-1).expand(-1, -1, 2))
        assert torch.equal(rollout["next", "hidden"], rollout["hidden"] + 1.0)
        lengths.append(length.clone())
    lengths = torch.cat(lengths, 1)
    assert lengths.max() > STEPS  # a memory longer than a rollout
    assert (lengths[:, 1:] == 0.0).any()  # and one that ended


def test_a_rollout_without_steps_is_refused(make_env, make_agent, make_collector):
    env = make_env()
    with pytest.raises(ValueError, match="rollout_steps = 0; expected a whole number, 1 or more"):
        make_collector(env, make_agent(env).policy, rollout_steps=0)
