"""Layers after a LayerNorm are torch's own, though the norm's parameters are multiplied into them first."""

import pytest
import torch

from navrl.agents.networks.layers import LayerNormMLP, NetworkOptions


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_normalised_layers_are_those_of_torch(activation):
    sizes = [16, 12, 8]
    options = NetworkOptions(
        hidden_sizes=sizes, entity_sizes=[8], lidar_encoder="mlp", activation=activation
    )
    layers = LayerNormMLP(10, options)
    for parameter in layers.parameters():
        torch.nn.init.normal_(parameter)
    rows, upstream = torch.randn(5, 3, 10, requires_grad=True), torch.randn(5, 3, 8)
    results = []
    for found in (layers(rows), torch.nn.Sequential(*layers)(rows)):
        gradients = torch.autograd.grad(found, [rows, *layers.parameters()], upstream)
        results.append([found, *gradients])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
