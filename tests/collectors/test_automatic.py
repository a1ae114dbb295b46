"""collector=auto: which way of collecting a budget of memory allows, and what is said about it."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded

from navrl.collectors import automatic
from navrl.collectors import automatic as function
from navrl.collectors.chunked import Compressed, OnHost, Plain
from navrl.config.compose import build, compose
from tests.small_fight import NUM_ENVS, STEPS

MIB = 1 << 20
ENVS, T = 8, 4
SCAN, REST = (
    MIB // 4,
    MIB // 8,
)  # bytes of a frame: of its scan, and of all that is neither scan nor next scan


def stub(device="cpu"):
    """An env whose rollouts of 4 steps take 20 MiB: 8 of scans, as much of next scans, 4 of the rest."""
    told = {"observation": {"scan": torch.zeros(ENVS, SCAN, dtype=torch.uint8)}}
    frame = TensorDict({**told, "next": dict(told)}, batch_size=[ENVS])
    frame["action"] = torch.zeros(ENVS, REST, dtype=torch.uint8)
    spec = Composite(
        observation=Composite(scan=Unbounded((ENVS, SCAN), dtype=torch.uint8), shape=[ENVS]),
        shape=[ENVS],
    )
    return SimpleNamespace(
        device=torch.device(device),
        batch_size=torch.Size([ENVS]),
        fake_tensordict=lambda: frame,
        observation_spec=spec,
    )


def made(name, **_):
    return SimpleNamespace(name=name)


def choose(memory_mb, device="cpu"):
    keys = {"keys": ["observation"], "plain_share": 0.25}
    return automatic(
        memory_mb=memory_mb,
        sync=partial(made, "sync"),
        stepwise=partial(made, "stepwise", steps_at_once=2, form=Plain()),
        host=partial(made, "host", steps_at_once=1, form=OnHost(**keys)),
        compressed=partial(made, "compressed", steps_at_once=1, form=Compressed(threads=1, **keys)),
        env=stub(device),
        policy=None,
        rollout_steps=T,
        total_frames=100,
    )


# sync: 20 for the steps and 20 for the buffer. stepwise: 20, and two steps of four twice. On the host or
# compressed: the rest, a quarter of the scans, one step of four twice; compressed, up to 8 of scans besides.
@pytest.mark.parametrize(
    ("memory_mb", "device", "name"),
    [
        (41, "cpu", "sync"),
        (40.01, "cuda", "sync"),
        (39, "cpu", "compressed"),  # stepwise saves nothing with half of the steps at once
        (39, "cuda", "host"),
        (16.01, "cuda", "host"),
        (16.01, "cpu", "compressed"),
    ],
)
def test_the_first_that_fits_is_taken(memory_mb, device, name):
    assert choose(memory_mb, device).name == name


def test_the_reason_is_told():
    told = choose(20).choice
    assert told == (
        "collector=compressed: a rollout takes 16 to 24 MB, the budget is 20 MB (collector.memory_mb); "
        "sync takes 40 MB; stepwise takes 40 MB"
    )


def test_what_fits_nowhere_is_refused():
    with pytest.raises(
        ValueError, match="8 envs x 4 steps takes 16 to 24 MB with collector=compressed"
    ):
        choose(15)


def test_a_free_budget_is_half_of_what_is_free(monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_AVPHYS_PAGES": 82, "SC_PAGE_SIZE": MIB}.__getitem__)
    assert choose(None).name == "sync"
    monkeypatch.setattr("os.sysconf", {"SC_AVPHYS_PAGES": 78, "SC_PAGE_SIZE": MIB}.__getitem__)
    assert "the budget is 39 MB, half of what is free" in choose(None).choice


@pytest.mark.parametrize("memory_mb", [1000, 0.01])
def test_the_frames_are_those_of_sync(memory_mb, make_env, make_agent, make_collector):
    found = []
    for overrides in (["collector=sync"], ["collector=auto", f"collector.memory_mb={memory_mb}"]):
        torch.manual_seed(0)
        env = make_env()
        policy = make_agent(env).policy
        collector = build(compose("train", overrides).collector)(
            env=env, policy=policy, rollout_steps=STEPS, total_frames=2 * NUM_ENVS * STEPS
        )
        found.append([rollout["observation", "ego"] + 0.0 for rollout in collector])
        found[-1].append(collector.choice)
    assert found[0][-1] == ""
    assert found[1][-1].startswith("collector=")
    assert all(map(torch.equal, found[0][:-1], found[1][:-1]))


def test_frames_of_a_team_are_not_compressed():
    env = build(compose("train", ["env=alice_and_bob", "compile=off"]).env)(
        num_envs=NUM_ENVS, device="cpu", seed=0
    )
    make = build(compose("train", ["collector=auto", "collector.memory_mb=0.001"]).collector)
    assert make.func is function
    with pytest.raises(ValueError, match="with collector=stepwise, and the budget is 0 MB"):
        make(env=env, policy=None, rollout_steps=STEPS, total_frames=100)


@pytest.mark.parametrize("memory_mb", [0, -5.0, float("nan")])
def test_a_budget_of_nothing_names_itself(memory_mb):
    with pytest.raises(ValueError, match=r"memory_mb = .*; expected more than 0, or null"):
        choose(memory_mb)
