"""navrl report: which runs it finds, what it writes of them, and plain words where there is nothing."""

import csv
import json
import re

import pytest

from navrl.commands.report import main
from tests.runs import write_run


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def data_of(folder):
    """Return the data of the page."""
    text = (folder / "report.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_one_run_and_its_tables(tmp_path, capsys):
    run = write_run(tmp_path / "outputs/alice_and_bob-hmasd/one")
    assert main([str(run)]) == 0
    assert "report.html and tables beside it (12 iterations)" in capsys.readouterr().out
    folder = run / "report"
    iterations = table(folder / "iterations.csv")
    assert [int(row["frames"]) for row in iterations] == [1000 * i for i in range(1, 13)]
    assert float(iterations[5]["episode/success"]) == 0.45
    assert [row["eval/success"] for row in iterations if row["eval/success"]] == ["0.5"]
    assert iterations[5]["eval/success"] == "0.5", "what came late is in the row that it belongs to"
    rewards = table(folder / "reward_components.csv")
    assert [*rewards[0]] == [
        "run",
        "label",
        "seed",
        "iteration",
        "frames",
        "reward/team",
        "reward/diamond",
    ]
    assert rewards[0]["reward/diamond"] == ""
    assert float(rewards[1]["reward/diamond"]) == 0.0
    assert len(table(folder / "episodes.csv")) == 12
    (skills,) = json.loads((folder / "skill_usage.json").read_text()).values()
    assert skills["frames"] == [1000 * i for i in range(1, 13)]
    assert skills["usage_Z_1"][-1] == 0.5
    data = data_of(folder)
    assert (data["title"], data["groups"][0]["runs"]) == ("alice_and_bob with hmasd", 1)
    assert data["subtitle"].endswith("12k frames")


def test_a_sweep_is_grouped_by_what_is_not_a_seed(tmp_path):
    for number, (agent, seed) in enumerate([(a, s) for a in ("hmasd", "mappo") for s in (1, 2, 3)]):
        write_run(
            tmp_path / f"multirun/x/today/{number}", agent=agent, seed=seed, extra=["console=none"]
        )
    write_run(tmp_path / "multirun/x/today/10", seed=4, extra=["agent.k=5"])
    assert main(["multirun/x/today"]) == 0
    data = data_of(tmp_path / "multirun/x/today/report")
    found = [(group["label"], group["runs"]) for group in data["groups"]]
    assert found == [("hmasd", 3), ("mappo", 3), ("hmasd k=5", 1)]
    assert [run["name"] for run in data["table"]] == ["0", "1", "2", "3", "4", "5", "10"]
    assert [final["mean"] for final in data["finals"]] == [0.92, 0.92, 0.94]
    assert data["title"] == "7 runs of alice_and_bob with hmasd and mappo"


def test_several_runs_are_reported_where_one_is_named(tmp_path):
    runs = [str(write_run(tmp_path / name / "same", agent="ppo")) for name in ("a", "b")]
    assert main([*runs, runs[0], "--output", "both"]) == 0
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == [
        *("episodes.csv", "iterations.csv", "report.html", "reward_components.csv")
    ]
    assert {row["run"] for row in table(tmp_path / "both/iterations.csv")} == {"a/same", "b/same"}
    assert main(runs) == 0
    assert (tmp_path / "report/report.html").is_file()


def test_every_chart_is_a_figure_for_papers(tmp_path, capsys):
    for seed in (1, 2, 3):
        write_run(tmp_path / f"sweep/{seed}", seed=seed, agent="ppo")
    assert main(["sweep", "--figures", "paper"]) == 0
    charts = [
        chart["title"]
        for section in data_of(tmp_path / "sweep/report")["sections"]
        for chart in section["charts"]
    ]
    files = sorted((tmp_path / "paper").iterdir())
    assert len(files) == 2 * len(charts)
    assert f"wrote {len(files)} figures to paper" in capsys.readouterr().out
    assert {"success.svg", "success.pdf", "loss-policy.svg"} <= {file.name for file in files}
    picture = (tmp_path / "paper/success.svg").read_text()
    # Matplotlib names every text that it draws.
    assert all(f"<!-- {text} -->" in picture for text in ("frames", "share of episodes", "success"))
    width = float(re.search(r'width="([\d.]+)pt"', picture)[1])
    assert 2.8 * 72 < width <= 3.6 * 72, "a column of two"
    assert (tmp_path / "paper/success.pdf").read_bytes().startswith(b"%PDF-")
    assert main(["sweep", "--figures", "paper"]) == 0
    assert (tmp_path / "paper/success.svg").read_text() == picture, "the same bytes again"


def test_the_page_tells_where_its_runs_come_from(tmp_path):
    machine = {"device": "cpu", "cpu": "a CPU", "threads": 2, "platform": "Linux", "python": "3.13"}
    for seed, rate in ((1, 0.1), (2, 0.1), (3, 0.2)):
        run = write_run(tmp_path / f"sweep/{seed}", seed=seed, extra=[f"agent.rate={rate}"])
        (run / "config.yaml").write_text(
            f"env: {{name: e, objective: success}}\nagent: {{name: hmasd, rate: {rate}}}\nseed: {seed}\n"
        )
        facts = {"git": {"commit": "abc", "dirty": True}, "packages": {"torch": "2"}, **machine}
        (run / "environment.json").write_text(json.dumps(facts | {"command": f"train {seed}"}))
    assert main(["sweep"]) == 0
    found = data_of(tmp_path / "sweep/report")["provenance"]
    assert found["labels"] == ["rate=0.1", "rate=0.2"]
    assert found["differences"] == [["agent.rate", ["0.1", "0.2"]]]
    ((facts, names),) = found["origins"]
    assert dict(facts) == {
        "commit": "abc with changes",
        "machine": "cpu, a CPU, threads 2, Linux",
        "packages": "python 3.13 torch 2",
    }
    assert names == ["1", "2", "3"]
    assert found["commands"] == [["1", "train 1"], ["2", "train 2"], ["3", "train 3"]]
    assert found["configurations"][1][1].splitlines()[1] == "agent: {name: hmasd, rate: 0.2}"


def test_the_link_to_the_latest_run_is_not_a_second_run(tmp_path, capsys):
    run = write_run(tmp_path / "outputs/alice_and_bob-hmasd/one")
    (tmp_path / "outputs/latest").symlink_to(run)
    assert main(["outputs"]) == 0
    assert "(12 iterations)" in capsys.readouterr().out


def test_a_run_that_failed_before_its_first_iteration_is_shown_with_its_reason(tmp_path):
    write_run(tmp_path / "outputs/x/good")
    failed = {"state": "failed", "reason": "OSError: disk is full\n"}
    for name in ("empty", "none"):
        run = write_run(tmp_path / f"outputs/x/{name}")
        (run / "status.json").write_text(json.dumps(failed))
        (run / "metrics.jsonl").write_text("")
        (run / "summary.json").unlink()
    (run / "metrics.jsonl").unlink()
    assert main(["outputs"]) == 0
    found = {row["name"]: row for row in data_of(tmp_path / "outputs/report")["table"]}
    assert (found["good"]["state"], found["good"]["frames"]) == ("finished", 12000)
    for name in ("empty", "none"):
        assert found[name]["state"] == "failed: OSError: disk is full\\n"
        assert (found[name]["frames"], found[name]["seconds"], found[name]["fps"]) == (0, 0, None)


def test_a_report_is_not_taken_for_a_run_when_it_is_made_again(tmp_path):
    run = write_run(tmp_path / "run")
    for _ in range(2):
        assert main([str(run)]) == 0
    assert len(data_of(run / "report")["table"]) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "nowhere"),
        (["latest"], "there is no latest run below outputs; train first, or name a run"),
        (["empty"], "empty holds no metrics.jsonl; expected a run, or a folder with runs"),
        (["young"], "young has logged nothing yet (finished); expected an iteration or more"),
        (["foreign"], "foreign is not described by its config.yaml and overrides.yaml"),
        (["run", "--output", "a/b/c"], "--output a/b/c; expected a folder in an existing one"),
        (["run", "--figures", "a/b/c"], "--figures a/b/c; expected a folder in an existing one"),
        (["run", "--outputs", "x"], "did you mean '--output'"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, capsys, arguments, sentence):
    write_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    (write_run(tmp_path / "young") / "metrics.jsonl").write_text("{torn")
    (write_run(tmp_path / "foreign") / "config.yaml").write_text("- a\n- [")
    before = sorted(tmp_path.rglob("*"))
    assert main(arguments) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("navrl: error: ")
    assert sentence in line
    assert sorted(tmp_path.rglob("*")) == before
