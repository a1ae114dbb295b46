"""The examples of docs/examples run as they are, at a size of seconds."""

import importlib.util

import pytest

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
