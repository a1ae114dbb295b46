"""Measure what static placements of the drones of env=coverage reach: random, k-means, and two searches.

    .venv/bin/python scripts/coverage_bounds.py [--layouts 64] [--population 64] [--rounds 60] [--starts 4]

The score at the end of an episode depends on places alone, so what a search finds for one layout of users
is a bound from below of the best policy's. The short search is the cross-entropy method that the anchors of
score_norm come from; the long one starts several times, also from k-means, and then climbs by random steps.
"""

import time
from argparse import Namespace

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from navrl.config.compose import build, compose
from navrl.envs import CoverageEnv
from navrl.envs.core.rewards import Transition
from navrl.envs.coverage.sim.advance import CoverageState, initial_state, served
from timing import parser

FIRST_SPREAD_M, LEAST_SPREAD_M = 300.0, 5.0


class Layouts:
    """Layouts of users, and the scores of placements of drones in each."""

    def __init__(self, env: CoverageEnv, count: int, seed: int) -> None:
        self.env, self.params, self.count = env, env.params, count
        key = torch.arange(count) * 7919 + seed
        self.state = initial_state(self.params, key)
        low, high = self.params.height_m
        self.least = torch.tensor([0.0, 0.0, low]).view(3, 1, 1)
        self.most = torch.tensor([self.params.side_m, self.params.side_m, high]).view(3, 1, 1)

    def scores(self, position: Tensor) -> Tensor:
        """Return the scores (population, layouts) of positions (3, n, population, layouts)."""
        population = position.shape[2]
        repeat = lambda rows: rows.repeat(*[1] * (rows.dim() - 1), population)  # noqa: E731
        state = pytree.tree_map(repeat, self.state)
        after: CoverageState = served(
            self.params, position.flatten(2), state.users, state.shadow, state.step, state.key
        )
        never = torch.zeros_like(after.step, dtype=torch.bool)
        score, _ = self.env._reward(Transition(self.params, after, after, None, never, never))
        return score.view(population, self.count)

    def uniform(self, population: int) -> Tensor:
        """Draw positions (3, n, population, layouts) within the box."""
        share = torch.rand(3, self.params.num_drones, population, self.count)
        return self.least.unsqueeze(-1) + share * (self.most - self.least).unsqueeze(-1)

    def clipped(self, position: Tensor) -> Tensor:
        """Return the positions within the box."""
        return torch.minimum(
            torch.maximum(position, self.least.unsqueeze(-1)), self.most.unsqueeze(-1)
        )


def k_means(layouts: Layouts, rounds: int = 30) -> Tensor:
    """Return drones at the lowest height above the middles of groups of users, (3, n, layouts)."""
    users = layouts.state.users.place  # (2, m, layouts)
    centre = users[:, : layouts.params.num_drones].clone()
    for _ in range(rounds):
        apart = (users.unsqueeze(1) - centre.unsqueeze(2)).square().sum(0)  # (n, m, layouts)
        mine = torch.nn.functional.one_hot(apart.argmin(0), centre.shape[1]).permute(2, 0, 1)
        total = (users.unsqueeze(1) * mine).sum(2)
        centre = torch.where(mine.sum(1) > 0, total / mine.sum(1).clamp_min(1), centre)
    low = torch.full_like(centre[:1], layouts.params.height_m[0])
    return torch.cat([centre, low])


