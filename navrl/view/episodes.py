"""Episodes of a policy, played decision by decision for recordings."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type, step_mdp

Act = Callable[[TensorDictBase], TensorDictBase | None]  # None: there are no more actions
_PROGRESS_EVERY_S = 5.0


def first_episodes(env: Any, policy: Act) -> Iterator[tuple[TensorDictBase, Tensor]]:
    """Play the first episode of every env with the most probable actions, and yield every step.

    The first item is the result of reset(), the others are those of step(). The bool tensor (N,) on the CPU
    is true for the envs whose first episode the step belongs to. After each item the env is in the state
    after that step.
    """
    start_s = printed_s = time.monotonic()
    tensordict = env.reset()
    running = torch.ones(env.batch_size, dtype=torch.bool)
    yield tensordict, running
    while bool(running.any()):
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            acted = policy(tensordict)
            if acted is None:
                return
            stepped = env.step(acted)
        yield stepped, running
        running = running & ~stepped.get(("next", "done")).squeeze(-1).cpu()
        tensordict = step_mdp(stepped)
        if time.monotonic() - printed_s > _PROGRESS_EVERY_S and bool(running.any()):
            printed_s = time.monotonic()
            _print_progress(int((~running).sum()), running.numel(), printed_s - start_s)


def _print_progress(ended: int, number: int, seconds: float) -> None:
    """Print the progress on stderr; a short replay ends before it would print anything."""
    sys.stderr.write(f"played {ended} of {number} episodes to their ends, {seconds:.0f} s\n")
    sys.stderr.flush()
