"""Encoders of lidar scans against slow loops, and what a lidar's seam does to them."""

import math

import pytest
import torch
from torchrl.data import Bounded

from navrl.agents.networks.encoders import observation_leaves
from navrl.agents.networks.lidar import Scan, scan_encoder
from tests.agents.conftest import NUM_ENVS, spec
from tests.agents.drone import BEAMS, RINGS, drone_specs, seen_by

KINDS = ("mlp", "mlp_small", "cnn", "cnn_circular")


def encoder(kind, *, beams=BEAMS, rings=RINGS, largest=1.0):
    return scan_encoder(kind, Scan(beams, rings, largest), "relu")


def looped(rows, layer, strides, *, circular):
    """A convolution (channels, beams, rings) by its definition, then ELU; nested lists of floats."""
    weight, bias = layer.weight.tolist(), layer.bias.tolist()
    beams, rings = len(rows[0]), len(rows[0][0])

    def at(channel, beam, ring):
        if not 0 <= ring < rings or not (circular or 0 <= beam < beams):
            return 0.0
        return rows[channel][beam % beams][ring]

    def cell(out, beam, ring):
        total = bias[out]
        for channel, kernel in enumerate(weight[out]):
            for i, line in enumerate(kernel):
                for j, factor in enumerate(line):
                    total += factor * at(channel, beam + i - 2, ring + j - 1)
        return total if total > 0.0 else math.expm1(total)

    return [
        [
            [cell(out, b, r) for r in range(0, rings, strides[1])]
            for b in range(0, beams, strides[0])
        ]
        for out in range(len(weight))
    ]


@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize("beams", [8, 11])
def test_convolutions_equal_their_definition(circular, beams):
    cnn = encoder("cnn_circular" if circular else "cnn", beams=beams, largest=4.0)
    scan = 4.0 * torch.rand(2, 1, beams, RINGS)
    for row, found in zip(scan.tolist(), cnn.layers[:7](scan / 4.0), strict=True):
        maps = [[[value / 4.0 for value in beam] for beam in row[0]]]
        for layer, strides in ((0, (1, 1)), (2, (2, 1)), (4, (2, 2))):
            maps = looped(maps, cnn.layers[layer], strides, circular=circular)
        flat = [value for channel in maps for beam in channel for value in beam]
        assert found.tolist() == pytest.approx(flat, abs=1e-5)
    torch.testing.assert_close(cnn(scan), cnn.layers(scan / 4.0))


def test_turning_a_scan_turns_what_the_circular_convolution_sees():
    scan = torch.rand(3, 1, BEAMS, RINGS)
    turned = scan.roll(4, 2)  # two strides of 2: one cell of the last map
    for kind, equal in (("cnn_circular", True), ("cnn", False)):
        convolutions = encoder(kind).layers[:6]
        ahead, behind = convolutions(turned), convolutions(scan).roll(1, 2)
        assert torch.allclose(ahead, behind, atol=1e-6) == equal


def test_scales_come_from_the_spec():
    bounded = spec(lidar=Bounded(0.0, 4.0, (NUM_ENVS, 1, 36, 4)))
    assert observation_leaves(bounded).scans == {"lidar": (36, 4, 4.0)}
    assert observation_leaves(spec(lidar=(1, 36, 4))).scans == {"lidar": (36, 4, 1.0)}
    for kind in KINDS:
        metres, share = encoder(kind, largest=4.0), encoder(kind, largest=1.0)
        share.load_state_dict(metres.state_dict())
        scan = torch.rand(5, 1, BEAMS, RINGS)
        torch.testing.assert_close(metres(4.0 * scan), share(scan))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_scan_enters_beside_vectors_and_entities(make_agent, kind, precision):
    observation, action = drone_specs()
    options = {"lidar_encoder": kind, "precision": precision}
    agent = make_agent(observation_spec=observation, action_spec=action, **options)
    frames = seen_by(9)
    value = agent.critic(frames.clone())["state_value"]
    assert value.dtype == torch.float32
    for leaf in ("state", "lidar", "obstacles"):
        other = frames.clone()
        other["observation", leaf] += 1.0
        assert not torch.equal(agent.critic(other)["state_value"], value)
    assert ("observation", "lidar") in agent.policy.in_keys
    assert set(agent.policy.trunk.encoder.encoders) == {"lidar", "obstacles"}
    assert set(agent.policy.trunk.encoder.normalisers) == {"state", "obstacles"}


def test_an_unknown_encoder_is_refused(make_agent):
    with pytest.raises(
        ValueError, match=r"lidar_encoder = vit; expected one of mlp, mlp_small, cnn, cnn_circular"
    ):
        make_agent(observation_spec=drone_specs()[0], lidar_encoder="vit")
