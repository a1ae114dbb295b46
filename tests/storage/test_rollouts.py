"""rollouts=disk: the collected rollouts come back bit for bit, and the chosen files are kept."""

import errno

import pytest
import torch
from tensordict import TensorDict

from navrl.storage import container
from navrl.storage.header import CorruptFile, read_header
from navrl.storage.rollouts import NullRollouts, RolloutStorage, load_rollout, rollout_files


def storage(directory, **changes):
    options = {"save_every": 1, "keep_last": None, "drop": [], "compress": True}
    return RolloutStorage(directory=directory, **(options | changes))


def leaves(rollout):
    items = rollout.items(include_nested=True, leaves_only=True)
    return {key: item for key, item in items if isinstance(item, torch.Tensor)}


def assert_same(found, expected):
    assert found.batch_size == expected.batch_size
    ours, theirs = leaves(found), leaves(expected)
    assert ours.keys() == theirs.keys()
    for key, tensor in theirs.items():
        assert (ours[key].dtype, ours[key].shape) == (tensor.dtype, tensor.shape), key
        raw = tensor.contiguous().view(-1).view(torch.uint8)
        assert torch.equal(ours[key].contiguous().view(-1).view(torch.uint8), raw), key


def walk(envs=5, steps=7, end_at=(2, 3)):
    """A rollout whose next observation is the following one, but for the last step and one that ended."""
    generator = torch.Generator().manual_seed(0)
    seen = torch.randn(envs, steps + 1, 3, generator=generator)
    after = seen[:, 1:].clone()
    after[end_at] = 9.0
    done = torch.zeros(envs, steps, 1, dtype=torch.bool)
    done[end_at] = True
    following = {"observation": {"ego": after}, "done": done, "reward": after[..., :1] * 2}
    now = {"observation": {"ego": seen[:, :-1]}, "done": torch.zeros_like(done), "next": following}
    rollout = TensorDict(now, batch_size=[envs, steps])
    return rollout.set_non_tensor("policy_version", 4)


@pytest.mark.parametrize("compress", [True, False])
def test_a_collected_rollout_comes_back(tmp_path, make_env, make_agent, make_collector, compress):
    env = make_env()
    collector = make_collector(env, make_agent(env).policy, rollout_steps=12)
    kept = storage(tmp_path, compress=compress)
    for iteration, rollout in enumerate(collector, 1):
        path = kept.save(rollout, iteration=iteration)
        found = load_rollout(path)
        assert_same(found, rollout)
        assert found.get_non_tensor("policy_version") == rollout.get_non_tensor("policy_version")
        assert rollout["next", "done"].any() or iteration < 4  # some episode ended within a rollout


def test_what_next_repeats_is_not_stored(tmp_path):
    path = storage(tmp_path).save(walk(), iteration=1)
    shapes = {row.name: row.shape for row in read_header(path).rows}
    rows = 5 + 1  # the last step of each env, and the episode that ended
    assert shapes["next/observation/ego"] == [rows, 3]
    assert shapes["next/done"] == [rows, 1]
    assert shapes["next/reward"] == [5, 7, 1]  # nothing repeats it
    assert shapes["rows of next"] == [rows]
    assert_same(load_rollout(path), walk())


def test_a_difference_in_one_bit_is_kept(tmp_path):
    rollout = walk()
    rollout["observation", "ego"][1, 3] = 0.0
    rollout["next", "observation", "ego"][1, 2] = -0.0  # equal as a number, another value
    rollout["observation", "ego"][4, 5] = torch.nan
    rollout["next", "observation", "ego"][4, 4] = torch.nan  # the same value, unequal as a number
    path = storage(tmp_path).save(rollout, iteration=1)
    assert_same(load_rollout(path), rollout)
    assert read_header(path).rows[-1].shape == [5 + 1 + 1]


def test_a_rollout_of_one_step_or_one_env_comes_back(tmp_path):
    for envs, steps in ((3, 1), (1, 4), (1, 1)):
        rollout = walk(envs, steps, end_at=(0, 0))
        assert_same(load_rollout(storage(tmp_path).save(rollout, iteration=1)), rollout)


