"""Summaries of several runs, from files written here."""

import json

import pytest

from summarise_runs import memory_growth, quarters, reached


@pytest.fixture
def run(tmp_path):
    """run(rows) -> a run directory with these lines of metrics, numbered from 1."""

    def write(rows):
        lines = (json.dumps({"iteration": i, **row}) for i, row in enumerate(rows, 1))
        (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        return tmp_path

    return write


def test_memory_growth_is_a_slope_without_the_first_iterations(run):
    # 1000 MB too much while it warms up, then a quarter of a MB with every iteration.
    rows = [
        {"frames": i, "memory/rss_mb": 500.0 + 1000.0 * (i <= 20) + 0.25 * i} for i in range(1, 61)
    ]
    assert memory_growth(run(rows)) == {"mb_per_100_iterations": pytest.approx(25.0)}
    assert memory_growth(run(rows[:21])) == {}


def test_the_threshold_counts_once_it_is_kept(run):
    rates = [0.9, 0.5, 0.85, 0.7, 0.9, 0.95]
    rows = [
        {"episode/win": rate, "time/iteration": 2.0, "frames": 10 * i}
        for i, rate in enumerate(rates, 1)
    ]
    expected = {"seconds_to_threshold": 8.0, "frames_to_threshold": 40.0, "seconds": 12.0}
    assert reached(run(rows), "episode/win", 0.8) == expected


def test_quarters_are_means_over_equal_shares_of_the_frames(run):
    rows = [{"frames": 10 * i, "episode/win": float(i)} for i in range(1, 9)]
    expected = {f"episode/win in quarter {n}": 2.0 * n - 0.5 for n in range(1, 5)}
    assert quarters(run([*rows, {"frames": 80}]), "episode/win") == expected
    assert quarters(run([{"frames": 10, "episode/win": 0.5}]), "episode/win") == {
        "episode/win in quarter 4": 0.5
    }
