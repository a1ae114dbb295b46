"""Weights as NavRL publishes them, and what they compute, from the description of the network alone."""

import functools
from collections import OrderedDict

import pytest
import torch
from torch.nn import functional

from navrl.commands import import_navrl
from navrl.config.compose import build, compose
from tests.agents.drone import disturbed, drone_specs
from tests.conftest import ROOT

PUBLISHED = ROOT.parent / "shared" / "data" / "navrl_checkpoint.pt"


@functools.cache
def configuration(*overrides):
    return compose("train", ["agent=ppo_navrl", "compile=off", *overrides])


def make_agent(*overrides):
    """The shipped agent=ppo_navrl for hand-made specs."""
    observation, action = drone_specs(1)
    return build(configuration(*overrides).agent)(
        observation_spec=observation, action_spec=action, device="cpu", num_iterations=1
    )


def published_weights():
    """Weights by their published names: another network at every call."""
    agent = disturbed(make_agent())
    tensors = {name: x.clone() for name, x in import_navrl.published(agent).items()}
    statistics = {"running_mean": [447.2], "running_mean_sq": [204958.7]}
    for name, value in statistics.items():
        tensors[f"value_norm.{name}"] = torch.tensor(value)
    tensors["value_norm.debiasing_term"] = torch.tensor(0.9999)
    return OrderedDict(tensors)


def downloaded():
    """The published file, where there is one beside the checkout."""
    if not PUBLISHED.is_file():
        pytest.skip(f"{PUBLISHED.name} is not here")
    return import_navrl.read_published(PUBLISHED)


def restated(weights, frames):
    """Alpha, beta and value of the published network, in float64 from its description."""
    w = {name: tensor.double() for name, tensor in weights.items()}
    state, lidar, obstacles = (
        frames["observation", leaf].double() for leaf in ("state", "lidar", "obstacles")
    )

    def affine(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def normed(name, x):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def leaky(x):
        return torch.where(x > 0.0, x, 0.01 * x)

    scan, extractor = lidar, "feature_extractor.module"
    for layer, stride in ((0, (1, 1)), (2, (2, 1)), (4, (2, 2))):
        name = f"{extractor}.0.module.{layer}"
        scan = functional.conv2d(scan, w[f"{name}.weight"], w[f"{name}.bias"], stride, (2, 1))
        scan = torch.where(scan > 0.0, scan, scan.expm1())
    scan = normed(f"{extractor}.0.module.8", affine(f"{extractor}.0.module.7", scan.flatten(1)))
    near = obstacles.flatten(1)
    for layer in (0, 3):
        name = f"{extractor}.1.module.1"
        near = normed(f"{name}.{layer + 2}", leaky(affine(f"{name}.{layer}", near)))
    features = torch.cat([scan, near, state], -1)
    for layer in (0, 3):
        name = f"{extractor}.3.module"
        features = normed(f"{name}.{layer + 2}", leaky(affine(f"{name}.{layer}", features)))
    alpha, beta = (
        1.0 + functional.softplus(affine(f"actor.module.0.module.{kind}_layer", features)) + 1e-6
        for kind in ("alpha", "beta")
    )
    mean, square = (
        w[f"value_norm.{name}"] / w["value_norm.debiasing_term"]
        for name in ("running_mean", "running_mean_sq")
    )
    deviation = (square - mean.square()).clamp_min(1e-2).sqrt()
    return alpha, beta, affine("critic.module", features) * deviation + mean