def cross_entropy(layouts: Layouts, start: Tensor, arguments: Namespace) -> Tensor:
    """Return the best positions (3, n, layouts) that the cross-entropy method finds from there."""
    mean, deviation = start.clone(), torch.full_like(start, FIRST_SPREAD_M)
    best, best_score = start.clone(), layouts.scores(start.unsqueeze(2))[0]
    elite = max(4, arguments.population // 8)
    for _ in range(arguments.rounds):
        noise = torch.randn(*mean.shape[:2], arguments.population, layouts.count)
        position = layouts.clipped(mean.unsqueeze(2) + deviation.unsqueeze(2) * noise)
        score = layouts.scores(position)
        best, best_score = better(best, best_score, position, score)
        chosen = score.topk(elite, 0).indices
        rows = position.gather(2, chosen.expand(*mean.shape[:2], -1, -1))
        mean, deviation = rows.mean(2), rows.std(2).clamp_min(LEAST_SPREAD_M)
    return best


def climb(layouts: Layouts, start: Tensor, arguments: Namespace) -> Tensor:
    """Improve positions by random steps of one drone at a time, of many lengths."""
    best, best_score = start.clone(), layouts.scores(start.unsqueeze(2))[0]
    drones = start.shape[1]
    for _ in range(4 * arguments.rounds):
        moved = torch.rand(1, drones, arguments.population, layouts.count).argmax(1, keepdim=True)
        one = torch.zeros(1, drones, arguments.population, layouts.count).scatter_(1, moved, 1.0)
        length = 10.0 ** (torch.rand(1, 1, arguments.population, layouts.count) * 2.5)
        step = torch.randn(*start.shape[:2], arguments.population, layouts.count) * length * one
        position = layouts.clipped(best.unsqueeze(2) + step)
        best, best_score = better(best, best_score, position, layouts.scores(position))
    return best


def better(
    best: Tensor, best_score: Tensor, position: Tensor, score: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the best of the old positions and the new ones, of every layout."""
    top, index = score.max(0)
    row = position.gather(2, index.expand(*best.shape[:2], 1, -1)).squeeze(2)
    ahead = top > best_score
    return torch.where(ahead, row, best), torch.where(ahead, top, best_score)


def main() -> None:
    """Print the mean scores with their 95 % intervals."""
    arguments_parser = parser(__doc__)
    arguments_parser.add_argument("overrides", nargs="*", help="Hydra options of the env")
    arguments_parser.add_argument("--layouts", type=int, default=64)
    arguments_parser.add_argument("--population", type=int, default=64)
    arguments_parser.add_argument("--rounds", type=int, default=60)
    arguments_parser.add_argument("--starts", type=int, default=4)
    arguments = arguments_parser.parse_args()
    config = compose("train", ["env=coverage", "compile=off", *arguments.overrides])
    env = build(config.env)(num_envs=1, device="cpu", seed=0)
    torch.manual_seed(0)
    layouts = Layouts(env, arguments.layouts, seed=1)
    show("random", layouts, layouts.uniform(1)[:, :, 0])
    low = k_means(layouts)
    show("k-means, lowest height", layouts, low)
    began = time.perf_counter()
    short = cross_entropy(layouts, layouts.uniform(1)[:, :, 0], arguments)
    show("cross-entropy, one start", layouts, short, began)
    best = climb(layouts, short, arguments)
    show("the same, then steps", layouts, best, began)
    best_score = layouts.scores(best.unsqueeze(2))[0]
    for number in range(arguments.starts):
        start = low if number == 0 else layouts.uniform(1)[:, :, 0]
        again = climb(layouts, cross_entropy(layouts, start, arguments), arguments)
        best, best_score = better(
            best, best_score, again.unsqueeze(2), layouts.scores(again.unsqueeze(2))
        )
        show(f"best of {number + 2} starts", layouts, best, began)


def show(name: str, layouts: Layouts, position: Tensor, began: float | None = None) -> None:
    """Print the mean score of positions (3, n, layouts)."""
    score = layouts.scores(position.unsqueeze(2))[0]
    half = 1.96 * score.std() / layouts.count**0.5
    seconds = f"  {time.perf_counter() - began:.0f} s" if began else ""
    height = position[2].mean()
    print(f"{name:28s} {score.mean():.4f} +-{half:.4f}  height {height:.0f} m{seconds}", flush=True)


if __name__ == "__main__":
    main()
