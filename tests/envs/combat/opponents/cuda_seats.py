"""Audits collection against policies on fake CUDA: what waits, and what crosses devices."""

from unittest import mock

from navrl.agents.networks.trunk import Trunk
from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build, compose
from navrl.envs.combat.opponents.frozen import PolicyAdapter
from navrl.envs.combat.opponents.league import Block
from tests.collectors.cuda_audit import DEVICE, audit
from tests.collectors.cuda_iteration import build_agent

NUM_ENVS, STEPS = 8, 2
COMMON = (
    *("compile=off", "agent.network.precision=fp32", "agent.network.hidden_sizes=[8]"),
    *("env.sim.tick_s=0.25", "env.sim.decision_s=0.5"),
)
_HEAVY = ("crank", "phase2", "phase3", "stg_rule", "random", "crank_seed")
CASES = {
    "crank": ("opponent=crank",),  # a single pilot: its tag is a plain number
    "checkpoint": ("opponent=checkpoint",),
    "league": (
        "opponent=league",
        *(f"~opponent.scripts.{part}.{name}" for part in ("pilots", "weights") for name in _HEAVY),
    ),
}


def seat_policies(env, config, agents):
    """Let policies fly on the other side."""
    if config.opponent._target_.endswith("Frozen"):
        seat = PolicyAdapter(
            observation=build(config.env.observation),
            action=build(config.env.action),
            compile_mode="off",
        )
        seat.prepare(env.params, DEVICE)
        env.opponent.install(agents[1].policy, seat)
    if config.opponent._target_.endswith("League"):
        env.opponent.allocate(NUM_ENVS, DEVICE)
        policies = [agent.policy for agent in agents[1:]]
        env.opponent.assign([Block(0, 4, policies[0], 1000), Block(5, 7, policies[1], 1001)])


def collect(overrides):
    """Record the waits and device crossings while the second rollout is collected."""
    config = compose("train", [*COMMON, *overrides])
    plain = compose("train", [*COMMON, "opponent=straight"])
    real = build(plain.env)(num_envs=1, device="cpu", seed=0)
    choices = real.action_spec.nvec.flatten().tolist()
    requested = []
    forward = Trunk.forward

    def counting(self, frames):
        if self is not agents[0].policy.trunk:  # the learner's
            requested.append(len(frames))
        return forward(self, frames)

    with audit([]) as recorder, mock.patch.object(Trunk, "forward", counting):
        env = build(config.env)(num_envs=NUM_ENVS, device=DEVICE, seed=0)
        agents = [build_agent(config, choices, env) for _ in range(3)]
        seat_policies(env, config, agents)
        recorder.truth = False  # nobody is done right after a reset
        collector = SyncCollector(
            env=env, policy=agents[0].policy, rollout_steps=STEPS, total_frames=9 * NUM_ENVS * STEPS
        )
        iterator = iter(collector)
        next(iterator)
        recorder.clear()
        requested.clear()
        rollout = next(iterator)
        found = {"events": recorder.events, "requested": requested}
    devices = {str(v.device) for v in rollout.exclude("policy_version").values(True, True)}
    return found | {"devices": sorted(devices)}


def main() -> dict:
    """All cases."""
    return {name: collect(overrides) for name, overrides in CASES.items()}
