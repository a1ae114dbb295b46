"""Observations of coverage: layouts by hand, and soft counts against loops."""

import itertools
import math

import pytest
import torch

from navrl.envs.coverage.observations import (
    Histogram,
    Raw,
    Relative,
    ServiceGrid,
    _add_to_all,
    _add_to_four,
    soft_counts,
)
from navrl.envs.coverage.sim.advance import initial_state
from navrl.envs.coverage.sim.backhaul import Backhaul
from tests.envs.coverage.sim.layouts import DRONES, SMALL, USERS, params_of, rows, state_at
from tests.envs.playing import keys


def observe(kind, params, state):
    kind.prepare(params, "cpu")
    leaves = kind.rows(params, state)
    envs = state.step.shape[0]
    assert {name: row.shape for name, row in leaves.items()} == {
        name: (params.num_drones, *shape, envs) for name, shape in kind.leaves.items()
    }
    critic = kind.state_rows(params, state)
    assert critic.shape == (kind.state_size, envs)
    return leaves, critic


def test_raw_is_the_originals_layout():
    params = params_of("coverage", *SMALL, "env.sim.horizon=8")
    state = state_at(params, rows(DRONES), rows(USERS))._replace(step=torch.tensor([2]).int())
    leaves, critic = observe(Raw(), params, state)
    drones, users = ([*itertools.chain(*places)] for places in (DRONES, USERS))
    assert leaves["places"][1, :, 0].tolist() == [*DRONES[1], *users, *drones, 0.25]
    assert critic[:, 0].tolist() == [*drones, *users, 0.25]


@pytest.mark.parametrize(("env", "size"), [("coverage", 119), ("coverage_compat", 124)])
def test_raw_has_the_originals_size(env, size):
    kind = Raw()
    kind.prepare(params_of(env), "cpu")
    assert (kind.leaves, kind.state_size) == ({"places": (size,)}, 116)


def test_relative_by_hand():
    params = params_of("coverage", *SMALL)
    leaves, _ = observe(Relative(), params, state_at(params, rows(DRONES), rows(USERS)))
    expected = {"own": [-0.6, -0.4, 0.0, 0.0], "mates": [0.5, 0.3, 0.02]}
    assert leaves["own"][0, :, 0].tolist() == pytest.approx(expected["own"])
    assert leaves["mates"][0, 0, :, 0].tolist() == pytest.approx(expected["mates"])
    assert leaves["mates"][1, 0, :, 0].tolist() == pytest.approx([-0.5, -0.3, -0.02])
    users = torch.tensor([[0.05, 0.05], [0.4, 0.2], [0.7, 0.6]])
    torch.testing.assert_close(leaves["users"][0, :, :, 0], users)
    assert leaves["users_mask"].all()
    assert leaves["mates_mask"].all()


def test_a_lonely_drone_has_no_mates():
    params = params_of("coverage", "env.sim.num_drones=1")
    leaves, _ = observe(Relative(), params, initial_state(params, keys(4)))
    assert not leaves["mates_mask"].any()


@pytest.mark.parametrize("cells", [1, 2, 5])
def test_soft_counts_equal_a_loop(cells):
    generator = torch.Generator().manual_seed(cells)
    apart = (torch.rand(2, 3, 20, 7, generator=generator) - 0.5) * 2000.0
    found = soft_counts(apart, cells, 200.0)
    middle, expected = 0.5 * (cells - 1), torch.zeros(3, cells, cells, 7, dtype=torch.float64)
    for me in range(3):
        for user in range(20):
            for env in range(7):
                x, y = (
                    min(max(v / 200.0, -middle), middle) + middle
                    for v in apart[:, me, user, env].tolist()
                )
                for column in range(cells):
                    for row in range(cells):
                        part = max(0.0, 1.0 - abs(x - column)) * max(0.0, 1.0 - abs(y - row))
                        expected[me, column, row, env] += part
    torch.testing.assert_close(found.double(), expected.flatten(1, 2), atol=0.05, rtol=0.0)
    assert torch.equal(found.sum(1), torch.full((3, 7), 20.0))


