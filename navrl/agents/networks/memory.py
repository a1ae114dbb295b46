"""What an actor remembers from step to step, and how that is learned from chunks of a rollout."""

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

RECURRENCES = ("none", "gru")
HIDDEN = "hidden"  # (..., H) what an actor remembered before the step
FRESH = "fresh"  # bool (R, L) of chunks to learn: where an episode began


class NoRecurrence(nn.Module):
    """rnn=none: nothing. A chunk is a single step."""

    size, chunk_length = 0, 1

    def rows(self, frames: TensorDictBase) -> TensorDictBase:
        """What is learned of (N, T) frames: each on its own (N * T,)."""
        return frames.exclude("next").reshape(-1)

    def step(self, rows: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The rows as they are."""
        return rows, hidden

    def forward(self, rows: Tensor, hidden: Tensor, fresh: Tensor) -> Tensor:
        """The rows as they are."""
        return rows


class GruRecurrence(nn.Module):
    """rnn=gru: a gated memory as wide as the rows, normalised on its way out."""

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
        """What is learned of (N, T) frames: chunks (N * T / L, L)."""
        done = frames.get(("next", "done")).squeeze(-1)
        chunked = frames.exclude("next").reshape(-1, self.chunk_length)
        fresh = done.reshape(-1, self.chunk_length).roll(1, 1)
        fresh[:, 0] = False  # what is remembered there is zeros already
        return chunked.set(FRESH, fresh)

    def step(self, rows: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (..., width) with the memory of before, and that of after; zeros remember nothing."""
        after = self.cell(rows.flatten(0, -2), hidden.flatten(0, -2)).view_as(hidden)
        return self.norm(after), after

    def forward(self, rows: Tensor, hidden: Tensor, fresh: Tensor) -> Tensor:
        """Chunks (R, L, width) from the memory (R, width) at their first steps; none where `fresh` (R, L)."""
        found: list[Tensor] = []
        for row, begins in zip(rows.unbind(1), fresh.unbind(1), strict=True):
            hidden = self.cell(row, hidden.masked_fill(begins.unsqueeze(-1), 0.0))
            found.append(hidden)
        return self.norm(torch.stack(found, 1))


def recurrence(
    kind: str, width: int, chunk_length: int, *, options: str
) -> NoRecurrence | GruRecurrence:
    """What `rnn` among these options names."""
    if kind not in RECURRENCES:
        raise ValueError(
            f"{options}.rnn = {kind!r}; expected one of {', '.join(RECURRENCES)}; change {options}.rnn"
        )
    if chunk_length < 1:
        raise ValueError(
            f"{options}.chunk_length = {chunk_length}; expected 1 or more; change {options}.chunk_length"
        )
    return NoRecurrence() if kind == "none" else GruRecurrence(width, chunk_length)


def check_chunks(rollout_steps: int, length: int, *, options: str) -> None:
    """Refuse rollouts that do not split into chunks."""
    if rollout_steps % length:
        raise ValueError(
            f"rollout_steps = {rollout_steps} is not a multiple of {options}.chunk_length = {length}; "
            f"change {options}.chunk_length"
        )


def chunks(rows: Tensor, length: int) -> Tensor:
    """Steps of agents (N, T, A, ...) as (N * A * T / length, length, ...)."""
    num_envs, steps, num_agents = rows.shape[:3]
    whole = num_envs * num_agents * steps // length
    return rows.transpose(1, 2).reshape(whole, length, *rows.shape[3:])
