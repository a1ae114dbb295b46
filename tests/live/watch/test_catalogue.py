"""The list of runs: which there are, in which state, and what has changed since the last look."""

import json
import os
import shutil
import threading

import pytest

from navrl.live.watch.catalogue import Catalogue
from navrl.run.lock import RunLock, listed_locks
from tests.runs import write_run

ENV = "alice_and_bob"


@pytest.fixture
def catalogue(tmp_path):
    return Catalogue([tmp_path / "outputs", tmp_path / "multirun"])


def set_status(run, **status):
    (run / "status.json").write_text(json.dumps(status))


def add_row(run, iteration, **metrics):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(
            json.dumps({"iteration": iteration, "frames": 1000 * iteration, **metrics}) + "\n"
        )


def test_runs_below_all_folders_are_found_and_forgotten(catalogue, tmp_path):
    assert catalogue.scan() == ([], [])
    one = write_run(tmp_path / "outputs/one", seed=3)
    write_run(tmp_path / "multirun/x/today/0")
    (tmp_path / "outputs/latest").symlink_to("one")
    (tmp_path / "outputs/elsewhere").symlink_to(tmp_path / "multirun")
    rows = {row["name"]: row for row in catalogue.scan().rows}
    assert set(rows) == {"one", "0"}
    assert (rows["one"]["env"], rows["one"]["agent"], rows["one"]["seed"]) == (ENV, "hmasd", 3)
    assert catalogue.scan() == ([], [])
    shutil.rmtree(one)
    assert catalogue.scan() == ([], [rows["one"]["id"]])


def test_a_folder_that_is_made_again_is_no_state_of_the_run_before(catalogue, tmp_path):
    versions = []
    for _ in range(2):
        run = write_run(tmp_path / "outputs/one")
        (row,) = catalogue.scan().rows
        versions += [each.version for each in catalogue.get([row["id"]])]
        shutil.rmtree(run)
        catalogue.scan()
    assert versions[0] != versions[1]


def test_a_place_within_another_adds_no_run_twice(tmp_path):
    write_run(tmp_path / "outputs/one")
    write_run(tmp_path / "outputs/two")
    catalogue = Catalogue([tmp_path / "outputs", tmp_path / "outputs/one"])
    assert [row["name"] for row in catalogue.scan().rows] == ["two", "one"]


def test_the_state_is_that_of_the_process(catalogue, tmp_path):
    run = write_run(tmp_path / "outputs/one")
    log = (run / "metrics.jsonl").read_text()
    set_status(run, state="running", frames=0)
    (run / "metrics.jsonl").unlink()
    (row,) = catalogue.scan().rows
    assert row["state"] == "stale"
    with RunLock(run):
        (row,) = catalogue.look().rows
        assert row["state"] == "waiting"
        (run / "metrics.jsonl").write_text(log)
        (row,) = catalogue.look().rows
        assert (row["state"], row["frames"]) == ("running", 12000)
        assert catalogue.look() == ([], [])
    (row,) = catalogue.look().rows
    assert row["state"] == "stale"
    set_status(run, state="failed", reason="ValueError: \x1b[31mbroken", frames=12000)
    (row,) = catalogue.look().rows
    assert (row["state"], row["reason"]) == ("failed", "ValueError: \\x1b[31mbroken")


def test_looking_takes_no_lock(catalogue, tmp_path, monkeypatch):
    run = write_run(tmp_path / "outputs/one")
    set_status(run, state="running", frames=0)
    assert listed_locks() is not None
    monkeypatch.setattr("fcntl.flock", lambda *_: pytest.fail("a run was locked"))
    assert [row["state"] for row in catalogue.scan().rows] == ["stale"]


def test_a_row_of_metrics_is_in_the_next_look(catalogue, tmp_path):
    run = write_run(tmp_path / "outputs/one")
    set_status(run, state="running", frames=0)
    catalogue.scan()
    interval = {"eval/success": 0.75, "eval/success_low": 0.5, "eval/success_high": 0.875}
    (run / "summary.json").write_text("{}")
    add_row(run, 13, **interval, **{"time/fps": 123.0})
    (row,) = catalogue.look().rows
    assert row["frames"] == 13000
    assert row["fps"] == 123.0
    assert row["objective"] == ["success", 0.75, 0.5, 0.875, "eval/success"]


def test_a_sparkline_goes_through_the_file(catalogue, tmp_path):
    run = write_run(tmp_path / "outputs/one", iterations=1)
    (run / "metrics.jsonl").unlink()
    for iteration in range(1, 3201):
        add_row(run, iteration, **{"episode/success": iteration / 3200, "padding": 0.125})
    catalogue.scan()
    (row,) = catalogue.draw(10).rows
    assert len(row["spark"]) == 32
    for at, value in enumerate(row["spark"], start=1):
        assert value == pytest.approx(at / 32, abs=0.02)
    assert catalogue.draw(10) == ([], [])


def test_a_run_that_cannot_be_read_is_shown_as_one(catalogue, tmp_path):
    run = write_run(tmp_path / "outputs/one")
    (run / "config.yaml").write_text("env: &a {name: x}")
    link = write_run(tmp_path / "outputs/two")
    (link / "summary.json").unlink()
    (link / "summary.json").symlink_to("/etc/passwd")
    pipe = write_run(tmp_path / "outputs/three")
    (pipe / "notes.json").unlink(missing_ok=True)
    os.mkfifo(pipe / "notes.json")
    rows = {row["name"]: row for row in catalogue.scan().rows}
    assert {row["state"] for row in rows.values()} == {"unreadable"}
    assert "an alias" in rows["one"]["reason"]
    assert "a link" in rows["two"]["reason"]
    assert "a pipe" in rows["three"]["reason"]


def test_the_list_does_not_wait_for_curves_that_are_read(catalogue, tmp_path):
    write_run(tmp_path / "outputs/one")
    (row,) = catalogue.scan().rows
    began, listed, in_time = threading.Event(), threading.Event(), []

    def read():
        began.set()
        in_time.append(listed.wait(5))

    reader = threading.Thread(target=catalogue.using, args=(catalogue.get([row["id"]]), read))
    reader.start()
    assert began.wait(20)
    assert catalogue.rows() == [row]
    listed.set()
    reader.join()
    assert in_time == [True]


def test_curves_not_looked_at_lately_are_dropped(catalogue, tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        write_run(tmp_path / "outputs" / name)
    catalogue.scan()
    runs = catalogue.get([row["id"] for row in catalogue.rows()])
    size = len(runs[0].table().names) * 64  # numbers that there is room for
    runs[0].forget()
    monkeypatch.setattr("navrl.live.watch.catalogue._MOST_KEPT_CELLS", 2 * size)
    for run in runs:
        catalogue.using([run], run.table)
    assert [run.cells > 0 for run in runs] == [False, True, True]