@pytest.mark.parametrize("cells", [1, 2, 5, 9])
def test_compiled_loops_count_to_the_last_bit_as_addresses_do(cells):
    generator = torch.Generator().manual_seed(cells)
    place = torch.randint(0, 256 * (cells - 1) + 1, (2, 3, 20, 7), generator=generator) / 256.0
    weight = torch.randint(0, 2, (20, 7), generator=generator).float()
    for counted in (None, weight):
        there, here = (add(place, cells, counted) for add in (_add_to_all, _add_to_four))
        assert torch.equal(there, here)
    assert torch.equal(there.sum(1), weight.sum(0).expand(3, 7))


def test_unserved_users_loads_and_qualities_by_hand():
    """Drones at (200, 300) and (800, 300): the first serves the user below it, nobody one far from both."""
    params = params_of("coverage", "env.sim.num_drones=2", "env.sim.num_users=3")
    drones, users = [[200.0, 300.0, 50.0], [800.0, 300.0, 50.0]], [[200.0, 300.0], [500.0, 300.0]]
    users.append(
        [500.0, 900.0]
    )  # as far from both, so neither is louder than the other and the noise
    leaves, critic = observe(
        ServiceGrid(cells=3, cell_m=300.0), params, state_at(params, rows(drones), rows(users))
    )
    # Columns of 300 m along x, rows along y; the corner beyond the last row counts in it.
    unserved = [[0.0] * 9, [0.0] * 9]
    unserved[0][2 * 3 + 1] = unserved[1][0 * 3 + 1] = 1.0 / 3.0
    unserved[0][2 * 3 + 2] = unserved[1][0 * 3 + 2] = 1.0 / 3.0
    for me in range(2):
        assert leaves["unserved"][me, :, 0].tolist() == pytest.approx(unserved[me])
    signal_db = 10.0 * math.log10((600.0**2 + 50.0**2) / 50.0**2)  # noise is negligible here
    assert leaves["own"][:, -2, 0].tolist() == pytest.approx([0.1, 0.0])
    assert leaves["own"][:, -1, 0].tolist() == pytest.approx([signal_db / 30.0, 0.0], abs=1e-3)
    assert critic[-4:, 0].tolist() == pytest.approx([0.1, 0.0, signal_db / 30.0, 0.0], abs=1e-3)


@pytest.mark.parametrize("env", ["coverage", "coverage_relay"])
def test_a_histogram_has_shares_of_users_and_drones(env):
    params = params_of(env)
    state = initial_state(params, keys(20))
    leaves, critic = observe(Histogram(cells=5, cell_m=200.0), params, state)
    for leaf in ("users", "mates"):
        torch.testing.assert_close(leaves[leaf].sum(1), torch.ones(5, 20))
    torch.testing.assert_close(critic[15:40].sum(0), torch.ones(20))
    assert leaves["own"].shape[1] == (4 if env == "coverage" else 9)


def test_roles_links_and_paths_by_hand():
    places = [[0.0, 500.0, 100.0], [0.0, 500.0, 140.0], [0.0, 900.0, 100.0], [1000.0, 0.0, 100.0]]
    params = params_of("coverage_relay", "env.sim.num_drones=4", "env.sim.num_users=1")
    assert isinstance(params.backhaul, Backhaul)
    state = state_at(params, rows(places), rows([[0.0, 500.0]]))
    alone = state._replace(
        service=state.service._replace(load=torch.tensor([[1.0], [0.0], [1.0], [0.0]]))
    )
    leaves, _ = observe(Histogram(cells=3, cell_m=100.0), params, alone)
    network = leaves["own"][:, 4:, 0].tolist()
    third = 1.0 / 3.0
    expected = [
        [0.0, 1.0, 0.0, 1.0, third],  # has a user, and a link to the station
        [0.0, 0.0, 1.0, 1.0, third],  # only the link: a relay
        [0.0, 1.0, 0.0, 1.0, third],
        [1.0, 0.0, 0.0, 0.0, 0.0],  # nothing, and far from everything
    ]
    assert network == [pytest.approx(row) for row in expected]
