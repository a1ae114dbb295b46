"""Collected by the collector, played by evaluations, saved and resumed: in the envs for teams."""

import copy

import pytest
import torch

from navrl.agents.hmasd.returns import ENDS
from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build, compose
from navrl.envs.combat.opponents.frozen import Frozen
from tests.selfplay.fakes import league

NUM_ENVS, STEPS = 4, 15
COARSE = "env.sim.tick_s=0.25"


ENVS = {
    "alice_and_bob": ("env=alice_and_bob", "env.sim.size=2", "env.sim.horizon=7"),
    "coverage": (
        "env=coverage",
        "observation=relative",
        "env.sim.num_users=4",
        "env.sim.horizon=7",
    ),
    "combat": ("experiment=combat_commander", "opponent=pursuit", "env.sim.time_limit_s=7", COARSE),
}


class Session:
    """Env, agent and collector as the train command makes them."""

    def __init__(self, name="alice_and_bob", *overrides):
        small = ("agent=hmasd", "compile=off", "agent.k=3", "agent.network.hidden_sizes=[8]")
        config = compose("train", [*ENVS[name], *small, *overrides])
        self.env = build(config.env)(num_envs=NUM_ENVS, device="cpu", seed=0)
        self.agent = build(config.agent)(
            observation_spec=self.env.observation_spec,
            action_spec=self.env.action_spec,
            device="cpu",
            num_iterations=4,
        )
        self.collector = SyncCollector(
            env=self.env,
            policy=self.agent.policy,
            rollout_steps=STEPS,
            total_frames=4 * NUM_ENVS * STEPS,
        )
        self.rollouts = iter(self.collector)

    def round(self):
        return self.agent.update(next(self.rollouts))

    def state(self):
        parts = (self.agent.state_dict(), self.env.runtime_state(), self.collector.runtime_state())
        return copy.deepcopy((*parts, torch.get_rng_state()))

    def load(self, state):
        agent, env, collector, rng = state
        self.agent.load_state_dict(agent)
        self.env.load_runtime_state(env)
        self.collector.load_runtime_state(collector)
        torch.set_rng_state(rng)


@pytest.mark.parametrize("name", ENVS)
def test_iterations_in_an_env(name):
    session = Session(name)
    for number in range(2):
        metrics = session.round()
        assert metrics["sync/policy_version"] == number + 1
        assert max(metrics["low/sync/replay_error"], metrics["high/sync/replay_error"]) <= 1e-5
        assert metrics["sync/stale_frames"] == 0
        counted = [metrics[f"high/ended_by/{name}"] for name in ENDS]
        assert sum(counted) == metrics["high/decisions"]
        assert all(value == value for value in metrics.values())


def test_a_policy_for_the_whole_team_is_refused_as_an_opponent():
    policy = Session("combat").agent.policy
    with pytest.raises(ValueError, match="decides for its whole team at once"):
        Frozen(checkpoint="latest", observation=None, action=None).install(policy, None)
    found, club = league()
    club.policy = policy
    with pytest.raises(ValueError, match="choose agent=ppo, ippo or mappo"):
        found.attach(club, club)


def test_a_fresh_process_goes_on_bit_for_bit():
    straight = Session()
    straight.round()
    state = straight.state()
    expected = [straight.round(), straight.round()]
    resumed = Session()
    resumed.load(state)
    assert [resumed.round(), resumed.round()] == expected
    for key, tensor in straight.agent.state_dict()["policy"].items():
        assert torch.equal(resumed.agent.state_dict()["policy"][key], tensor)
