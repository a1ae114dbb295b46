"""How skills differ before anything is learned."""

import pytest
import torch
from torchrl.data import Bounded, MultiCategorical

from navrl.agents.hmasd.low_level import initial_biases
from navrl.agents.networks.heads import head_for
from navrl.envs.core.specs import Hybrid


def five_actions():
    return head_for(MultiCategorical([5], shape=(1,)))


def test_every_two_actions_have_a_skill_that_leans_to_both():
    rows = initial_biases("pairs", 10, 2.0, five_actions())
    torch.testing.assert_close(rows.norm(dim=-1), torch.full((10,), 4.0))  # 2 * sqrt(5 - 1)
    torch.testing.assert_close(rows.sum(-1), torch.zeros(10), atol=1e-5, rtol=0.0)
    liked = {tuple((row > 0).nonzero().flatten().tolist()) for row in rows}
    assert liked == {(i, j) for i in range(5) for j in range(i + 1, 5)}
    for row in rows:
        assert row[row > 0].unique().numel() == row[row < 0].unique().numel() == 1
    likes = [(initial_biases("pairs", n, 2.0, five_actions()) > 0).sum(0) for n in (5, 10)]
    assert [count.tolist() for count in likes] == [[2] * 5, [4] * 5]  # no action is favoured


def test_of_an_interval_a_pair_is_one_way_along_each_of_two_columns():
    rows = initial_biases("pairs", 12, 1.0, head_for(Bounded(-1.0, 1.0, shape=(3,))))
    torch.testing.assert_close(rows[:, 3:], -rows[:, :3])
    signs = {tuple(row.sign().int().tolist()) for row in rows[:, :3]}
    assert len(signs) == 12  # three ways to choose two columns, four ways to go along them
    assert {sum(map(abs, sign)) for sign in signs} == {2}


def test_more_skills_than_pairs_begin_with_the_opposites_and_then_again():
    rows = initial_biases("pairs", 21, 1.0, five_actions())
    assert torch.equal(rows[10:20], -rows[:10])
    assert torch.equal(rows[20], rows[0])
    alone = initial_biases("pairs", 2, 1.0, head_for(Bounded(-1.0, 1.0, shape=(1,))))
    torch.testing.assert_close(alone, torch.tensor([[0.5, -0.5], [-0.5, 0.5]]) * 2**0.5)


def test_spread_skills_go_both_ways_along_a_basis_of_all_differences():
    rows = initial_biases("spread", 8, 2.0, five_actions())
    torch.testing.assert_close(rows.norm(dim=-1), torch.full((8,), 4.0))  # 2 * sqrt(5 - 1)
    torch.testing.assert_close(rows.sum(-1), torch.zeros(8), atol=1e-5, rtol=0.0)
    assert torch.equal(rows[1::2], -rows[::2])
    # A tight frame: the squared leanings of all skills to any difference sum to the same.
    frame = rows.T @ rows
    torch.testing.assert_close(frame, 32.0 * (torch.eye(5) - 0.2), atol=1e-4, rtol=0.0)
    for _ in range(100):
        direction = torch.randn(5)
        direction = (direction - direction.mean()) / (direction - direction.mean()).norm()
        assert (rows @ direction).max() >= 4.0 / 4**0.5 - 1e-4


def test_more_skills_take_another_basis_and_fewer_its_first_axes():
    rows = initial_biases("spread", 11, 1.0, five_actions())
    assert rows.shape == (11, 5)
    assert (rows[:8] @ rows[8] / 4.0).abs().max() < 0.999
    assert initial_biases("spread", 1, 1.0, five_actions()).shape == (1, 5)


@pytest.mark.parametrize(
    ("spec", "groups"),
    [
        (MultiCategorical([3, 2], shape=(2,)), [[0, 1, 2], [3, 4]]),
        (Bounded(-1.0, 1.0, shape=(3,)), [[0, 3], [1, 4], [2, 5]]),
        (Hybrid([-1.0, 0.0], [1.0, 1.0], shape=(2,)), [[0, 1], [2, 3]]),
    ],
)
@pytest.mark.parametrize("kind", ["pairs", "spread"])
def test_only_what_competes_is_weighed_against_each_other(spec, groups, kind):
    head = head_for(spec)
    rows = initial_biases(kind, 6, 1.0, head)
    freedom = sum(len(group) - 1 for group in groups)
    assert sorted(sum(groups, [])) == list(range(head.outputs))  # noqa: RUF017
    torch.testing.assert_close(rows.norm(dim=-1), torch.full((6,), freedom**0.5))
    for group in groups:
        torch.testing.assert_close(rows[:, group].sum(-1), torch.zeros(6), atol=1e-5, rtol=0.0)


def test_gaussian_skills_have_their_deviation():
    rows = initial_biases("gaussian", 4000, 2.0, five_actions())
    assert rows.std().item() == pytest.approx(2.0, rel=0.05)
