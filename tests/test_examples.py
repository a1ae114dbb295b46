"""The examples of docs/examples run as they are, at a size of seconds."""

import importlib.util

import pytest
import torch

import navrl
from navrl.config.compose import conf_dir

pytestmark = pytest.mark.commands


def test_sac_of_torchrl_learns_from_our_world():
    path = conf_dir().parent / "docs/examples/sac.py"
    spec = importlib.util.spec_from_file_location("sac", path)
    sac = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sac)
    sac.NUM_ENVS, sac.BATCH = 8, 32
    rate = sac.main(128, "compile=off", "env.sim.time_limit_s=10")
    assert 0.0 <= rate <= 1.0


@pytest.fixture
def make_windy(monkeypatch):
    """make_windy(word, ...) -> three drones in the world of docs/examples/windy."""
    monkeypatch.syspath_prepend(str(conf_dir().parent / "docs/examples"))

    def make(*words):
        return navrl.make("windy", "plugins=[windy]", "compile=off", *words, num_envs=3)

    return make


def drift(env, steps):
    """Let the air take the drones; return their velocities (2, 3) after every step."""
    frames, found = env.reset(), []
    for _ in range(steps):
        _, frames = env.step_and_maybe_reset(frames.set("action", torch.zeros(3, 2)))
        found.append(env.state.velocity)
    return found


def test_the_air_takes_a_drone_without_thrust_along(make_windy):
    """Every step closes drag x step = 1/40 of the gap to the wind, 6 m/s along x."""
    for number, velocity in enumerate(drift(make_windy(), 50), start=1):
        expected = torch.tensor([[6.0 * (1.0 - (39 / 40) ** number)], [0.0]]).expand(2, 3)
        assert torch.allclose(velocity, expected, atol=1e-5)


def test_the_wind_goes_on_turning_when_an_episode_ends_and_after_a_resume(make_windy):
    turning = ("env.sim.turn_deg=30", "env.horizon=2")
    env = make_windy(*turning)
    drift(env, 3)
    again = make_windy(*turning)
    again.reset()
    again.load_runtime_state(env.runtime_state())
    for each in (env, again):
        assert each.wind().flatten().tolist() == pytest.approx(
            [0.0, 6.0], abs=1e-6
        )  # 3 x 30 degrees
