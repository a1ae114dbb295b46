"""What an actor remembers from step to step, and how that is learned from chunks of a rollout."""

import torch
from torch import Tensor, nn

RECURRENCES = ("none", "gru")


class NoRecurrence(nn.Module):
    """rnn=none: nothing. A chunk is a single step."""

    size, chunk_length = 0, 1

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


def recurrence(kind: str, width: int, chunk_length: int) -> NoRecurrence | GruRecurrence:
    """What agent.actor.rnn names."""
    if kind not in RECURRENCES:
        raise ValueError(
            f"agent.actor.rnn = {kind!r}; expected one of {', '.join(RECURRENCES)}; change agent.actor.rnn"
        )
    return NoRecurrence() if kind == "none" else GruRecurrence(width, chunk_length)


def chunks(rows: Tensor, length: int) -> Tensor:
    """Steps of agents (N, T, A, ...) as (N * A * T / length, length, ...)."""
    num_envs, steps, num_agents = rows.shape[:3]
    if steps % length:
        raise ValueError(
            f"rollout_steps = {steps} is not a multiple of agent.actor.chunk_length = {length}; "
            "change agent.actor.chunk_length"
        )
    whole = num_envs * num_agents * steps // length
    return rows.transpose(1, 2).reshape(whole, length, *rows.shape[3:])
