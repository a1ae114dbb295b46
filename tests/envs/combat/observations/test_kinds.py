"""Properties of every observation: shapes, rows that depend neither on the batch nor on turns, and bounds."""

import pytest
import torch

from navrl.envs.combat.observations.ego import Ego
from navrl.envs.combat.observations.entities import Entities
from navrl.envs.combat.observations.legacy import Dict10, Warp21
from navrl.envs.combat.sim.reach import ReachTable
from navrl.envs.core.rewards import require_reads
from tests.envs.combat.observations.pictures import in_float32, random_state, turned
from tests.envs.combat.sim.duels import env_rows, shipped_params

KINDS = {
    "ego": (lambda: Ego(spacetime=False), {}),
    "ego, two channels": (lambda: Ego(spacetime=False), {"channels": 2}),
    "ego, three against three": (lambda: Ego(spacetime=False), {"team_size": 3}),
    "ego_spacetime": (lambda: Ego(spacetime=True), {}),
    "entities, two channels": (lambda: Entities(team_size=3), {"team_size": 3, "channels": 2}),
    "entities, one against one": (lambda: Entities(team_size=1), {}),
    "warp21": (Warp21, {}),
    "dict10": (Dict10, {}),
    "dict10, two against two": (Dict10, {"team_size": 2}),
}
INVARIANT = [name for name in KINDS if not name.startswith(("warp21", "dict10"))]

# previous rudder, sin bearing, sin aspect, line-of-sight rate, sines of own and incoming missile
NEGATED = {"ego": [1, 8, 10, 14, 20, 28], "entities": [3, 5, 9]}
# of the space-time graph left and right: defence, attack, incoming missile, own missile
EXCHANGED = ((32, 33), (36, 37), (40, 41), (44, 45))


def prepared(name, dtype=torch.float32):
    """The observation, its table if any in this dtype, the fight that it is for, and all aircraft."""
    make, changes = KINDS[name]
    params, observation = shipped_params(**changes), make()
    observation.prepare(params, "cpu")
    if getattr(observation, "_table", None) is not None:
        observation._table = ReachTable(*(field.to(dtype) for field in observation._table))
    return observation, params, range(2 * params.team_size)


@pytest.mark.parametrize("name", KINDS)
def test_leaves_have_the_declared_shapes(name):
    observation, params, everybody = prepared(name)
    state = in_float32(random_state(params, count=7))
    for me in everybody:
        rows = observation.rows(params, state, me)
        shapes = {leaf: tuple(value.shape) for leaf, value in rows.items()}
        assert shapes == {leaf: (*shape, 7) for leaf, shape in observation.leaves.items()}
        for leaf, value in rows.items():
            assert value.dtype == (torch.bool if leaf.endswith("_mask") else torch.float32)
            assert value.isfinite().all()


@pytest.mark.parametrize("name", KINDS)
def test_a_fight_is_observed_alike_in_any_batch(name):
    observation, params, everybody = prepared(name)
    state = in_float32(random_state(params, count=67))
    for me in everybody:
        many = observation.rows(params, state, me)
        for number in (0, 66):
            alone = observation.rows(params, env_rows(state, [number]), me)
            assert all(torch.equal(alone[leaf], many[leaf][..., [number]]) for leaf in many)


SLOW_TO_TRACE = pytest.param("ego_spacetime", marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "name", [SLOW_TO_TRACE if name == "ego_spacetime" else name for name in KINDS]
)
def test_it_can_be_traced_as_one_graph(name):
    observation, params, everybody = prepared(name)
    state = in_float32(random_state(params, count=5))
    traced = torch.compile(observation.rows, backend="eager", fullgraph=True, dynamic=False)
    me = everybody[-1]
    found, expected = traced(params, state, me), observation.rows(params, state, me)
    assert all(torch.equal(found[leaf], expected[leaf]) for leaf in expected)


@pytest.mark.parametrize("name", INVARIANT)
def test_turning_and_moving_the_picture_changes_nothing(name):
    observation, params, everybody = prepared(name, torch.float64)
    state = random_state(params)
    for me in everybody:
        found = observation.rows(params, turned(state), me)
        for leaf, expected in observation.rows(params, state, me).items():
            torch.testing.assert_close(found[leaf], expected, atol=1e-9, rtol=0.0)


@pytest.mark.parametrize("name", INVARIANT)
def test_everything_is_within_five(name):
    observation, params, everybody = prepared(name, torch.float64)
    close = random_state(params)
    motion = close.aircraft.motion._replace(
        x_m=close.aircraft.motion.x_m / 4e4, y_m=close.aircraft.motion.y_m / 4e4
    )
    state = close._replace(aircraft=close.aircraft._replace(motion=motion))  # within a metre
    for me in everybody:
        for leaf, value in observation.rows(params, state, me).items():
            assert leaf.endswith("_mask") or value.abs().max() == 5.0


@pytest.mark.parametrize("make", dict.fromkeys(make for make, _ in KINDS.values()))
def test_another_env_is_refused(make):
    with pytest.raises(ValueError, match=r"^observation Kind reads an env with CombatParams, and"):
        require_reads("observation Kind", type(make()), object())
