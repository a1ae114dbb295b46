"""Random fights in double precision, and the same fights moved, turned and mirrored."""

import math

import torch

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import Aircraft, CombatState, Missiles


def random_state(params, count=200):
    """Aircraft and missiles within 40 km of each other in all kinds of situations, float64."""
    generator = torch.Generator().manual_seed(0)

    def between(low, high, *shape):
        draw = torch.rand(*shape, count, generator=generator, dtype=torch.float64)
        return low + (high - low) * draw

    def motion(*shape):
        heading = between(0.0, 2.0 * math.pi, *shape)
        return Motion(
            x_m=between(-20e3, 20e3, *shape),
            y_m=between(-20e3, 20e3, *shape),
            cos_heading=heading.cos(),
            sin_heading=heading.sin(),
            speed_mps=between(150.0, 1000.0, *shape),
        )

    size = params.team_size
    crafts, channels = 2 * size, (2 * size, params.channels)
    first_enemy = torch.tensor([size] * size + [0] * size, dtype=torch.int32).view(-1, 1, 1)
    return CombatState(
        aircraft=Aircraft(
            motion=motion(crafts),
            rudder=between(-1.0, 1.0, crafts),
            throttle=between(0.0, 1.0, crafts),
            alive=between(0.0, 1.0, crafts) < 0.8,
            rounds=between(0.0, 6.99, crafts).to(torch.int32),
            cooldown=between(0.0, 1.99, crafts).to(torch.int32),
        ),
        missiles=Missiles(
            motion=motion(*channels),
            active=between(0.0, 1.0, *channels) < 0.6,
            age_ticks=between(0.0, 800.0, *channels).to(torch.int32),
            target=first_enemy + between(0.0, size - 0.01, *channels).to(torch.int32),
            line_of_sight_rad=(),
        ),
        decision=between(0.0, 299.0).to(torch.int32),
    )


def moved(state, transform):
    """The state with every motion transformed."""
    aircraft = state.aircraft._replace(motion=transform(state.aircraft.motion))
    missiles = state.missiles._replace(motion=transform(state.missiles.motion))
    return state._replace(aircraft=aircraft, missiles=missiles)


def turned(state):
    """Every fight turned by an angle of its own and moved."""
    angle = torch.linspace(0.1, 6.2, state.decision.shape[0], dtype=torch.float64)
    c, s = angle.cos(), angle.sin()
    return moved(
        state,
        lambda m: m._replace(
            x_m=c * m.x_m - s * m.y_m + 12_345.0,
            y_m=s * m.x_m + c * m.y_m - 6_789.0,
            cos_heading=c * m.cos_heading - s * m.sin_heading,
            sin_heading=s * m.cos_heading + c * m.sin_heading,
        ),
    )


def mirrored(state):
    """Every fight with y turned into -y, rudders too."""
    state = moved(state, lambda m: m._replace(y_m=-m.y_m, sin_heading=-m.sin_heading))
    return state._replace(aircraft=state.aircraft._replace(rudder=-state.aircraft.rudder))


def in_float32(tree):
    """The same fights as the simulator keeps them."""
    if isinstance(tree, torch.Tensor):
        return tree.float() if tree.dtype == torch.float64 else tree
    found = [in_float32(field) for field in tree]
    return tuple(found) if type(tree) is tuple else type(tree)(*found)
