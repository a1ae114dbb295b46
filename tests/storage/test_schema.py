"""States that do not fit are named by their place; what fits passes, whatever grew."""

import math
from typing import Any

import pytest
import torch

from navrl.storage.schema import (
    ANYTHING,
    CheckpointMismatch,
    Each,
    Either,
    Having,
    Named,
    check,
    check_finite,
    exactly,
    fits,
    loading,
    numbers,
    text,
    whole,
)

LIKE: dict[str, Any] = {
    "weight": torch.zeros(2, 3),
    "count": 3,
    "rate": 0.5,
    "on": True,
    "name": "a",
    "none": None,
    "list": [torch.zeros((), dtype=torch.int64), 1],
    "pair": (1.0, 2.0),
}


def changed(**changes: Any) -> dict[str, Any]:
    return LIKE | changes


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"weight": torch.ones(2, 3)},
        {"count": 0},
        {"count": 2**63 - 1},
        {"rate": -1e300},
        {"on": False},
        {"name": ""},
        {"list": [torch.ones((), dtype=torch.int64), 7]},
    ],
)
def test_a_state_of_the_same_form_fits(changes: dict[str, Any]) -> None:
    check(changed(**changes), LIKE, "state")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"weight": torch.zeros(3, 2)},
            "weight is float32 3 x 2; expected float32 2 x 3 of finite",
        ),
        ({"weight": torch.zeros(2, 3).double()}, "weight is float64 2 x 3; expected float32"),
        (
            {"weight": torch.full((2, 3), math.nan)},
            "weight is float32 2 x 3 with numbers that are not",
        ),
        ({"weight": [0.0] * 6}, "weight is a list of 6; expected float32"),
        ({"count": -1}, "count is -1; expected a whole number of 0 or more"),
        ({"count": True}, "count is True; expected a whole number"),
        ({"count": 1.0}, "count is 1.0; expected a whole number"),
        ({"count": 2**63}, "count is 9223372036854775808; expected a whole number"),
        ({"rate": math.inf}, "rate is inf; expected a finite number"),
        ({"rate": 1}, "rate is 1; expected a finite number"),
        ({"on": 1}, "on is 1; expected true or false"),
        ({"name": None}, "name is None; expected a string"),
        ({"none": {}}, "none is a dict of 0; expected None"),
        (
            {"list": [torch.zeros((), dtype=torch.int64)]},
            "list is a list of 1; expected a list of 2",
        ),
        ({"list": (1, 2)}, "list is a tuple of 2; expected a list of 2"),
        ({"pair": [1.0, 2.0]}, "pair is a list of 2; expected a tuple of 2"),
        ({"pair": (1.0, math.nan)}, "pair/1 is nan; expected a finite number"),
        ({"more": 1}, "more is unknown; expected weight, count"),
    ],
)
def test_the_first_misfit_is_named_by_its_place(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CheckpointMismatch) as caught:
        check(changed(**changes), LIKE, "state")
    assert str(caught.value).startswith(f"state/{sentence}")


@pytest.mark.parametrize("name", list(LIKE))
def test_every_part_is_needed(name: str) -> None:
    found = {key: value for key, value in LIKE.items() if key != name}
    with pytest.raises(CheckpointMismatch, match=f"state/{name} is absent; expected it beside"):
        check(found, LIKE, "state")


@pytest.mark.parametrize("found", [None, [], 3, torch.zeros(2), "weight"])
def test_a_dict_is_needed_where_there_was_one(found: Any) -> None:
    for expected in (LIKE, Named(ANYTHING), Having({})):
        with pytest.raises(CheckpointMismatch, match=r"state is .*; expected a dict"):
            check(found, expected, "state")


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (whole(1, 3), [1, 3], [0, 4, True, 1.0, "1", None, 10**400]),
        (text("[ab]+", "a or b"), ["ab"], ["", "abc", "ab\n", 3]),
        (exactly(1, "x", None), [1, "x", None], [True, 1.0, "y", 0]),
        (Each(whole()), [[], [1, 2]], [(1,), [1, -1], None, {}]),
        (Named(0.0, "r\\d"), [{}, {"r1": 2.0}], [{"s": 1.0}, {1: 1.0}, {"r1": 1}, [1.0]]),
        (Either({}, {"a": 1}), [{}, {"a": 2}], [{"b": 1}, None, {"a": "x"}]),
        (
            Having({"a": 1}, {"b": 1}),
            [{"a": 1}, {"a": 1, "b": 2, "c": None}],
            [{"b": 1}, {"a": 1, "b": ""}],
        ),
        (Having({"a": 1}, {"b": 1}, others=False), [{"a": 1, "b": 1}], [{"a": 1, "c": 1}]),
        (
            numbers(torch.int64, [None, 2], least=0, most=5),
            [torch.zeros(0, 2).long(), torch.full((3, 2), 5)],
            [
                torch.full((3, 2), 6),
                torch.full((1, 2), -1),
                torch.zeros(2).long(),
                torch.zeros(1, 2),
            ],
        ),
        (
            numbers(torch.float32, [1], least=0),
            [torch.zeros(1), torch.full((1,), math.inf)],
            [torch.full((1,), math.nan), torch.full((1,), -0.5), 0.0],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rules_where_a_state_may_grow(rule: Any, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if not fits(value, rule)] == []
    assert [value for value in bad if fits(value, rule)] == []


def test_a_tensor_may_be_infinite_where_a_fresh_one_is() -> None:
    broken = torch.tensor([1.0, math.inf])
    check(broken, broken.clone(), "state")
    assert not fits(broken, torch.zeros(2))


def test_foreign_text_in_a_sentence_is_short_and_plain() -> None:
    with pytest.raises(CheckpointMismatch) as caught:
        check({"\x1b[31m" * 99: 1}, {"a": 1}, "state")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


def test_weights_that_are_not_finite_are_named_with_their_file() -> None:
    state = {name: torch.tensor([1.0, math.nan]) for name in "abcde"} | {"whole": torch.ones(2)}
    with pytest.raises(
        CheckpointMismatch, match=r"x.ckpt holds numbers .* in a, b, c and 2 more; exp"
    ):
        check_finite(state, "x.ckpt")
    check_finite({"a": torch.ones(2), "n": 3, "bits": torch.ones(2, dtype=torch.bool)}, "x.ckpt")


def test_the_file_is_named_where_the_state_is_loaded() -> None:
    sentence = r"^x.ckpt does not fit: frames is -1; expected .*; use"
    with pytest.raises(CheckpointMismatch, match=sentence), loading("x.ckpt"):
        check(-1, whole(), "frames")
