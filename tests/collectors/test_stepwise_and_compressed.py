"""collector=stepwise and compressed: the run of collector=sync, in less memory."""

import pytest
import torch

from navrl.collectors.lazy_tensor import LazyTensor
from navrl.config.compose import build, compose
from navrl.storage.rollouts import load_rollout
from tests.small_fight import NUM_ENVS, STEPS

OPTIONS = ("stepwise", "compressed")
REFERENCE = {}  # the run of sync, made once


def collector_of(option, env, policy, *overrides, steps=STEPS, iterations=3):
    cfg = compose("train", [f"collector={option}", *overrides])
    return build(cfg.collector)(
        env=env, policy=policy, rollout_steps=steps, total_frames=iterations * NUM_ENVS * steps
    )


@pytest.fixture
def train(make_env, make_agent):
    """train(option, *overrides) -> agent, metrics of every iteration, clones of every rollout."""

    def run(option, *overrides, steps=STEPS + 1):
        torch.manual_seed(0)
        env = make_env()
        agent = make_agent(env)
        collector = collector_of(option, env, agent.policy, *overrides, steps=steps)
        metrics, rollouts = [], []
        for rollout in collector:
            rollouts.append(rollout.clone().apply(lambda leaf: leaf + 0))  # plain in any case
            metrics.append(agent.update(rollout))
        collector.shutdown()
        return agent, metrics, rollouts

    return run


def same(one, other):
    return (
        all(same(one[key], other[key]) for key in one | other)
        if isinstance(one, dict)
        else torch.equal(one, other)
        if isinstance(one, torch.Tensor)
        else all(map(same, one, other))
        if isinstance(one, list)
        else one == other
    )


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("share", [0.01, 0.6])
def test_weights_metrics_and_frames_are_those_of_sync_to_the_bit(train, option, share):
    if "sync" not in REFERENCE:
        REFERENCE["sync"] = train("sync")
    wanted = REFERENCE["sync"]
    more = () if option == "stepwise" else (f"collector.unpacked_share={share}",)
    found = train(option, "collector.steps_at_once=4", *more)  # of 6 steps, 3 at a time
    assert same(found[0].state_dict(), wanted[0].state_dict())
    assert found[1] == wanted[1]
    for one, other in zip(found[2], wanted[2], strict=True):
        assert (one == other).all()
        assert one.names == other.names


@pytest.mark.parametrize("option", OPTIONS)
def test_going_on_is_going_on_with_sync(option, make_env, make_agent):
    env = make_env()
    agent = make_agent(env)
    first = collector_of(option, env, agent.policy)
    next(iter(first))
    saved = env.runtime_state(), first.runtime_state(), torch.get_rng_state()
    (expected, *_) = [rollout.clone() for rollout in first]
    other_env = make_env(seed=5)
    other = collector_of("sync", other_env, agent.policy)
    other_env.load_runtime_state(saved[0])
    other.load_runtime_state(saved[1])
    torch.set_rng_state(saved[2])
    found = next(iter(other))
    assert torch.equal(found["observation", "ego"], expected["observation", "ego"] + 0.0)
    assert torch.equal(found["action"], expected["action"])


def test_compressed_tensors_are_lazy_and_the_rest_is_not(make_env, make_agent):
    env = make_env()
    rollout = next(iter(collector_of("compressed", env, make_agent(env).policy)))
    leaves = {key for key, leaf in rollout.items(True, True) if isinstance(leaf, LazyTensor)}
    kept = {("observation", "ego"), "episode"}
    assert leaves == kept | {("next", *((key,) if key == "episode" else key)) for key in kept}


def test_what_a_batch_holds_is_counted(make_env, make_agent):
    env = make_env()
    collector = collector_of("compressed", env, make_agent(env).policy)
    rollout = next(iter(collector))
    plain = sum(
        leaf.numel() * leaf.element_size()
        for leaf in rollout.exclude("policy_version").values(True, True)
    )
    rows = rollout.select("action", "action_log_prob", "action_mask", "done", "terminated")
    rest = sum(leaf.numel() * leaf.element_size() for leaf in rows.values(True, True))
    metrics = collector.metrics()
    held = metrics["memory/batch_mb"] * 2**20
    assert rest < held < 2.0 * plain
    assert metrics["memory/batch_share"] == pytest.approx(held / plain)
    assert metrics["time/pack"] > 0.0
    (rollout["observation", "ego"] + 0.0).sum()
    again = collector.metrics()
    made = rollout["observation", "ego"].numel() * 4
    assert again["memory/batch_mb"] * 2**20 == pytest.approx(held + made)
    assert again["time/unpack"] > 0.0


def test_a_rollout_may_be_written_to_disk(tmp_path, make_env, make_agent):
    env = make_env()
    keep = build(compose("train", ["rollouts=disk", "rollouts.save_every=1"]).rollouts)
    storage = keep(directory=tmp_path)
    rollout = next(iter(collector_of("compressed", env, make_agent(env).policy)))
    storage.save(rollout, iteration=1)
    read = load_rollout(tmp_path / "rollout_000001.nvrl")
    assert torch.equal(
        read["next", "observation", "ego"], rollout["next", "observation", "ego"] + 0.0
    )
    assert torch.equal(read["action"], rollout["action"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "collector.keys=[observation,heading]",
            "collector.keys names heading, and the env observes",
        ),
        (
            "collector.unpacked_share=0",
            "collector.unpacked_share = 0; expected a finite number above 0",
        ),
        ("collector.threads=0", "collector.threads = 0; expected a whole number, 1 or more"),
        (
            "collector.steps_at_once=0",
            "collector.steps_at_once = 0; expected a whole number, 1 or more",
        ),
    ],
)
def test_options_that_mean_nothing_get_a_sentence(override, message, make_env, make_agent):
    env = make_env()
    with pytest.raises((ValueError, TypeError), match=message):
        collector_of("compressed", env, make_agent(env).policy, override)


def test_a_team_is_refused():
    cfg = compose("train", ["env=alice_and_bob", "compile=off"])
    env = build(cfg.env)(num_envs=NUM_ENVS, device="cpu", seed=0)
    with pytest.raises(ValueError, match="use collector=stepwise"):
        collector_of("compressed", env, None)
