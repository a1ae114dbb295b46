"""The trunk of a policy or a critic: an observation encoder, an MLP, a memory and a last layer."""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from navrl.agents.networks.actor_critic import ActorCriticOptions
from navrl.agents.networks.encoders import Leaves, ObservationEncoder
from navrl.agents.networks.layers import Normaliser, linear, mlp
from navrl.agents.networks.memory import FRESH, HIDDEN, recurrence

# Gains of the last layers. The first policy is almost uniform, and centred on intervals.
POLICY_GAIN, CRITIC_GAIN = 0.01, 1.0


class Trunk(nn.Module):
    """An encoder, an MLP and a last layer that gives `outputs`.

    A memory (`rnn`) is between the MLP and the last layer.
    """

    def __init__(
        self,
        *,
        encoder: ObservationEncoder,
        outputs: int,
        output_gain: float,
        options: ActorCriticOptions,
        rnn: str = "none",
    ) -> None:
        super().__init__()
        self.encoder, self.bf16 = encoder, options.precision == "bf16"
        sizes, activation = options.hidden_sizes, options.activation
        self.layers = mlp(encoder.outputs, sizes, activation, option="hidden_sizes")
        self.memory = recurrence(rnn, sizes[-1], options.chunk_length, options="agent.network")
        self.layers.append(linear(sizes[-1], outputs, output_gain))

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names of all observation leaves that are read."""
        return self.encoder.leaves

    @property
    def last(self) -> nn.Linear:
        """The layer that gives the outputs."""
        *_, layer = self.layers
        return cast("nn.Linear", layer)

    def with_shared_features(self, frames: TensorDictBase) -> TensorDictBase:
        """Return the frames as they are: policy and critic share no layer."""
        return frames

    def forward(self, frames: TensorDictBase) -> Tensor:
        """Return outputs (...) in float32; with bf16 the matrix products, and so the outputs, are rounded.

        Frames with the leaf FRESH are chunks of steps; others are single steps.
        """
        if not self.memory.size:
            return self._encoded(self.layers, frames)
        if FRESH not in frames:
            return self.step(frames)[0]
        rows = self._encoded(self.layers[:-1], frames)
        return self.last(self.memory(rows, frames.get(HIDDEN)[:, 0], frames.get(FRESH)))

    def step(self, frames: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Return the outputs of single steps, and the hidden state after them."""
        rows = self._encoded(self.layers[:-1], frames)
        rows, hidden = self.memory.step(rows, frames.get(HIDDEN))
        return self.last(rows), hidden

    def _encoded(self, layers: nn.Module, frames: TensorDictBase) -> Tensor:
        device = self.last.weight.device.type
        with torch.autocast(device, dtype=torch.bfloat16, enabled=self.bf16):
            return layers(self.encoder(frames)).float()

    def update_normalisers(self, frames: TensorDictBase) -> None:
        """Merge the frames (B,) into the statistics of the encoder."""
        self.encoder.update_normalisers(frames)


def trunk_builder(source: str, leaves: Leaves, options: ActorCriticOptions) -> Callable[..., Trunk]:
    """Return a function that builds trunks which read these leaves of `source` with shared normalisers."""
    normalisers = nn.ModuleDict({leaf: Normaliser(n) for leaf, n in leaves.normalised.items()})
    encoder = partial(ObservationEncoder, leaves, options, source=source, normalisers=normalisers)
    return lambda **shape: Trunk(encoder=encoder(), options=options, **shape)
