"""Rows that are kept in another form, against the plain tensor."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from navrl.collectors import compressed
from navrl.collectors.compressed import CompressedRows, NextRows
from navrl.collectors.lazy_tensor import LazyTensor, RowRange

STEPS, ROW = 6, (2, 3)
EXECUTOR = ThreadPoolExecutor(2)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(compressed, "_BLOCK_BYTES", 150)  # so that a few envs fill several


def plain(num_envs, dtype=torch.float32):
    """A tensor and the same in "next"; here and there an episode ends, one value is NaN, one a minus zero."""
    draw = torch.Generator().manual_seed(num_envs)
    now = torch.randint(0, 3, (num_envs, STEPS + 1, *ROW), generator=draw)
    after = now[:, 1:].clone()
    after[0, 2] = 1 - after[0, 2]
    now, after = now[:, :-1].to(dtype), after.to(dtype)
    if dtype == torch.float32:
        now[0, 1, 0, 0] = after[0, 0, 0, 0] = float("nan")
        now[-1, 3, 0, 0], after[-1, 2, 0, 0] = 0.0, -0.0
    return now, after


def kept(now, after, pieces=(2, 1, 3)):
    """Both, appended a few steps at a time."""
    rows = CompressedRows(steps=STEPS, executor=EXECUTOR, threads=2)
    following = NextRows(rows, steps=STEPS)
    for piece, then in zip(now.split(pieces, 1), after.split(pieces, 1), strict=True):
        rows.append(piece)
        following.append(piece, then)
    return rows, following


def same_bits(one, other):
    return one.dtype == other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.bfloat16])
def test_rows_by_their_numbers_are_those_of_the_tensor(dtype):
    now, after = plain(7, dtype)
    index = torch.randperm(7 * STEPS, generator=torch.Generator().manual_seed(1))[:20]
    for rows, tensor in zip(kept(now, after), (now, after), strict=True):
        expected = tensor.flatten(0, 1)[index]
        rows.at(index).zero_()  # theirs to write to, and nobody else's
        assert same_bits(rows.at(index), expected)
        out = torch.empty_like(expected)
        assert rows.at(index, out) is out
        assert same_bits(out, expected)


@pytest.mark.parametrize("num_envs", [1, 2, 11])
def test_a_lazy_tensor_is_the_tensor_under_every_operation(num_envs):
    now, after = plain(num_envs)
    for rows, tensor in zip(kept(now, after), (now, after), strict=True):
        place = RowRange(first=0, steps=STEPS, leading=2, at_once=5)
        leaf, flat = LazyTensor(rows, place, tensor.shape, tensor), tensor.flatten(0, 1)
        assert leaf.rows_at_once == 5
        assert same_bits(leaf.whole(), tensor)
        assert same_bits(leaf[:, 4], tensor[:, 4])
        lone = leaf.reshape(-1, *ROW)
        assert isinstance(lone, LazyTensor)
        assert isinstance(lone[3:7], LazyTensor)
        assert same_bits(lone[3:5][1:] + 0.0, flat[3:5][1:] + 0.0)
        assert same_bits(torch.cat([part.whole() for part in lone.split(4)]), flat)
        assert same_bits(lone[2:].index_select(0, torch.tensor([3, 0])), flat[[5, 2]])
        assert same_bits(lone[2:][torch.tensor([3, -1, 0])], flat[2:][[3, -1, 0]])
        assert same_bits(lone[flat[:, 0, 0] > 0.0], flat[flat[:, 0, 0] > 0.0])
        assert same_bits(lone.view(num_envs, STEPS, *ROW)[1:].whole(), tensor[1:])
        assert torch.equal(leaf.isfinite(), tensor.isfinite())
        assert same_bits(leaf[..., 1, :], tensor[..., 1, :])
        assert same_bits(lone.flatten(1), flat.flatten(1))


def test_rows_by_their_numbers_make_no_others(monkeypatch):
    now, after = plain(4)
    rows, _ = kept(now, after)
    lone = LazyTensor(
        rows, RowRange(first=0, steps=STEPS, leading=1, at_once=5), (4 * STEPS, *ROW), now
    )
    monkeypatch.delattr(LazyTensor, "whole")
    chosen = TensorDict({"scan": lone}, [4 * STEPS])[torch.tensor([7, 0])]
    assert same_bits(chosen["scan"], now.flatten(0, 1)[[7, 0]])


def test_what_follows_costs_only_the_rows_that_differ():
    now, after = plain(7)
    _, following = kept(now, after)
    own = 7 + 1 + 1  # the last step of every env; an end of an episode; a minus zero
    assert following.num_bytes == own * (8 + 6 * 4)


def test_zeros_are_kept_in_few_bytes_and_noise_in_no_more_than_its_own():
    noise = torch.randint(-(2**62), 2**62, (7, STEPS, *ROW))
    zeros = torch.zeros(7, STEPS, 40, 3)
    for tensor, most in ((noise, noise.numel() * 8), (zeros, zeros.numel() * 4 * 0.15)):
        rows = CompressedRows(steps=STEPS, executor=EXECUTOR, threads=2)
        for piece in tensor.split(2, 1):
            rows.append(piece)
        assert 0 < rows.num_bytes <= most
        assert same_bits(rows.at(torch.arange(7 * STEPS)), tensor.flatten(0, 1))


def test_rows_of_a_rollout_that_was_replaced_are_refused():
    now, after = plain(3)
    rows, _ = kept(now, after)
    rows.clear()
    with pytest.raises(RuntimeError, match="these frames are gone"):
        rows.at(torch.tensor([0]))
    rows.append(now[:, :2])
    with pytest.raises(RuntimeError, match="these frames are gone"):
        rows.at(torch.tensor([0]))


def test_more_blocks_than_two_bytes_can_number():
    """33,000 envs, each a block of its own at both steps; blocks of no content, which take no time."""
    rows = CompressedRows(steps=2, executor=EXECUTOR, threads=1)
    rows._blocks, rows._starts, rows._envs, rows._num_envs = [None] * 66_000, [0, 1, 2], 1, 33_000
    index = np.array([0, 1, 65_535, 65_999])  # row n * 2 + t is of env n, in block 33,000 * t + n
    block, place = rows._places(index)
    assert block.tolist() == [0, 33_000, 65_767, 65_999]
    assert place.tolist() == [0, 0, 0, 0]
