"""Tensor memory against a plain list of frames."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from navrl.collectors.tensor_memory import TensorMemory

ENVS, AGENTS = 3, 2


def frames(first, count, axis):
    """`count` frames with the numbers first, first + 1, ..., each number in every leaf."""
    numbers = torch.arange(first, first + count)
    size = [count] if axis == 0 else [ENVS, count]
    rows = numbers.expand(size)
    team = TensorDict(
        {"reward": rows.unsqueeze(-1).expand(*size, AGENTS).float()}, batch_size=[*size, AGENTS]
    )
    leaves = {"step": rows, "seen": {"scan": rows.view(*size, 1, 1).expand(*size, 4, 2).half()}}
    return TensorDict({**leaves, "agents": team}, batch_size=size)


def numbers_in(parts, axis):
    """Return the numbers of the frames, and check that every leaf agrees about them."""
    found = []
    for part in parts:
        steps = part["step"] if axis == 0 else part["step"][0]
        again = frames(0, part.batch_size[axis], axis)
        for key in again.keys(include_nested=True, leaves_only=True):
            leaf = part.get(key)
            index = steps.view([1] * axis + [-1] + [1] * (leaf.dim() - 1 - axis))
            assert torch.equal(leaf, index.to(leaf.dtype).expand_as(leaf))
        found += steps.tolist()
    return found


@given(
    capacity=st.integers(1, 7),
    batches=st.lists(st.integers(0, 12), max_size=8),
    axis=st.sampled_from([0, 1]),
    cleared_before=st.integers(0, 8),
)
def test_it_holds_what_the_end_of_a_list_does(capacity, batches, axis, cleared_before):
    memory = TensorMemory(frames(0, 1, axis), capacity=capacity, axis=axis)
    kept, first = [], 0
    for number, count in enumerate(batches):
        if number == cleared_before:
            memory.clear()
            kept = []
        memory.append(frames(first, count, axis))
        kept += range(first, first + count)
        first += count
        assert len(memory) == min(len(kept), capacity)
        assert numbers_in(memory.parts(), axis) == kept[-capacity:]


def test_what_is_read_is_the_memory_itself():
    memory = TensorMemory(frames(0, 1, 0), capacity=4)
    memory.append(frames(0, 3, 0))
    (read,) = memory.parts()
    assert read["seen", "scan"].is_contiguous()
    memory.append(frames(3, 3, 0))
    older, newer = memory.parts()
    assert (older["step"].tolist(), newer["step"].tolist()) == ([2, 3], [4, 5])
    start = read["seen", "scan"].data_ptr()
    assert newer["seen", "scan"].data_ptr() == start  # 4 and 5 lie where 0 and 1 were
    assert read["step"].tolist() == [4, 5, 2]


def test_a_whole_memory_is_read_in_one_piece_without_letting_keys_in():
    memory = TensorMemory(frames(0, 1, 1), capacity=4, axis=1)
    memory.append(frames(0, 8, 1))
    (read,) = memory.parts()
    assert read["seen", "scan"].is_contiguous()
    read["mine"] = torch.zeros(ENVS, 4)
    read["seen", "mine"] = torch.zeros(ENVS, 4)
    (again,) = memory.parts()
    assert "mine" not in again
    assert ("seen", "mine") not in again.keys(True)


def test_its_size_is_that_of_its_leaves():
    memory = TensorMemory(frames(0, 1, 1), capacity=5, axis=1)
    per_frame = 8 + 4 * 2 * 2 + AGENTS * 4  # an int64, eight halves, a float for each agent
    assert memory.num_bytes == ENVS * 5 * per_frame


def test_no_room_at_all_is_refused():
    with pytest.raises(ValueError, match="capacity = 0; expected a whole number, 1 or more"):
        TensorMemory(frames(0, 1, 0), capacity=0)
