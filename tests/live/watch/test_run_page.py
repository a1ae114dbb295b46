"""The page of runs: charts, console, times and checkpoints, from their files."""

import json

import torch

from navrl.live.watch.catalogue import Catalogue
from navrl.live.watch.run_page import page_data
from navrl.storage.checkpoint import write_state
from tests.runs import write_run


def page_of(tmp_path, *names):
    catalogue = Catalogue([tmp_path])
    catalogue.scan()
    ids = {row["name"]: row["id"] for row in catalogue.rows()}
    return page_data(catalogue, catalogue.get([ids[name] for name in names]))


def test_times_leave_out_the_iterations_up_to_the_one_that_compiles(tmp_path):
    run = write_run(tmp_path / "one")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for row in rows[:3]:
        row["time/collect"] = 100.0
    rows[5]["time/save"] = 0.45  # once in 9 iterations
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert page_of(tmp_path, "one")["times"] == [["collect", 1.2], ["update", 0.7], ["save", 0.05]]


def test_the_console_shows_the_last_lines(tmp_path):
    run = write_run(tmp_path / "one")
    text = "total_frames: 20000\nnum_envs: 10\nrollout_steps: 100\n"
    head = "{name: a, objective: success, headline: {success%: episode/success}}"
    (run / "config.yaml").write_text(f"env: {head}\nagent: {{name: x}}\nseed: 0\n{text}")
    lines = page_of(tmp_path, "one")["console"]
    assert len(lines) == 12
    assert lines[-1] == "iter 12/20 | 12k frames | 500 fps | success 90%"


def test_numbers_beyond_all_bounds_cost_no_page(tmp_path):
    run = write_run(tmp_path / "one")
    sizes = f"total_frames: 1{400 * '0'}\nnum_envs: 10\nrollout_steps: 100\n"
    (run / "config.yaml").write_text(f"{(run / 'config.yaml').read_text()}{sizes}")
    rows = [
        {"iteration": at, "frames": 1000 * at, "time/collect": 1e308, "time/update": 0.5}
        for at in range(1, 9)
    ]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    page = page_of(tmp_path, "one")
    assert json.dumps(page, allow_nan=False)
    assert page["times"] == [["update", 0.5]]
    assert page["console"][-1].startswith("iter 8")


def test_checkpoints_are_listed_by_their_headers(tmp_path):
    run = write_run(tmp_path / "one")
    (run / "checkpoints").mkdir()
    state = {"agent": {"weight": torch.zeros(3)}}
    write_state(run / "checkpoints/step_000000001000.ckpt", state, frames=1000, score=0.25, stage=1)
    (run / "checkpoints/step_000000002000.ckpt").write_bytes(b"NVRL")
    (run / "checkpoints/step_000000003000.ckpt").symlink_to("/etc/passwd")
    newest, damaged, good = page_of(tmp_path, "one")["checkpoints"]
    assert "fault" in newest
    assert "fault" in damaged
    size = (run / "checkpoints" / good["file"]).stat().st_size
    expected = {"file": "step_000000001000.ckpt", "frames": 1000, "stage": 2, "score": 0.25}
    assert good == {**expected, "size": size}


def test_seeds_are_one_group_of_a_comparison(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"s{seed}", seed=seed)
    page = page_of(tmp_path, "s0", "s1", "s2")
    assert len(page["rows"]) == 3
    assert [group["runs"] for group in page["report"]["groups"]] == [3]
    assert "console" not in page
