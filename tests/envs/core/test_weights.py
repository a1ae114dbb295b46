"""Named weights: values, frequencies of draws, refusals, and changes without a new graph."""

import math

import pytest
import torch

from navrl.envs.core.weights import Coefficients, Weights

NAMES = ("a", "b", "c", "d")
EVENLY = torch.arange(1000) / 1000.0


def weights(**values):
    return Weights(names=NAMES, weights=values, setting="scenario.weights")


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ({"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}, [100, 200, 300, 400]),
        ({"d": 4, "c": 3, "b": 2, "a": 1}, [100, 200, 300, 400]),  # by name, not by order; any sum
        ({"a": 0, "b": 1, "c": 0, "d": 1}, [0, 500, 0, 500]),
        ({"a": 0.7, "b": 0.1, "c": 0.2, "d": 0}, [700, 100, 200, 0]),
        ({"a": 0, "b": 0, "c": 1e-3, "d": 0}, [0, 0, 1000, 0]),
    ],
    ids=str,
)
def test_names_are_chosen_by_their_weights(values, counts):
    choice = weights(**values).choose(EVENLY)
    assert choice.dtype == torch.int32
    found = torch.bincount(choice, minlength=4).tolist()
    # An edge may fall to either side of the draw that equals it.
    assert found == pytest.approx(counts, abs=1)
    assert [share for share, weight in zip(found, counts, strict=True) if weight == 0] == [
        0 for weight in counts if weight == 0
    ]


def test_the_first_and_the_last_draw_never_fall_to_a_weight_of_zero():
    ends = torch.tensor([0.0, 1.0 - 2.0**-24])
    assert weights(a=0, b=0.1, c=0.7, d=0).choose(ends).tolist() == [1, 2]


def test_a_change_is_seen_by_a_compiled_function_that_stays_as_it_is():
    changing = weights(a=1, b=0, c=0, d=0)
    factors = Coefficients(
        names=("x", "y"), weights={"x": 1.0, "y": -2.0}, setting="reward.weights"
    )

    def step(draw):
        return changing.choose(draw), factors.tensor[0] * draw + factors.tensor[1]

    compiled = torch.compile(
        step, backend="eager", fullgraph=True, dynamic=False, isolate_recompiles=True
    )
    choice, line = compiled(EVENLY)
    assert choice.unique().tolist() == [0]
    assert torch.equal(line, EVENLY - 2.0)
    with torch._dynamo.config.patch(error_on_recompile=True):
        changing.set({"a": 1, "b": 0, "c": 0, "d": 1})
        factors.set({"y": 3.0, "x": 0.5})
        choice, line = compiled(EVENLY)
    assert torch.bincount(choice).tolist() == [500, 0, 0, 500]
    assert torch.equal(line, 0.5 * EVENLY + 3.0)


def test_a_move_keeps_the_numbers():
    factors = Coefficients(
        names=("x", "y"), weights={"x": 1.0, "y": -2.0}, setting="reward.weights"
    )
    factors.to("meta")
    assert factors.tensor.device.type == "meta"
    moved = weights(a=1, b=0, c=0, d=1)
    moved.to("cpu")
    assert torch.bincount(moved.choose(EVENLY)).tolist() == [500, 0, 0, 500]


BAD = [
    {"a": 1.0},
    dict.fromkeys((*NAMES, "e"), 1.0),
    dict.fromkeys(("a", "b", "c", "x"), 1.0),
    {},
    {"a": math.nan, "b": 1.0, "c": 1.0, "d": 1.0},
    {"a": "big", "b": 1.0, "c": 1.0, "d": 1.0},
    {"a": math.inf, "b": 1.0, "c": 1.0, "d": 1.0},
]
BAD_SHARES = [dict.fromkeys(NAMES, 0.0), {"a": -1.0, "b": 2.0, "c": 2.0, "d": 2.0}]


@pytest.mark.parametrize("values", [*BAD, *BAD_SHARES], ids=str)
def test_weights_that_draw_nothing_sensible_are_refused_and_change_nothing(values):
    sentence = r"expected a weight of 0 or more, not all 0, for each of \['a', 'b', 'c', 'd'\]"
    with pytest.raises(ValueError, match=sentence + r"; change scenario\.weights$"):
        weights(**values)
    kept = weights(a=1, b=0, c=0, d=1)
    with pytest.raises(ValueError, match=sentence):
        kept.set(values)
    assert torch.bincount(kept.choose(EVENLY)).tolist() == [500, 0, 0, 500]


@pytest.mark.parametrize("values", BAD, ids=str)
def test_coefficients_that_do_not_fit_are_refused(values):
    sentence = r"expected one finite number for each of \['a', 'b', 'c', 'd'\]; change reward\.w"
    with pytest.raises(ValueError, match=sentence):
        Coefficients(names=NAMES, weights=values, setting="reward.weights")
