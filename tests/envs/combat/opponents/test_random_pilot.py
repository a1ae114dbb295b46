"""`random`: uniform, held for a while, and the same in every batch."""

import pytest
import torch

from tests.envs.combat.opponents.pictures import PARAMS, keys, pilot
from tests.envs.combat.sim.duels import opening

COUNT = 2000


def commands(opponent, seconds):
    """Rudder and fire (seconds, N)."""
    state = opening(PARAMS, [(0.0, 60e3, 0.0, 300.0)] * COUNT, [(0.0, 0.0, 0.0, 300.0)] * COUNT)
    memory, found = opponent.initial(keys(COUNT)), []
    for second in range(seconds):
        state = state._replace(decision=torch.full_like(state.decision, second))
        command, memory = opponent.act(PARAMS, state, 1, memory)
        found.append(command)
    assert all((command.throttle == 1.0).all() for command in found)
    return torch.stack([c.rudder for c in found]), torch.stack([c.fire for c in found])


def test_the_rudder_is_uniform():
    rudder, _ = commands(pilot("random", hold_s=1.0), 20)
    share = torch.histc(rudder, 10, -1.0, 1.0) / rudder.numel()
    assert share.sum() == pytest.approx(1.0)
    assert share.sub(0.1).abs().max() < 5.0 * (0.1 * 0.9 / rudder.numel()) ** 0.5


def test_it_holds_a_rudder_for_its_time_and_then_takes_another():
    rudder, _ = commands(pilot("random", hold_s=3.0), 9)
    assert (rudder[[0, 3, 6]] == rudder[[2, 5, 8]]).all()
    assert (rudder[[2, 5]] == rudder[[3, 6]]).float().mean() < 0.01
    followed = torch.corrcoef(torch.stack([rudder[0], rudder[3], rudder[6]])) - torch.eye(3)
    assert followed.abs().max() < 5.0 / COUNT**0.5


def test_it_pulls_the_trigger_once_in_its_mean_time():
    _, fire = commands(pilot("random", fire_interval_s=20.0), 40)
    assert fire.float().mean().item() == pytest.approx(
        0.05, abs=5.0 * (0.05 * 0.95 / fire.numel()) ** 0.5
    )
    together = (fire[1:] & fire[:-1]).float().mean().item()
    assert together == pytest.approx(0.0025, abs=5.0 * (0.0025 / fire.numel()) ** 0.5)
