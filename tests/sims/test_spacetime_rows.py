"""The sixteen rows: mirror images, exchanged roles, silence where nothing flies, any batch."""

import pytest
import torch

from navrl.compiled import Compiled
from navrl.sims.lines import Steered, three_lines
from navrl.sims.missile_line import Shot, closest_approach
from navrl.sims.reach import reach_table
from navrl.sims.relative import aircraft, incoming_missile, own_missile
from navrl.sims.spacetime import TEN_TIMES_S, margins
from navrl.sims.spacetime_rows import STG_NAMES, stg_rows
from tests.sims.duels import env_rows, opening, play, put_missile, shipped_params

PARAMS = shipped_params()
TABLE = reach_table(PARAMS)
_PAIRS = {"left": "right", "right": "left"}
MIRRORED = [
    STG_NAMES.index(f"{group}_{_PAIRS.get(line, line)}")
    for group, _, line in (name.rpartition("_") for name in STG_NAMES)
]


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


def mirrored(state):
    """The same fights seen in a mirror along x."""

    def flip(motion):
        return motion._replace(y_m=-motion.y_m, sin_heading=-motion.sin_heading)

    craft, flying = state.aircraft, state.missiles
    return state._replace(
        aircraft=craft._replace(motion=flip(craft.motion), rudder=-craft.rudder),
        missiles=flying._replace(motion=flip(flying.motion)),
    )


def test_there_are_sixteen_with_names(fights):
    assert len(STG_NAMES) == len(set(STG_NAMES)) == 16
    rows = stg_rows(PARAMS, TABLE, fights, 0)
    assert len(rows) == 16
    for row in rows:
        assert row.shape == (64,)
        assert row.abs().max() <= 5.0
        assert row.std() > 0.01, "it tells something"


def test_in_the_mirror_left_and_right_change_places_bit_for_bit(fights):
    rows, images = (stg_rows(PARAMS, TABLE, state, 0) for state in (fights, mirrored(fights)))
    assert sorted(MIRRORED) == list(range(16))
    assert MIRRORED[:4] == [1, 0, 2, 3]
    for row, image in enumerate(MIRRORED):
        assert torch.equal(images[row], rows[image]), STG_NAMES[row]


def test_what_i_could_do_to_him_he_could_fear_from_me(fights):
    mine, his = (stg_rows(PARAMS, TABLE, fights, me) for me in (0, 1))
    for line in ("left", "right", "current", "critical"):
        attack, defence = (STG_NAMES.index(f"{kind}_{line}") for kind in ("attack", "defence"))
        assert torch.equal(mine[attack], his[defence])
    for line in ("left", "right", "current", "speed"):
        # The same missile: it flies at me, and it is his own.
        incoming, own = STG_NAMES.index(f"incoming_{line}"), STG_NAMES.index(f"own_missile_{line}")
        assert torch.equal(mine[incoming], his[own])


def test_rows_are_the_parts_in_their_units(fights):
    rows = dict(zip(STG_NAMES, stg_rows(PARAMS, TABLE, fights, 0), strict=True))
    crafts = [
        Steered(aircraft(fights, me), fights.aircraft.rudder[me], fights.aircraft.throttle[me])
        for me in (0, 1)
    ]
    found = margins(PARAMS, TABLE.at(TEN_TIMES_S), crafts[1].motion, crafts[0])
    for name, value, unit in (
        ("defence_left", found.left_m, 1e4),
        ("defence_right", found.right_m, 1e4),
        ("defence_current", found.current_m, 1e4),
        ("defence_critical", found.critical_s, 60.0),
    ):
        assert torch.allclose(rows[name], (value / unit).clamp(-5.0, 5.0), atol=1e-6)
    for name, prey, missile in (
        ("incoming", crafts[0], incoming_missile(PARAMS, fights, 0)),
        ("own_missile", crafts[1], own_missile(PARAMS, fights, 0)),
    ):
        line = three_lines(PARAMS.fighter, prey, missile.motion)
        closest = closest_approach(PARAMS, Shot(missile.motion, missile.age_s), line)
        expected = [*(closest.miss_m / 1e4), closest.speed_mps[2] / 1e3]
        for kind, value in zip(("left", "right", "current", "speed"), expected, strict=True):
            shown = (value * missile.active).clamp(-5.0, 5.0)
            assert torch.allclose(rows[f"{name}_{kind}"], shown, atol=1e-5)


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


@pytest.mark.parametrize("rows", [[0], [63], [5, 6, 7], list(range(20, 53))])
def test_a_row_does_not_depend_on_its_batch(fights, rows):
    whole = stg_rows(PARAMS, TABLE, fights, 0)
    part = stg_rows(PARAMS, TABLE, env_rows(fights, rows), 0)
    for a, b in zip(whole, part, strict=True):
        assert torch.equal(a[rows], b)


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