def test_groups_keep_their_batch_size_names_and_strange_keys(tmp_path):
    rollout = walk()
    agents = {"a/b": torch.ones(5, 7, 2, dtype=torch.bfloat16), "a": {"b": torch.zeros(5, 7, 2)}}
    rollout["agents"] = TensorDict(agents, batch_size=[5, 7, 2])
    rollout.names = [None, "time"]
    found = load_rollout(storage(tmp_path).save(rollout, iteration=1))
    assert_same(found, rollout)
    assert found["agents"].batch_size == torch.Size([5, 7, 2])
    assert found.names == [None, "time"]


def test_keys_are_read_alone(tmp_path):
    path = storage(tmp_path).save(walk(), iteration=1)
    found = load_rollout(path, keys=["next/observation", ("next", "reward")])
    assert set(leaves(found)) == {("next", "observation", "ego"), ("next", "reward")}
    assert torch.equal(found["next", "observation", "ego"], walk()["next", "observation", "ego"])
    header = read_header(path)
    damaged = bytearray(path.read_bytes())
    damaged[header.payload_start + header.rows[0].start] ^= 1  # the observation
    path.write_bytes(damaged)
    assert torch.equal(
        load_rollout(path, ["next/reward"])["next", "reward"], walk()["next", "reward"]
    )
    with pytest.raises(CorruptFile, match="tensor 'observation/ego', block 0"):
        load_rollout(path, ["next/observation"])
    with pytest.raises(ValueError, match="no key 'next/rewards'; there are observation/ego, done"):
        load_rollout(path, ["next/rewards"])


def test_mapped_rollouts_are_the_same(tmp_path):
    path = storage(tmp_path, compress=False).save(walk(), iteration=1)
    assert_same(load_rollout(path, mmap=True), walk())


def test_dropped_keys_and_what_is_below_them_are_gone(tmp_path):
    kept = storage(tmp_path, drop=["next/reward", "observation", "no_such_key"])
    found = load_rollout(kept.save(walk(), iteration=1))
    assert set(leaves(found)) == {"done", ("next", "done"), ("next", "observation", "ego")}
    assert torch.equal(found["next", "observation", "ego"], walk()["next", "observation", "ego"])


def test_every_so_manieth_is_saved_and_the_newest_are_kept(tmp_path):
    kept = storage(tmp_path, save_every=3, keep_last=2)
    for iteration in range(1, 11):
        kept.after(iteration, walk(), pytest.fail)
    names = [path.name for path in rollout_files(tmp_path)]
    assert names == ["rollout_000006.nvrl", "rollout_000009.nvrl"]
    assert_same(load_rollout(kept.directory / "rollout_000009.nvrl"), walk())


def test_a_run_taken_back_keeps_what_it_saves_now(tmp_path):
    """Files of later iterations are there already, and must not make the new one the oldest."""
    kept = storage(tmp_path, keep_last=2)
    for iteration in (8, 9, 3):
        kept.save(walk(), iteration=iteration)
    assert [path.name[8:14] for path in rollout_files(tmp_path)] == ["000003", "000008", "000009"]


def test_a_full_disk_costs_one_file_and_is_reported(tmp_path, monkeypatch):
    notes = []
    kept = storage(tmp_path)
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(container, "write_atomically", lambda *_: (_ for _ in ()).throw(full))
        kept.after(1, walk(), notes.append)
    kept.after(2, walk(), pytest.fail)
    assert len(notes) == 1
    assert "No space left" in notes[0]
    assert [path.name for path in tmp_path.iterdir()] == ["rollout_000002.nvrl"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"save_every": 0}, "rollouts.save_every = 0"), ({"keep_last": 0}, "rollouts.keep_last = 0")],
)
def test_numbers_that_make_no_sense_are_refused(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        storage(tmp_path, **changes)


def test_what_cannot_be_stored_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"batch size \[5\] cannot be stored; expected \[N, T\]"):
        storage(tmp_path).save(walk()[:, 0], iteration=1)
    strange = walk().set_non_tensor("when", {1, 2})
    with pytest.raises(TypeError, match="when is a set; besides tensors"):
        storage(tmp_path).save(strange, iteration=1)
    assert list(tmp_path.iterdir()) == []


