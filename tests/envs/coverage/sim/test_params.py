"""Impossible constants of the simulator are refused in one sentence."""

import pytest

from tests.envs.coverage.sim.layouts import params_of


@pytest.mark.parametrize(
    ("change", "found", "expected"),
    [
        ("num_drones=0", "0", "a whole number from 1 to 32"),
        ("num_users=257", "257", "a whole number from 1 to 256"),
        ("horizon=0", "0", "a whole number from 1"),
        ("height_m=[90,90]", "[90", "[low, high], 0 <= low < high"),
        ("side_m=-1", "-1", "a finite number above 0"),
        ("users=ring", "ring", "one of uniform, hotspot, cluster"),
        ("user_speed_mps=-1", "-1", "a finite number of at least 0"),
        ("radio.channel=tunnel", "tunnel", "one of free_space, urban, suburban, 3gpp"),
        ("radio.shadowing=per_episode", "per_episode", "none, unless the channel is 3gpp"),
        ("radio.carrier_hz=0", "0", "a finite number above 0"),
        ("radio.max_users=0", "0", "a whole number from 1"),
        ("radio.noise_dbm=nan", "nan", "a finite number of at least -200 and of at most 200"),
        ("backhaul.stations=[]", "[]", "one or more places [x, y, z]"),
        ("backhaul.stations=[[1,2]]", "[[1", "one or more places [x, y, z]"),
        ("backhaul.max_hops=0", "0", "a whole number from 1 to 32"),
        ("backhaul.length=metres", "metres", "one of links, original"),
    ],
)
def test_impossible_constants_are_refused(change, found, expected):
    option = f"env.sim.{change.split('=')[0]}"
    with pytest.raises(ValueError, match="expected") as refused:
        params_of("coverage_relay", f"env.sim.{change}")
    sentence = str(refused.value)
    assert sentence.startswith(f"{option} = {found}")
    assert f"; expected {expected}" in sentence
    assert sentence.endswith(f"; change {option}")
    assert "\n" not in sentence
