"""The table of a run's metrics: the same as reading the whole file, however it grew."""

import json
import math
import os
import random

import numpy as np
import pytest

from navrl.loggers.jsonl import read_iterations
from navrl.loggers.table import Follower, TooManyNumbers

NAMES = ["episode/win", "time/fps", "eval/win", "loss/policy"]
ODD = [None, True, "0.5", float("nan"), float("inf"), 10**400, [1], 7]


def line(dice, iteration):
    """A record of a run, or now and then something that no run writes."""
    frames = 128 * iteration
    if dice.random() < 0.1:
        frames -= 128 * dice.randrange(1, 6)  # late metrics
    record = {"iteration": iteration, "frames": max(frames, 0)}
    for name in dice.sample(NAMES, dice.randrange(5)):
        record[name] = dice.choice(ODD) if dice.random() < 0.1 else dice.random()
    text = json.dumps(record)
    if dice.random() < 0.1:
        text = dice.choice(["", "[]", "{", '{"iteration": 1}', "x" * 2_000_000, text[:-4]])
    return text.encode() + b"\n"


def rows_of(table):
    """The rows of a table, without what is missing."""
    return [dict(row) for row in table]


def rows_in(path):
    """The rows of a whole file, without what is missing."""
    return [
        {key: at for key, at in row.items() if not math.isnan(at)} for row in read_iterations(path)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_file_that_grows_in_any_pieces_is_read_as_a_whole_one(tmp_path, seed):
    dice = random.Random(seed)
    path = tmp_path / "metrics.jsonl"
    content = b"".join(line(dice, iteration) for iteration in range(1, 200))
    follower = Follower(path)
    assert not follower.read_on()
    end = 0
    while end < len(content):
        end += dice.choice([1, 7, 300, 5000, 3_000_000])
        path.write_bytes(content[:end])
        follower.read_on()
        if dice.random() < 0.2:
            assert rows_of(follower.table) == rows_in(path)
    assert rows_of(follower.table) == rows_in(path)
    assert not follower.read_on()


def written(path, values, mode="wb"):
    """A file with one row for each value."""
    with path.open(mode) as file:
        for iteration, value in values:
            record = {"iteration": iteration, "frames": 10 * iteration, "a": value}
            file.write(json.dumps(record).encode() + b"\n")


def test_rows_that_a_resume_drops_are_forgotten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    written(path, [(at, 0.25) for at in range(1, 9)])
    follower = Follower(path)
    assert follower.read_on()
    os.truncate(path, 4 * path.stat().st_size // 8)
    written(path, [(at, 0.75) for at in range(5, 9)], "ab")  # as long as before
    assert follower.read_on()
    assert follower.table.column("a").tolist() == 4 * [0.25] + 4 * [0.75]
    other = tmp_path / "other"
    written(other, [(1, 0.5)])
    other.replace(path)
    assert follower.read_on()
    assert follower.table.column("a").tolist() == [0.5]
    path.unlink()
    assert follower.read_on()
    assert len(follower.table) == 0


def test_late_metrics_join_their_iteration_in_the_order_of_frames(tmp_path):
    path = tmp_path / "metrics.jsonl"
    written(path, [(1, 1.0), (3, 3.0), (2, 2.0)])
    with path.open("ab") as file:
        file.write(b'{"iteration": 1, "frames": 10, "eval/win": 0.5}\n')
    follower = Follower(path)
    follower.read_on()
    assert follower.table.frames.tolist() == [10, 20, 30]
    assert follower.table.column("a").tolist() == [1, 2, 3]
    np.testing.assert_equal(follower.table.column("eval/win"), [0.5, np.nan, np.nan])
    np.testing.assert_equal(follower.table.column("unknown"), [np.nan] * 3)


def test_a_table_is_of_bounded_size(tmp_path):
    path = tmp_path / "metrics.jsonl"
    written(path, [(at, 0.25) for at in range(1, 101)])
    Follower(path, most_cells=300).read_on()  # iteration, frames and a
    with pytest.raises(TooManyNumbers, match="3 metrics in 100 iterations; expected at most"):
        Follower(path, most_cells=299).read_on()
