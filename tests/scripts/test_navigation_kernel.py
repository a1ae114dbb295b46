"""The yardstick of drone navigation: a C kernel that must fly as the simulator does."""

import shutil
from collections import Counter
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves, tree_map

from kernels.navigation import BLOCK, NavigationKernel, Outcome, under_way
from navrl.config.compose import build, compose
from navrl.envs.navigation.env import NavigationEnv
from navrl.envs.navigation.sim.advance import advance
from navrl.envs.navigation.sim.nearest_obstacles import NearObstacles
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import Ending, NavigationState

ENVS, STEPS = 4 * BLOCK, 20
CLOSE = 1e-3  # metres and metres per second
EDGE_M = 1e-4  # nearer to a threshold than that rounding decides
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="the kernel needs gcc")


@cache
def small_env(name: str) -> NavigationEnv:
    config = compose("train", [f"env={name}", "compile=off", "world.count=2"])
    env = build(config.env)(num_envs=ENVS, device="cpu", seed=0)
    env.reset()
    return env


def made(env: NavigationEnv, *, shortcuts: bool = True, **changes: object) -> NavigationKernel:
    params, tables = env.params._replace(**changes), env.worlds
    return NavigationKernel(params, tables.grid, tables.openings.worlds, shortcuts=shortcuts)


def opened(env: NavigationEnv, draw: torch.Generator) -> NavigationState:
    """Drones in the field, some of them too high or too low, the first of them near their goals."""
    state, _ = under_way(env.params, env.state, draw)
    place, some = state.drone.position, ENVS // 8
    place[2] += 1.5 * torch.randn(ENVS, generator=draw)
    place[:, :some] = state.goal[:, :some] + torch.rand(3, some, generator=draw) - 0.5
    return tree_map(Tensor.contiguous, state)


def commands(params: NavigationParams, draw: torch.Generator) -> Tensor:
    return params.speed_limit_mps * (2.0 * torch.rand(3, ENVS, generator=draw) - 1.0)


def others(found: Outcome, state: NavigationState, near: NearObstacles) -> Counter[str]:
    """Count the numbers of each tensor that are not the simulator's; endings are compared elsewhere."""
    ending = found.state.ending
    leaves, _ = tree_flatten_with_path((state._replace(ending=ending), near))
    pairs = zip(tree_leaves(tuple(found)), leaves, strict=True)
    return Counter({keystr(path): int(unlike(a, b).sum()) for a, (path, b) in pairs})


def unlike(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs() > CLOSE if a.is_floating_point() else a != b


def on_the_edge(params: NavigationParams, state: NavigationState, near: NearObstacles) -> Tensor:
    """Envs (N,) where a flag hangs on less than EDGE_M."""
    x, y, z = near.offset.unbind(0)
    beside = (x * x + y * y).sqrt()
    touching = torch.minimum(
        (beside - near.radius_m - params.body_radius_m).abs(),
        (z.abs() - near.half_height_m - params.body_radius_m).abs(),
    )
    place = state.drone.position
    margins = torch.stack(
        [
            state.static_gap_m - params.body_radius_m,
            (state.goal - place).square().sum(0).sqrt() - params.goal_radius_m,
            place[2] - params.floor_m,
            place[2] - params.ceiling_m,
            place[:2].abs().amax(0) - (params.side_limit_m or torch.inf),
            touching.amin(0),
        ]
    )
    return (margins.abs() < EDGE_M).any(0)


def happened(before: NavigationState, after: NavigationState) -> dict[str, int]:
    """Count the endings, and the moving obstacles that took a new goal or stopped."""
    old, new = before.obstacles, after.obstacles
    return {
        **{flag: int(value.sum()) for flag, value in after.ending._asdict().items()},
        "turned": int((new.goal.x != old.goal.x).sum()),
        "halted": int(((new.velocity.x == 0.0) & (old.velocity.x != 0.0)).sum()),
    }


@needs_gcc
@pytest.mark.parametrize("shortcuts", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", ["navigation_compat", pytest.param("navigation", marks=pytest.mark.slow)]
)
def test_the_kernel_is_the_simulator(name, shortcuts):
    env, draw = small_env(name), torch.Generator().manual_seed(0)
    params, grid, worlds = env.params, env.worlds.grid, env.worlds.openings.worlds
    kernel, state = made(env, shortcuts=shortcuts), opened(env, draw)
    counts, different = Counter(), Counter()
    for _ in range(STEPS):
        command = commands(params, draw)
        found = kernel.bound(state, command)()
        after, events = advance(params, grid, worlds, state, command, command)
        edge = on_the_edge(params, after, events.near)
        for flag, a, b in zip(Ending._fields, found.state.ending, after.ending, strict=True):
            assert torch.equal(a | edge, b | edge), flag
        different.update(others(found, after, events.near))
        counts.update(happened(state, after))
        state = tree_map(Tensor.contiguous, after)
    expected = {*Ending._fields, "turned"} | ({"halted"} if name == "navigation" else set())
    assert (+counts).keys() == expected, counts
    # Rays that graze an obstacle, and draws next to 1, are on either side of it.
    assert max(different.values()) <= 2e-3 * STEPS * ENVS, different
