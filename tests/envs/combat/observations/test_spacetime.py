"""The sixteen rows: mirror images, exchanged roles, silence where nothing flies, any batch."""

import pytest
import torch

from navrl.envs.combat.observations.spacetime import STG_NAMES, stg_rows
from navrl.envs.combat.sim.reach import reach_table
from navrl.envs.core.compiling import Compiled
from tests.envs.combat.sim.duels import opening, play, put_missile, shipped_params

PARAMS = shipped_params()
TABLE = reach_table(PARAMS)


@pytest.fixture(scope="module")
def fights():
    """Fights in which some have fired, the rudders are where they are."""
    generator = torch.Generator().manual_seed(0)
    draw = torch.rand(2, 64, 4, generator=generator)
    scale = torch.tensor([30_000.0, 30_000.0, 360.0, 250.0])
    table = draw * scale + torch.tensor([0.0, 0.0, 0.0, 200.0])
    fire = torch.rand(2, 64, generator=generator) < 0.5
    rudder = torch.randint(-1, 2, (2, 64), generator=generator).float()
    start = opening(PARAMS, *table.tolist())
    states, _ = play(PARAMS, start, 6, first={"fire": fire}, rudder=rudder)
    state = states[-1]
    assert 20 < state.missiles.active[0, 0].sum() < 50
    return state


def test_what_i_could_do_to_him_he_could_fear_from_me(fights):
    mine, his = (stg_rows(PARAMS, TABLE, fights, me) for me in (0, 1))
    for line in ("left", "right", "current", "critical"):
        attack, defence = (STG_NAMES.index(f"{kind}_{line}") for kind in ("attack", "defence"))
        assert torch.equal(mine[attack], his[defence])
    for line in ("left", "right", "current", "speed"):
        # The same missile: it flies at me, and it is his own.
        incoming, own = STG_NAMES.index(f"incoming_{line}"), STG_NAMES.index(f"own_missile_{line}")
        assert torch.equal(mine[incoming], his[own])


def test_margins_are_in_ten_kilometres_and_their_time_in_minutes():
    # Head-on at 300 m/s nobody escapes from 17.4 km (simulated shots), nor by the graph up to 2.5 % more; ten
    # kilometres further every place of the escape is nearly that much further from the reach. It is tightest
    # when missile and prey are equally fast, after 35 s or so.
    state = opening(PARAMS, *head_on(17.4e3, 27.4e3))
    rows = dict(zip(STG_NAMES, stg_rows(PARAMS, TABLE, state, 0), strict=True))
    for kind in ("defence", "attack"):
        best = torch.maximum(rows[f"{kind}_left"], rows[f"{kind}_right"])
        assert -0.025 * 1.74 < best[0].item() < 0.0
        assert best[1].item() - best[0].item() == pytest.approx(1.0, abs=0.1)
        assert rows[f"{kind}_current"][0].item() < -1.0, "flying on leads deep into reach"
        assert rows[f"{kind}_critical"].tolist() == pytest.approx([35 / 60] * 2, abs=5 / 60)


def head_on(*ranges_m):
    """Place an aircraft that flies east and one at each range that flies west."""
    here = [(0.0, 0.0, 0.0, 300.0)] * len(ranges_m)
    return here, [(range_m, 0.0, 180.0, 300.0) for range_m in ranges_m]


def test_missiles_are_observed_by_their_least_distance_on_each_line():
    # The own missile ends at once, slower than 200 m/s without thrust: no line brings it nearer than 6 km.
    # That of the enemy coasts from 8 km ahead: 1 / v grows by 6.125e-5 / s from 1 / 900. After 7.34 s it has
    # come ln(1 + 6.125e-5 x 900 x 7.34) / 6.125e-5 = 5550 m and who flies on 300 x 7.34 + 9 x 7.34^2 / 2 =
    # 2440 m: they meet, at 1 / (1 / 900 + 6.125e-5 x 7.34) = 641 m/s.
    state = opening(PARAMS, *head_on(20e3))
    state = put_missile(state, 0, target=1, at=(14e3, 0.0, 0.0, 199.0), age_ticks=300)
    state = put_missile(state, 1, target=0, at=(8e3, 0.0, 180.0, 900.0), age_ticks=300)
    rows = dict(zip(STG_NAMES, stg_rows(PARAMS, TABLE, state, 0), strict=True))
    own = [rows[f"own_missile_{name}"].item() for name in ("left", "right", "current", "speed")]
    assert own == pytest.approx([0.6, 0.6, 0.6, 0.199])
    assert rows["incoming_current"].item() < 0.01, "hit"
    assert rows["incoming_speed"].item() == pytest.approx(0.641, abs=0.003)
    assert rows["incoming_left"].item() == pytest.approx(rows["incoming_right"].item())


def test_nothing_in_the_air_is_zeros():
    state = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(20e3, 0.0, 180.0, 300.0)])
    rows = stg_rows(PARAMS, TABLE, state, 0)
    assert [row.item() for row in rows[8:]] == [0.0] * 8
    assert all(row.item() != 0.0 for row in rows[:8])
    threatened = put_missile(state, 1, target=0, at=(9e3, 0.0, 180.0, 800.0), age_ticks=80)
    rows = stg_rows(PARAMS, TABLE, threatened, 0)
    assert all(row.item() != 0.0 for row in rows[8:10])
    assert 0.0 <= rows[10].item() < 0.01, "straight on it is hit"
    assert [row.item() for row in rows[12:]] == [0.0] * 4


def test_a_missile_is_escaped_from_where_it_is_not_from_who_fired_it():
    # The enemy is ahead, its missile comes from the left: away from it is to the right.
    state = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(60e3, 0.0, 180.0, 300.0)])
    state = put_missile(state, 1, target=0, at=(0.0, 9e3, 270.0, 450.0), age_ticks=300)
    rows = dict(zip(STG_NAMES, stg_rows(PARAMS, TABLE, state, 0), strict=True))
    assert rows["incoming_right"].item() > rows["incoming_left"].item() + 0.1
    assert rows["defence_right"].item() == pytest.approx(rows["defence_left"].item(), abs=1e-6)


def test_in_a_team_the_own_missile_is_seen_with_its_own_target():
    params = shipped_params(team_size=2)
    red = [(0.0, 0.0, 0.0, 300.0)], [(0.0, 30e3, 0.0, 300.0)]
    blue = [(40e3, 0.0, 180.0, 300.0)], [(20e3, 30e3, 180.0, 300.0)]
    state = opening(params, *red, *blue)
    at = (17e3, 30e3, 0.0, 900.0)
    rows = [
        stg_rows(params, TABLE, put_missile(state, 0, target=target, at=at, age_ticks=90), 0)
        for target in (2, 3)
    ]
    current = STG_NAMES.index("own_missile_current")
    assert rows[1][current].item() < 0.01, "3 km before its nose"
    assert rows[0][current].item() > 1.0, "35 km away"


@pytest.mark.slow
def test_compiled_rows_are_the_eager_ones(fights):
    def rows(state):
        return stg_rows(PARAMS, TABLE, state, 0)

    compiled = Compiled(rows, "on")
    for a, b in zip(compiled(fights), rows(fights), strict=True):
        assert (a - b).abs().max() < 1e-4
