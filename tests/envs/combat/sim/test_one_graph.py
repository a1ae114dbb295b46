"""Every option of the fight traces into one graph that computes the same bits."""

import pytest
import torch
from torch._functorch._aot_autograd.autograd_cache import check_node_safe

from navrl.envs.combat.sim.advance import advance
from navrl.envs.core.compiling import cacheable
from tests.envs.combat.sim.duels import opening, orders, same_bits, shipped_params


def kept_eager(graph, _):
    """A backend that compiles nothing, but refuses what torch would not keep for the next process."""
    with torch._inductor.config.patch(unsafe_marked_cacheable_functions=cacheable()):
        for node in graph.graph.nodes:
            check_node_safe(node)
    return graph.forward


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "legacy", "channels": 2, "channel_mode": "recycle", "ammunition": None},
        {"team_size": 2, "retarget": True, "resolve_in_flight": True, "rudder_rate_per_s": 1.0},
        {
            "guidance_law": "legacy_gain",
            "cooldown_decisions": 1,
            "disengage_range_m": 5e4,
            "limit": 9.0,
        },
    ],
    ids=", ".join,
)
def test_an_option_traces_into_one_graph(changes):
    changes = dict(changes)
    fighter = shipped_params().fighter._replace(max_load_g=changes.pop("limit", None))
    params = shipped_params(fighter=fighter, decision_s=0.2, **changes)
    generator = torch.Generator().manual_seed(2)
    size = 2 * params.team_size
    table = torch.rand(size, 8, 4, generator=generator)
    table = table * torch.tensor([4e3, 4e3, 360.0, 200.0]) + torch.tensor([0.0, 0.0, 0.0, 200.0])
    one = two = opening(params, *table.tolist())
    traced = torch.compile(advance, backend=kept_eager, fullgraph=True, dynamic=False)
    launched = 0
    for _ in range(8):
        rudder = torch.randint(-1, 2, (size, 8), generator=generator)
        requested = torch.randint(-1, params.team_size, (size, 8), generator=generator).int()
        order = orders(one, rudder, fire=True)._replace(target=requested)
        one, events = advance(params, one, order)
        two, others = traced(params, two, order)
        assert same_bits(one, two)
        assert same_bits(events, others)
        launched += int(events.launched.sum())
    assert launched >= 16
