"""Small envs and agents for the tests of lessons, leagues and frozen policies."""

import functools

import torch

from navrl.config.compose import build, compose

SCRIPTS = ("straight", "pursuit")
_OTHERS = ("random", "crank_seed", "crank", "phase2", "phase3", "stg_rule")
# Two cheap scripts; fights so near that they end within a few decisions, some by a kill.
LEAGUE = (
    "opponent=league",
    *(f"~opponent.scripts.pilots.{name}" for name in _OTHERS),
    *(f"~opponent.scripts.weights.{name}" for name in _OTHERS),
)
SHORT = (
    "scenario=mixture",
    "scenario.scenarios.mid_random.range_m=[4000,9000]",
    *(f"~scenario.scenarios.{name}" for name in ("game28", "standard30", "far40", "box10")),
    *(f"~scenario.weights.{name}" for name in ("game28", "standard30", "far40", "box10")),
    "env.sim.time_limit_s=12",
)
_SMALL = ("compile=off", "agent.network.hidden_sizes=[8]", "agent.network.precision=fp32")


@functools.cache
def configuration(*overrides):
    """Return the train configuration, tiny and eager."""
    return compose("train", [*LEAGUE, *SHORT, *_SMALL, *overrides])


def make_env(num_envs=8, *overrides, seed=0):
    """Build air combat against a league of two scripts, unless overrides change it."""
    config = configuration(*overrides)
    return build(config.env)(num_envs=num_envs, device="cpu", seed=seed)


def make_agent(env, *overrides, seed=0):
    """Build an agent with other weights for every seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        agent = build(configuration(*overrides).agent)(
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            device="cpu",
            num_iterations=10,
        )
        for parameter in agent.policy.parameters():  # the first policy of all is close to uniform
            parameter.data.add_(0.5 * torch.randn_like(parameter))
        return agent
