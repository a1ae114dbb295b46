"""Small navigation envs for tests."""

from navrl.config.compose import build, compose


def make_env(*overrides, name="navigation", num_envs=8, seed=0):
    """Build an env that is not compiled."""
    config = compose("train", [f"env={name}", "compile=off", *overrides])
    return build(config.env)(num_envs=num_envs, device="cpu", seed=seed)
