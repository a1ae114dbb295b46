"""navrl runs compare: which runs are a group, by what they are compared, and what is left out."""

import pytest

from navrl.commands.runs import main
from tests.runs import add_options, score, write_run


@pytest.fixture
def runs(run):
    """runs(*words) -> (exit code, printed text) in an empty folder."""
    return lambda *words: run(main, *words)


def compared(runs, *words):
    """Return the printed rows as lists of cells."""
    code, printed = runs("compare", *words)
    assert code == 0, printed.err
    return printed.out


def write_group(folder, rates, option):
    for seed, rate in enumerate(rates):
        run = write_run(folder / f"{option}-{seed}", seed=seed)
        score(run, a=rate, b=rate / 2)
        add_options(run, f"rate: {option}\nconsole: {seed}\n")


def test_groups_that_differ_in_more_than_the_seed_are_compared(runs, tmp_path):
    write_group(tmp_path / "outputs", [0.2, 0.4, 0.6], 1)
    write_group(tmp_path / "outputs", [0.1, 0.3, 0.5], 2)
    lines = compared(runs, "outputs").splitlines()
    assert lines[0].split() == [
        "group",
        "seed",
        "eval/a/success",
        "eval/b/success",
        "frames",
        "state",
        "run",
    ]
    assert lines[1].split()[:4] == ["A", "0", "0.2", "0.1"]
    # mean of (rate + rate / 2) / 2; IQM of 0.1 0.2 0.2 0.3 0.4 0.6 without the first and the last
    (mean,) = [line for line in lines if line.startswith("A      3")]
    assert mean.split()[2] == "0.3"
    assert mean.split()[4] == "0.275"
    # 0.2 is above one of three, 0.4 above two, 0.6 above all: 6 of 9 pairs, in both tasks
    (above,) = [line for line in lines if line.startswith("A - B")]
    assert above.split()[3] == "0.075"
    assert above.split()[5] == "0.6667"
    assert [line.split() for line in lines if line.startswith("rate")] == [["rate", "1", "2"]]
    assert not any(line.startswith(("seed", "console")) for line in lines)
    assert compared(runs, "outputs", "--group", "rate").splitlines()[:7] == lines[:7]


def test_groups_may_be_named_and_runs_without_a_value_are_left_out(runs, tmp_path):
    write_group(tmp_path / "outputs", [0.2, 0.4, 0.6], 1)
    score(tmp_path / "outputs/1-2")
    words = ["outputs/1-0", "outputs/1-2", "--", "outputs/1-1"]
    printed = compared(runs, *words)
    assert printed.startswith("left out outputs/1-2 (finished): it has no eval/a/success")
    assert "A - B   -0.15 " in printed, (
        "(0.2 + 0.1) / 2 - (0.4 + 0.2) / 2, one run each: no interval"
    )
    assert "the groups have the same options" in printed
    assert "A - B   -0.1 " in compared(runs, *words, "--metric", "eval/b/success")


def test_training_episodes_never_stand_in_for_final_rates(runs, tmp_path):
    write_group(tmp_path / "outputs", [0.2, 0.4], 1)
    write_group(tmp_path / "outputs", [0.1], 2)
    write_group(tmp_path / "outputs", [0.5], 3)
    score(tmp_path / "outputs/2-0")  # which is its whole group
    first, head = compared(runs, "outputs").splitlines()[:2]
    assert first.startswith("left out outputs/2-0 (finished): it has no eval/a/success")
    assert head.split()[2:4] == ["eval/a/success", "eval/b/success"]
    for name in ("1-0", "1-1"):
        score(tmp_path / "outputs" / name)
    code, printed = runs("compare", "outputs")
    assert (code, "1 of 3 groups have runs with" in printed.err) == (2, True)
    score(tmp_path / "outputs/3-0")
    first, head = compared(runs, "outputs").splitlines()[:2]
    assert first == "no run has final rates: the scores are of the last evaluation"
    assert head.split()[2] == "eval/success"
