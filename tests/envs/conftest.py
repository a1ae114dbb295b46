"""The envs that the contract is checked on, each with short episodes."""

import functools

import pytest

from navrl.config.compose import build, compose
from tests.envs.playing import play, random_actions, stacked

_SHORT = ("opponent=crank", "scenario.range_m=[4000,20000]", "env.sim.time_limit_s=20")
_TEAM = ("opponent=crank", "scenario.range_m=[3000,9000]", "env.sim.time_limit_s=20")
_COARSE = "env.sim.tick_s=0.25"  # quicker, and nothing here depends on it
_SPARSE = (
    *("world.count=2", "world.routes_per_world=4", "world.renew_episodes=null"),
    *("world.map.count=20", "world.difficulty.static=20"),
    *("env.sim.time_limit_s=0.9", "world.routes.z_m=[0.25,0.35]"),
)
_FEW_USERS = ("env.sim.num_users=13", "env.sim.radio.max_users=3", "env.sim.horizon=12")
# A new env is one more line: its option and overrides under which everybody finishes two
# episodes within 50 steps of random play, some of them terminated and some truncated.
ENVS = {
    "combat": ("env=combat", *_SHORT, _COARSE),
    "combat, any rudder": ("env=combat", "action=continuous", *_SHORT, _COARSE),
    "navigation": ("env=navigation", *_SPARSE, "env.sim.vary.latency_decisions=[0,2]"),
    "navigation, as published": (
        "env=navigation_compat",
        "world=forest",
        *_SPARSE,
        "env.sim.decision_s=0.05",
    ),
    "alice_and_bob": ("env=alice_and_bob", "env.sim.size=3", "env.sim.horizon=17"),
    "alice_and_bob, flags": (
        *("env=alice_and_bob", "observation=one_hot"),
        *("env.sim.num_agents=3", "env.sim.size=3", "env.sim.horizon=15"),
    ),
    "coverage": ("env=coverage", *_FEW_USERS),
    "coverage, walking users": (
        *("env=coverage", "observation=relative", *_FEW_USERS, "env.sim.user_speed_mps=40"),
        *("env.sim.users=cluster", "env.sim.radio.channel=3gpp"),
        *("env.sim.radio.shadowing=per_episode", "env.reward_split=per_agent"),
    ),
    "coverage, relays": (
        *("env=coverage_relay", *_FEW_USERS),
        *("env.sim.users=hotspot", "env.sim.radio.min_sinr_db=-5"),
    ),
    "combat, a team": ("env=combat", "env.team_size=2", "observation=entities", *_TEAM, _COARSE),
}

ENDLESS = {name for name in ENVS if name.startswith("coverage")}  # nothing terminates them
FEW_OPENINGS = {
    name for name in ENVS if name.startswith("alice_and_bob")
}  # that agents see as different


@functools.cache
def configuration(*overrides):
    return compose("train", ["compile=off", *overrides])


@pytest.fixture(params=ENVS)
def env_name(request):
    """A line of ENVS."""
    return request.param


@pytest.fixture
def make_env(env_name):
    """make_env(num_envs=8, seed=0, first_env_id=0) -> an env of short episodes."""
    return functools.partial(_build, env_name)


@pytest.fixture
def rollout(env_name):
    """A rollout of make_env() under random_actions, for tests that only read it."""
    return _played(env_name)


def _build(env_name, num_envs=8, seed=0, **options):
    config = configuration(*ENVS[env_name])
    return build(config.env)(num_envs=num_envs, device="cpu", seed=seed, **options)


@functools.cache
def _played(env_name):
    env = _build(env_name)
    return stacked(play(env, random_actions(env))).lock_()
