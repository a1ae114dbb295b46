"""Who chooses skills: a transformer that tells the team's first, then each agent's in view of the others."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from navrl.agents.hmasd.attention import DecoderBlock, EncoderBlock
from navrl.agents.networks.encoders import ObservationEncoder
from navrl.agents.networks.layers import NetworkOptions, linear
from navrl.agents.networks.team import TeamSpec

_SMALL = 0.01
_GAIN = 2.0**0.5


class Choice(NamedTuple):
    """Skills of all positions (N, P), and how likely each was given those before it."""

    skills: Tensor
    log_prob: Tensor


class Judgement(NamedTuple):
    """What the coordinator thinks of skills that were chosen, each (N, P)."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class Coordinator(nn.Module):
    """State and what everybody is told to skills. Position 0 is the team, then agents follow in order.

    `choices` says how many skills there are at each position. The tokens have no numbers: an agent is
    known by what it is told and by what was chosen before it, so all agents share what is learned.
    """

    forbidden: Tensor

    def __init__(
        self,
        *,
        choices: Sequence[int],
        team: TeamSpec,
        network: NetworkOptions,
        width: int,
        blocks: int,
        heads: int,
    ) -> None:
        super().__init__()
        self.choices, self.positions = tuple(choices), len(choices)
        self.view = ObservationEncoder(team.leaves, network)
        self.state_token = _embedding(team.state_size, width)
        self.agent_token = _embedding(self.view.outputs, width)
        self.encoder = nn.Sequential(
            *(EncoderBlock(width=width, heads=heads) for _ in range(blocks))
        )
        self.value = _head(width, 1)
        # One token for the start and each skill of the team; one for each skill of agents before the last.
        self.start = choices[0]
        self.team_skill = _table(choices[0] + 1, width)
        told = max(choices[1:-1], default=None)
        self.agent_skill = None if told is None else _table(told, width)
        self.token_norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(DecoderBlock(width=width, heads=heads) for _ in range(blocks))
        self.logits = _head(width, max(choices))
        sizes = torch.tensor(choices).unsqueeze(-1)
        forbidden = torch.arange(max(choices)) >= sizes  # (P, widest), skills that a position lacks
        self.register_buffer("forbidden", forbidden, persistent=False)

    @property
    def last(self) -> nn.Linear:
        """The layer that gives the values."""
        layer: nn.Linear = self.value[-1]  # type: ignore[assignment]
        return layer

    def values(self, state: Tensor, frames: TensorDictBase) -> Tensor:
        """What each position may expect (N, P), in units of the coordinator."""
        return self._valued(self._encoded(state, frames))

    def act(self, state: Tensor, frames: TensorDictBase, *, deterministic: bool) -> Choice:
        """Skills for states (N, features) and the frames (N, A) of the agents."""
        encoded = self._encoded(state, frames)
        skills = torch.zeros(
            *state.shape[:-1], self.positions, dtype=torch.int64, device=state.device
        )
        found: list[Tensor] = []
        for position in range(self.positions):
            # All rows each time: row i sees nothing of what is not chosen yet, and the code is one.
            log_prob = self._log_probs(encoded, skills)[..., position, :]
            race = log_prob if deterministic else log_prob - _noise(log_prob)
            chosen = race.argmax(-1, keepdim=True)
            found.append(log_prob.gather(-1, chosen))
            skills = torch.cat([skills[..., :position], chosen, skills[..., position + 1 :]], -1)
        return Choice(skills, torch.cat(found, -1))

    def evaluate(self, state: Tensor, frames: TensorDictBase, skills: Tensor) -> Judgement:
        """The same for skills (N, P) that were chosen, in one pass."""
        encoded = self._encoded(state, frames)
        log_probs = self._log_probs(encoded, skills)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        log_prob = log_probs.gather(-1, skills.unsqueeze(-1)).squeeze(-1)
        return Judgement(log_prob, entropy, self._valued(encoded))

    def _encoded(self, state: Tensor, frames: TensorDictBase) -> Tensor:
        """Tokens of the state and of all agents (N, 1 + A, width)."""
        tokens = [self.state_token(state).unsqueeze(-2), self.agent_token(self.view(frames))]
        return self.encoder(torch.cat(tokens, -2))

    def _valued(self, encoded: Tensor) -> Tensor:
        return self.value(encoded[..., : self.positions, :]).squeeze(-1)

    def _log_probs(self, encoded: Tensor, skills: Tensor) -> Tensor:
        """(N, P, widest); row i is about the choice at position i, given those before it."""
        start = torch.full_like(skills[..., :1], self.start)
        known = [self.team_skill(torch.cat([start, skills[..., :1]], -1)[..., : self.positions])]
        if self.agent_skill is not None:
            known.append(self.agent_skill(skills[..., 1:-1]))
        tokens = self.token_norm(nn.functional.gelu(torch.cat(known, -2)))
        encoded = encoded[..., : self.positions, :]
        for block in self.decoder:
            tokens = block(tokens, encoded)
        logits = self.logits(tokens)
        # Not -inf: 0 * -inf is NaN in the entropy and in gradients.
        return logits.masked_fill(self.forbidden, torch.finfo(logits.dtype).min / 2).log_softmax(-1)


class UniformSkills(nn.Module):
    """agent.ablation=no_high: any skill for anybody."""

    def __init__(self, choices: Sequence[int]) -> None:
        super().__init__()
        self.choices, self.positions = tuple(choices), len(choices)

    def act(self, state: Tensor, frames: TensorDictBase, *, deterministic: bool) -> Choice:
        """Drawn even where others would take the best: there is no best."""
        shape = state.shape[:-1]
        drawn = [torch.randint(n, shape, device=state.device) for n in self.choices]
        sizes = torch.stack([state.new_full(shape, float(n)) for n in self.choices], -1)
        return Choice(torch.stack(drawn, -1), -sizes.log())


def _noise(rows: Tensor) -> Tensor:
    """Subtracted from log-probs it makes argmax a draw: the exponential race, which asks no host."""
    return torch.empty_like(rows).exponential_().log()


def _table(skills: int, width: int) -> nn.Embedding:
    table = nn.Embedding(skills, width)
    nn.init.orthogonal_(table.weight, _GAIN)
    return table


def _embedding(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(inputs), linear(inputs, width, _GAIN), nn.GELU())


def _head(width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        linear(width, width, _GAIN),
        nn.GELU(),
        nn.LayerNorm(width),
        linear(width, outputs, _SMALL),
    )
