"""Normalisers, encoders of entity sets, and which observation leaf is what."""

import pytest
import torch

from navrl.agents.networks.encoders import EntityEncoder, observation_leaves
from navrl.agents.networks.layers import Normaliser
from tests.agents.conftest import entities, spec


def test_normaliser_equals_the_moments_of_all_rows():
    normaliser = Normaliser(3)
    scale, shift = torch.tensor([1.0, 50.0, 0.01]), torch.tensor([0.0, -300.0, 2.0])
    batches = [torch.randn(n, 3) * scale * (n % 7 + 1) + shift for n in (64, 3, 1000, 1, 250)]
    for batch in batches:
        normaliser.update(batch)
    rows = torch.cat(batches).double()
    torch.testing.assert_close(normaliser.mean.double(), rows.mean(0), rtol=1e-4, atol=1e-5)
    variance = rows.var(0, unbiased=False)
    torch.testing.assert_close(normaliser.variance.double(), variance, rtol=1e-4, atol=0.0)
    assert normaliser.count.item() == 64 + 3 + 1000 + 1 + 250


def test_first_batch_replaces_the_initial_variance():
    normaliser = Normaliser(1)
    normaliser.update(torch.tensor([[10.0], [30.0]]))
    assert (normaliser.mean.item(), normaliser.variance.item()) == (20.0, 100.0)
    scaled = normaliser(torch.tensor([[30.0], [1e6], [-1e6]]))
    assert scaled.flatten().tolist() == pytest.approx([10.0 / (100.0001**0.5), 10.0, -10.0])


def test_a_batch_without_a_finite_row_changes_nothing():
    fresh, experienced = Normaliser(1), Normaliser(1)
    experienced.update(torch.tensor([[10.0], [30.0]]))
    for normaliser, moments in ((fresh, (0.0, 1.0, 0.0)), (experienced, (20.0, 100.0, 2.0))):
        normaliser.update(torch.full((5, 1), float("nan")))
        found = normaliser.mean.item(), normaliser.variance.item(), normaliser.count.item()
        assert found == moments


def test_rows_that_are_not_counted_or_not_finite_do_not_count():
    normaliser = Normaliser(2)
    bad = [[float("nan"), 9.0], [float("inf"), 1.0]]
    rows = torch.tensor([[1.0, 4.0], [50.0, 50.0], [3.0, 8.0], *bad])
    normaliser.update(rows, torch.tensor([[True], [False], [True], [True], [True]]))
    assert normaliser.mean.tolist() == [2.0, 6.0]
    assert normaliser.count.item() == 2.0


ENTITIES, FEATURES = 5, 3


def crowd(rows=20):
    """An encoder, and rows of entities of which some are absent; nobody is present in the first."""
    encoder = EntityEncoder(features=FEATURES, sizes=[8, 6], activation="tanh")
    present = torch.rand(rows, ENTITIES) < 0.6
    present[0], present[1] = False, True
    return encoder, torch.randn(rows, ENTITIES, FEATURES), present


def test_a_set_becomes_the_mean_and_maximum_of_its_present_entities():
    encoder, rows, present = crowd()
    found = encoder(rows, present)
    assert found.shape == (20, encoder.outputs) == (20, 12)
    assert (found[0] == 0.0).all()
    for row, mask, pooled in zip(rows[1:], present[1:], found[1:], strict=True):
        outputs = encoder.layers(row)[mask].double()
        if len(outputs):
            expected = torch.cat([outputs.mean(0), outputs.max(0).values])
            torch.testing.assert_close(pooled.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("garbage", [1e6, float("nan"), float("inf")])
def test_absent_entities_change_neither_the_result_nor_a_gradient(garbage):
    encoder, rows, present = crowd()
    spoilt = torch.where(present.unsqueeze(-1), rows, garbage)
    outcomes = []
    for each in (rows, spoilt):
        encoded = encoder(each, present)
        gradients = torch.autograd.grad(encoded.square().sum(), list(encoder.parameters()))
        outcomes.append([encoded, *gradients])
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))
    assert outcomes[0][1].abs().max() > 0.0


def test_leaves_are_vectors_and_entities_with_their_masks():
    leaves = observation_leaves(spec(wide=(12,), ego=(3,), **entities("mates", 2, 7)))
    assert leaves.vectors == {"ego": 3, "wide": 12}
    assert leaves.entities == {"mates": (2, 7)}
    assert leaves.scans == {}
    assert list(leaves.vectors) == ["ego", "wide"]  # names of parameters follow this order


@pytest.mark.parametrize(
    ("leaves", "complaint"),
    [
        (
            {"image": (5, 7)},
            r"leaf 'image' has shape \(5, 7\); .* a bool leaf 'image_mask' of shape \(5,\)",
        ),
        ({**entities("image", 5, 7), "image": (4, 7)}, r"a bool leaf 'image_mask' of shape \(4,\)"),
        ({"film": (3, 5, 7)}, r"leaf 'film' has shape \(3, 5, 7\); expected a vector"),
    ],
)
def test_other_shapes_are_refused_in_one_sentence(leaves, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        observation_leaves(spec(**leaves))
    assert "\n" not in str(refused.value)


def test_sizes_that_make_no_layer_are_refused(make_agent):
    for option in ("hidden_sizes", "entity_sizes"):
        for wrong in ([], [8, 0]):
            with pytest.raises(
                ValueError, match=rf"agent\.network\.{option} = .*; expected one or more"
            ):
                make_agent(
                    observation_spec=spec(ego=(3,), **entities("mates", 2, 7)), **{option: wrong}
                )
