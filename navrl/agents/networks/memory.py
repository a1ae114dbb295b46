"""Memory of recurrent actors, and the chunks of a rollout through which it is learned."""

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from navrl.config.checks import require_choice, require_whole

RECURRENCES = ("none", "gru")
HIDDEN = "hidden"  # (..., H), the hidden state before the step
FRESH = "fresh"  # bool (R, L) of chunks: true where an episode began


class NoRecurrence(nn.Module):
    """rnn=none: no memory. A chunk is a single step."""

    size, chunk_length = 0, 1

    def rows(self, frames: TensorDictBase) -> TensorDictBase:
        """Return the rows to learn from (N, T) frames: single steps (N * T,)."""
        return frames.exclude("next").reshape(-1)

    def step(self, rows: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows as they are."""
        return rows, hidden

    def forward(self, rows: Tensor, hidden: Tensor, fresh: Tensor) -> Tensor:
        """Return the rows as they are."""
        return rows


class GruRecurrence(nn.Module):
    """rnn=gru: a GRU as wide as the rows, with a LayerNorm after it."""

    def __init__(self, width: int, chunk_length: int) -> None:
        super().__init__()
        self.size, self.chunk_length = width, chunk_length
        self.cell, self.norm = nn.GRUCell(width, width), nn.LayerNorm(width)
        for name, parameter in self.cell.named_parameters():
            if name.startswith("weight"):
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    def rows(self, frames: TensorDictBase) -> TensorDictBase:
        """Return the rows to learn from (N, T) frames: chunks (N * T / L, L)."""
        done = frames.get(("next", "done")).squeeze(-1)
        chunked = frames.exclude("next").reshape(-1, self.chunk_length)
        fresh = done.reshape(-1, self.chunk_length).roll(1, 1)
        fresh[:, 0] = False  # the hidden state is zeros there already
        return chunked.set(FRESH, fresh)

    def step(self, rows: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows (..., width) and the hidden state after the step."""
        after = self.cell(rows.flatten(0, -2), hidden.flatten(0, -2)).view_as(hidden)
        return self.norm(after), after

    def forward(self, rows: Tensor, hidden: Tensor, fresh: Tensor) -> Tensor:
        """Run chunks (R, L, width) from the hidden state (R, width) of their first steps; 0 where `fresh`."""
        states: list[Tensor] = []
        for row, begins in zip(rows.unbind(1), fresh.unbind(1), strict=True):
            hidden = self.cell(row, hidden.masked_fill(begins.unsqueeze(-1), 0.0))
            states.append(hidden)
        return self.norm(torch.stack(states, 1))


def recurrence(
    kind: str, width: int, chunk_length: int, *, options: str
) -> NoRecurrence | GruRecurrence:
    """Return the memory that the option `rnn` names; `options` is the place of the option."""
    require_choice(f"{options}.rnn", kind, RECURRENCES)
    require_whole(f"{options}.chunk_length", chunk_length, 1)
    return NoRecurrence() if kind == "none" else GruRecurrence(width, chunk_length)


def check_chunks(rollout_steps: int, length: int, *, options: str) -> None:
    """Raise ValueError unless rollouts split into whole chunks."""
    if rollout_steps % length:
        raise ValueError(
            f"rollout_steps = {rollout_steps} is not a multiple of {options}.chunk_length = {length}; "
            f"change {options}.chunk_length"
        )


def chunks(rows: Tensor, length: int) -> Tensor:
    """Reshape steps of agents (N, T, A, ...) to chunks (N * A * T / length, length, ...)."""
    num_envs, steps, num_agents = rows.shape[:3]
    whole = num_envs * num_agents * steps // length
    return rows.transpose(1, 2).reshape(whole, length, *rows.shape[3:])