def hostile(path, **changes):
    """The same file with other metadata, and correct checksums."""
    tensors, meta = container.read(path)
    place = changes.pop("place", None)
    if place is not None:
        name = list(tensors)[place]
        tensors[name] = changes.pop("tensor")
    container.write(path, tensors, meta | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "checkpoint"},
        {"iteration": "1"},
        {"keys": [["x"]]},
        {"keys": [["x"]] * 5},
        {"doubled": [0]},
        {"doubled": [-1]},
        {"doubled": []},
        {"groups": [[["next"], [4, 7]]]},
        {"groups": [[["next"], "57"]]},
        {"values": [[["done"], 1, 2]]},
        {"batch_size": [5, 8]},
        {"dimensions": [1, []]},
        {"more": 1},
        {"batch_size": [2**70, 7]},
        {"doubled": [3, 3]},
        {"keys": [["done"], ["done"], ["next", "done"], ["next", "ego"], ["next", "reward"]]},
        {"keys": [["x"] * 51, ["a"], ["b"], ["c"], ["d"]], "doubled": []},
        {"groups": [[["g"] * i, [5, 7]] for i in range(1, 52)]},
        {"groups": [[[str(i)], [5, 7]] for i in range(8193)]},
        {"values": [[["done", "v"], 1]]},
        {"place": -1, "tensor": torch.tensor([0, 1, 2, 3, 4, 35])},
        {"place": -1, "tensor": torch.tensor([0, 1, 2, 3, 4, -1])},
        {"place": -1, "tensor": torch.ones(6)},
        {"place": 0, "tensor": torch.ones(5)},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_metadata_that_lies_is_refused(tmp_path, changes):
    path = storage(tmp_path).save(walk(), iteration=1)
    hostile(path, **changes)
    with pytest.raises(CorruptFile, match="rollout"):
        load_rollout(path)


def test_few_rows_do_not_become_more_memory_than_is_allowed(tmp_path):
    """Store one row of 4 MB of "next"; a chain of such keys would be 4 MB each, for nothing."""
    one = torch.zeros(1, 1000, 1000)
    now = TensorDict({"x": one, "next": TensorDict({"x": one}, [1, 1000])}, [1, 1000])
    path = storage(tmp_path).save(now, iteration=1)
    assert path.stat().st_size < 100_000
    with pytest.raises(CorruptFile, match="8,004,008 bytes of rollout, at most 8,000,000"):
        load_rollout(path, max_bytes=8_000_000)
    assert load_rollout(path, max_bytes=8_004_008)["next", "x"].shape == (1, 1000, 1000)
    tensors, meta = container.read(path)
    number = len(meta["keys"])
    numbered = list(tensors.values())
    meta["keys"].append(["next", "next", "x"])
    meta["groups"].append([["next", "next"], [1, 1000]])
    meta["doubled"].append(number)
    chain = [*numbered[:number], numbered[number - 1], *numbered[number:]]
    container.write(path, {str(i): tensor for i, tensor in enumerate(chain)}, meta)
    with pytest.raises(CorruptFile, match="nothing is there that 'next/next/x' could repeat"):
        load_rollout(path)


def test_a_next_of_next_comes_back(tmp_path):
    rollout = walk()
    rollout["next", "next"] = TensorDict({"done": torch.ones(5, 7, 1, dtype=torch.bool)}, [5, 7])
    assert_same(load_rollout(storage(tmp_path).save(rollout, iteration=1)), rollout)


def test_none_keeps_nothing(tmp_path):
    NullRollouts(directory=tmp_path / "rollouts").after(1, walk(), pytest.fail)
    assert list(tmp_path.iterdir()) == []
