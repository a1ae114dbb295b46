"""How a good pilot leaves a missile behind: away from it in time, and across its nose at the last moment."""

import torch
from torch import Tensor

from navrl.envs.combat.opponents.no_escape import missile_reach_m
from navrl.envs.combat.opponents.steering import away_from, steer
from navrl.envs.combat.sim.geometry import MissileView
from navrl.envs.combat.sim.state import CombatParams


def evade(
    params: CombatParams,
    threat: MissileView,
    own_speed_mps: Tensor,
    *,
    turn_out_fraction: Tensor,
    break_time_to_go_s: Tensor,
    otherwise: Tensor,
) -> Tensor:
    """The rudder against a missile, or the other one while there is time.

    It turns out when the missile is nearer than turn_out_fraction times its no-escape range. That is
    judged as if it pointed at the missile, so that it does not turn back in too early either.
    """
    danger_m = turn_out_fraction * missile_reach_m(params, threat, own_speed_mps)
    turn_out = threat.active & (threat.view.range_m < danger_m)
    rudder = torch.where(turn_out, steer(away_from(threat.view)), otherwise)
    # A missile that is about to hit cannot follow a turn across its nose: it is much the faster.
    break_ = threat.active & (threat.view.time_to_go_s < break_time_to_go_s)
    return torch.where(break_, torch.where(threat.view.sin_bearing >= 0.0, 1.0, -1.0), rudder)
