"""Routes to the ground: a chain by hand, random layouts against breadth-first search, and throughput."""

import itertools
import math

import pytest
import torch

from navrl.envs.coverage.sim.advance import without_each
from navrl.envs.coverage.sim.backhaul import routes
from tests.envs.coverage.sim.layouts import params_of, rows, state_at
from tests.envs.coverage.sim.scalar_radio import path

CHAIN = [[0.0, 500.0, 30.0 + 430.0 * i] for i in (1, 2, 3, 4)]  # straight up over the station


def connected(params, drones, load=None, rate=None):
    place = rows(drones)
    nothing = torch.zeros(len(drones), 1)
    load = nothing if load is None else load
    return params.backhaul.connect(params.radio, place, load, nothing if rate is None else rate)


def chain_params(env="coverage_relay", *overrides):
    return params_of(env, "env.sim.num_drones=4", "env.sim.height_m=[50,2000]", *overrides)


def test_links_reach_498_metres():
    params = params_of("coverage_relay", "env.sim.num_drones=2")
    for gap_m, linked in ((490.0, True), (505.0, False)):
        found = connected(params, [[0.0, 500.0, 30.0 + gap_m], [0.0, 500.0, 30.0 + gap_m]])
        assert found.direct.flatten().tolist() == [linked] * 2


def test_without_a_link_of_the_chain_all_beyond_are_cut_off():
    params = chain_params()
    users = rows([[500.0, 500.0]] * params.num_users)
    rest = without_each(params, state_at(params, rows(CHAIN), users))
    lengths = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 2.0, 0.0], [1.0, 2.0, 3.0]]
    assert rest.network.length.t().tolist() == lengths  # without the first, ..., the last


def test_the_original_counts_one_more_where_there_are_several():
    found = connected(chain_params("coverage_relay", "env.sim.backhaul.length=original"), CHAIN)
    assert found.length[:, 0].tolist() == [1.0, 3.0, 4.0, 0.0]


def test_the_narrowest_link_and_the_length_limit_what_arrives():
    rate = torch.tensor([[10.0], [1e6], [1e6], [1e6]])
    found = connected(chain_params(), CHAIN, load=torch.full((4, 1), 2.0), rate=rate)

    def carried(metres):
        snr = 20.0 + 104.0 - 20.0 * math.log10(4.0 * math.pi * 2.4e9 * metres / 3e8)
        return 20.0 * math.log2(1.0 + 10.0 ** (snr / 10.0))

    narrow = carried(430.0)
    expected = [10.0 / 2.0, narrow / 2.0, narrow / 3.0, 0.0]  # two users share their band
    assert found.arriving_mbps[:, 0].tolist() == pytest.approx(expected, rel=1e-5)


def test_the_first_of_several_stations_is_used():
    stations = "env.sim.backhaul.stations=[[0,0,30],[300,0,30],[900,900,30]]"
    params = params_of("coverage_relay", "env.sim.num_drones=2", stations)
    found = connected(params, [[200.0, 0.0, 50.0], [900.0, 900.0, 90.0]])
    assert found.direct[:, :, 0].tolist() == [[True, False], [True, False], [False, True]]
    longer = 20.0 * math.log2(
        1.0 + 10.0 ** (12.4 - 2.0 * math.log10(4.0 * math.pi * 8.0 * math.hypot(200.0, 20.0)))
    )
    assert found.bottleneck_mbps[0, 0].item() == pytest.approx(longer, rel=1e-5)


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_routes_are_those_of_breadth_first_search(most):
    drones, envs = 6, 300
    generator = torch.Generator().manual_seed(most)
    draw = torch.rand(drones, drones, envs, generator=generator)
    linked = (draw + draw.transpose(0, 1)) < 0.65
    carried = torch.rand(drones, drones, envs, generator=generator) + 0.1
    near = torch.rand(drones, envs, generator=generator) < 0.25
    uplink = torch.where(near, torch.rand(drones, envs, generator=generator) + 0.1, 0.0)
    hops, narrowest = routes(uplink, linked, carried, max_hops=most)
    longest = 0
    for env in range(envs):
        table = linked[:, :, env].tolist()
        for start in range(drones):
            way = path(start, near[:, env].tolist(), table, most)
            assert hops[start, env].item() == (0 if way is None else len(way))
            if way is None:
                continue
            longest = max(longest, len(way))
            steps = itertools.pairwise(way)
            widths = [carried[a, b, env].item() for a, b in steps] + [uplink[way[-1], env].item()]
            assert narrowest[start, env].item() == pytest.approx(min(widths))
    assert longest == min(most, 5) or longest >= 4


def test_worth_is_clipped_and_shared_in_proportion():
    params = chain_params()
    best = 20.0 * math.log2(1001.0)
    arriving = torch.tensor([[best, 3 * best], [0.0, 3 * best], [best, 0.0], [0.0, 6 * best]])
    worth = params.backhaul.throughput(params.radio, arriving, 4)
    assert worth[:, 0].tolist() == pytest.approx([0.25, 0.0, 0.25, 0.0])
    assert worth[:, 1].tolist() == pytest.approx([0.25, 0.25, 0.0, 0.5])
    loose = chain_params("coverage_compat")
    assert loose.backhaul.throughput(loose.radio, arriving, 4).sum(0).tolist() == pytest.approx(
        [0.5, 3.0]
    )
