"""Small navigation envs for tests."""

from navrl.config.compose import build, compose
from navrl.envs.navigation.sim.advance import scan, static_in_sight


def make_env(*overrides, name="navigation", num_envs=8, seed=0):
    """Build an env that is not compiled."""
    config = compose("train", [f"env={name}", "compile=off", *overrides])
    return build(config.env)(num_envs=num_envs, device="cpu", seed=seed)


def scanned(env, state):
    """The true range of every beam, (beams * rings, N)."""
    sight = static_in_sight(env.worlds.grid, env.worlds.openings.worlds, state)
    return scan(env.params, sight, state)
