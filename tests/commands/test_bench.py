"""navrl bench: its table, its advice, and what it refuses."""

import json

import pytest
import torch

from navrl.commands.bench import Advice, Size, Timing, Training, advice, main, table

TINY = ("num_envs=8", "rollout_steps=4", "compile=off", "agent.network.hidden_sizes=[8]")


@pytest.fixture(autouse=True)
def _generator_as_before():
    with torch.random.fork_rng(devices=[]):
        yield


def test_all_of_it_is_printed_and_written(tmp_path, capsys):
    file = tmp_path / "bench.json"
    flags = ["--repeats", "1", "--sizes", "16,8", "--memory-gb", "64", "--json", str(file)]
    assert main([*TINY, *flags]) == 0
    printed, said = capsys.readouterr()
    assert said == ""  # no progress where nobody watches
    rows = {line[:22].strip(): line[22:].split() for line in printed.splitlines()}
    assert {"collect", "update", "gradient steps", "iteration", "8", "16"} <= rows.keys()
    assert "is the fastest of these that fits into 64.0 GB" in printed
    found = json.loads(file.read_text())
    assert [size["num_envs"] for size in found["num_envs"]] == [8, 16]
    for size in found["num_envs"]:
        halves = 1.0 / size["collect_fps"] + 1.0 / size["update_fps"]
        assert 1.0 / size["fps"] == pytest.approx(halves)
        assert size["peak_mb"] > 100.0
    ratio = found["sections"]["iteration"]
    assert float(rows["iteration"][-2]) == pytest.approx(
        ratio["p50_ms"] / ratio["floor_ms"], abs=0.006
    )


def test_the_table_divides_by_the_floor():
    found = {
        "collect": Timing(20.0, 25.0, None),
        "  policy": Timing(5.0, 6.0, 4.0),
        "iteration": Timing(80.0, 90.0, 64.0),
    }
    lines = [line.split() for line in table(found, 1600).splitlines()]
    assert lines[1] == ["collect", "20.0", "25.0", "25", "%", "80,000"]
    assert lines[2] == ["policy", "5.0", "6.0", "6", "%", "4.0", "1.25"]
    assert lines[3] == ["iteration", "80.0", "90.0", "100", "%", "64.0", "1.25", "20,000"]


SIZES = [Size(100, 1.0, 1.0, 50.0, 300.0), Size(200, 1.0, 1.0, 70.0, 400.0)]


@pytest.mark.parametrize(
    ("sizes", "budget_mb", "expected"),
    [
        (SIZES, 1000.0, (200, 800)),  # 200 MB, and one for every env
        (SIZES, 350.0, (100, 150)),
        (SIZES, 100.0, (None, 0)),
        (SIZES[:1], 1000.0, (100, None)),
        ([SIZES[0], SIZES[1]._replace(peak_mb=300.0)], 1000.0, (200, None)),
        ([], 1000.0, (None, None)),
    ],
)
def test_advice_is_by_what_fits(sizes, budget_mb, expected):
    assert advice(sizes, budget_mb) == Advice(budget_mb, *expected)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--repeats", "0"], "--repeats = 0; expected a whole number, 1 or more"),
        (["--memory-gb", "-1"], "--memory-gb = -1.0; expected a finite number above 0"),
        (["--sizes", "8,x"], "invalid"),
        (["--sizes", "0"], "expected whole numbers of 1 or more"),
        (["--json", "nowhere/at/all.json"], "expected a file in an existing folder"),
        (["agent.network.hiden_sizes=[8]"], "did you mean 'agent.network.hidden_sizes'"),
        (["num_envs=0"], "num_envs = 0; expected a whole number"),
        (["--repeat", "3"], "did you mean '--repeats'"),
        ([*TINY, "agent.num_minibatches=5"], "change agent.num_minibatches"),
    ],
)
def test_wrong_input_gets_one_sentence(capsys, arguments, complaint):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("navrl: error: ")
    assert complaint in said
    assert said.count("\n") == 1


def test_ctrl_c_gets_a_line(monkeypatch, capsys):
    def interrupted(self, cfg):
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "__init__", interrupted)
    assert main([*TINY]) == 130
    assert capsys.readouterr().err == "navrl: stopped by Ctrl-C before it was done\n"
