"""The builders: rollouts of an older policy only with leave, policies of other versions refused."""

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import open_dict

from navrl import contracts
from navrl.agents import Correction
from navrl.config.checks import ConfigError
from navrl.config.compose import build, compose
from navrl.ranks import Ranks
from navrl.run.build import allow_lag, build_agent, build_collector, build_env, build_parts
from navrl.run.kinds import check_inbox
from navrl.run.policies import build_policy


class Learner:
    """An agent that counts calls."""

    calls = 0

    def allow_lag(self, correction=None):
        self.calls += 1
        self.correction = correction


@pytest.mark.parametrize(
    ("collector", "calls"), [("sync", 0), ("compressed", 0), ("pipelined", 1), ("folder", 1)]
)
def test_only_a_collector_that_lags_needs_leave(collector, calls):
    agent = Learner()
    allow_lag(compose("train", [f"collector={collector}"]), agent)
    assert agent.calls == calls


def test_a_collector_that_lags_further_has_its_rollouts_corrected():
    agent = Learner()
    allow_lag(compose("train", ["collector=folder", "collector.max_lag=3"]), agent)
    assert agent.correction == Correction(max_lag=3, rho_clip=1.0, c_clip=1.0)
    agent = Learner()
    allow_lag(compose("train", ["collector=folder", "collector.max_lag=0", "strict=true"]), agent)
    assert agent.calls == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["curriculum=cold_start"], r"curriculum with collector=folder; expected curriculum=none"),
        (["checkpoint=none"], r"checkpoint=none with collector=folder; expected checkpoints"),
        (["checkpoint.save_every=6"], r"save_every = 6 .* expected at most 5: .*\.max_lag = 4"),
    ],
)
def test_what_does_not_go_with_rollouts_of_others_is_one_sentence(words, sentence):
    cfg = compose("train", ["collector=folder", *words])
    with pytest.raises(ConfigError, match=sentence):
        check_inbox(cfg, 1)


def test_ranks_do_not_go_with_rollouts_of_others():
    with pytest.raises(ConfigError, match="ranks = 2 with collector=folder; expected one"):
        check_inbox(compose("train", ["collector=folder", "checkpoint.save_every=1"]), 2)


def test_strict_refuses_a_collector_that_lags_and_no_other():
    allow_lag(compose("train", ["collector=stepwise", "strict=true"]), Learner())
    with pytest.raises(ConfigError, match=r"strict = true, and .* use collector=sync"):
        allow_lag(compose("train", ["collector=pipelined", "strict=true"]), Learner())


def test_a_checkpoint_whose_agent_had_other_options_is_one_sentence(compose_cfg):
    config = compose_cfg("compile=off")
    env = build(config.env)(num_envs=1, device="cpu", seed=0)
    with open_dict(config):
        del config.agent.max_kl
    with pytest.raises(ConfigError, match=r"another version of navrl.*'max_kl'"):
        build_policy("old.ckpt", config, {"agent": {"policy": {}}}, env)


@pytest.mark.parametrize("seed", [0, 5, 2**32, 2**62])
def test_every_generator_is_seeded(compose_cfg, seed):
    def drawn(seed):
        sizes = ("num_envs=4", "rollout_steps=8", "agent.num_minibatches=2")
        cfg = compose_cfg("env=coverage", "compile=off", *sizes, f"seed={seed}")
        build_parts(
            SimpleNamespace(
                **{"cfg": cfg, "saved": None, "total": 1, "done": 0, "ranks": Ranks()},
                **{"init": None, "opponent": None, "path": Path()},
            )
        ).collector.shutdown()
        return random.random(), np.random.random(), float(torch.rand(()))

    numbers = drawn(seed)
    assert drawn(seed) == numbers
    others = drawn(seed + 2**32)
    assert all(one != other for one, other in zip(numbers[:2], others, strict=False))


@pytest.mark.parametrize("env", ["combat", "navigation", "alice_and_bob"])
def test_what_is_built_has_every_attribute_of_its_contract(compose_cfg, env):
    """TorchRL's classes carry no types, so mypy cannot miss an attribute of an env or a collector."""
    small = ("world.count=1",) if env == "navigation" else ()
    cfg = compose_cfg(f"env={env}", "compile=off", "num_envs=4", "rollout_steps=8", *small)
    built = build_env(cfg, num_envs=4, seed=0)
    agent = build_agent(cfg, built, num_iterations=1)
    collector = build_collector(cfg, built, agent, total_frames=32)
    parts = ((built, contracts.Env), (agent, contracts.Agent), (collector, contracts.Collector))
    for part, contract in (*parts, (agent.policy, contracts.LearnedPolicy)):
        names = {*contract.__annotations__, *vars(contract)}
        wanted = {name for name in names if not name.startswith("_")}
        assert [name for name in sorted(wanted) if not hasattr(part, name)] == []
    collector.shutdown()
