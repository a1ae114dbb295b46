"""metrics.jsonl: whole lines, strict JSON, no gap and no repetition after a resume."""

import json
import math
import os
import resource
import signal
from pathlib import Path

import pytest

from navrl.loggers.jsonl import JsonlLogger, read_metrics, read_sample
from tests.command_line import process


def log_rows(logger, iterations):
    for iteration in iterations:
        logger.log({"loss/value": iteration / 4}, iteration=iteration, frames=iteration * 64)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_is_one_flat_line(tmp_path):
    logger = JsonlLogger(directory=tmp_path)
    logger.log({"loss/value": 0.25, "policy/kl": 0.5}, iteration=3, frames=192)
    expected = '{"iteration": 3, "frames": 192, "loss/value": 0.25, "policy/kl": 0.5}\n'
    assert logger.path.read_text() == expected  # there before close: nothing is buffered


def test_a_record_is_one_write(tmp_path, monkeypatch):
    logger = JsonlLogger(directory=tmp_path)
    sizes = []
    write = os.write
    monkeypatch.setattr(
        os, "write", lambda file, data: sizes.append(len(data)) or write(file, data)
    )
    log_rows(logger, [1, 2])
    assert len(sizes) == 2
    assert sum(sizes) == logger.path.stat().st_size


def test_numbers_json_cannot_hold_are_null_and_come_back_as_nan(tmp_path):
    logger = JsonlLogger(directory=tmp_path)
    metrics = {"a": math.nan, "b": math.inf, "c": -math.inf}
    logger.log(metrics, iteration=1, frames=64)

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    row = json.loads(logger.path.read_text(), parse_constant=refuse)
    assert (row["a"], row["b"], row["c"]) == (None, None, None)
    (back,) = read_metrics(logger.path)
    assert all(math.isnan(back[name]) for name in "abc")
    assert back["frames"] == 64


def test_truncate_after_drops_later_rows_and_the_file_goes_on_without_gap(tmp_path):
    first = JsonlLogger(directory=tmp_path)
    log_rows(first, range(1, 8))
    first.close()
    resumed = JsonlLogger(directory=tmp_path)
    resumed.truncate_after(4 * 64)
    log_rows(resumed, [5, 6])
    assert [row["iteration"] for row in rows(resumed.path)] == [1, 2, 3, 4, 5, 6]
    resumed.truncate_after(0)
    assert resumed.path.read_bytes() == b""


@pytest.mark.parametrize(
    "torn", [b'{"iteration": 3, "fra', b"\0\0\0\n", b'{"a": 1}', b"\xff\xfe\n"]
)
def test_a_torn_last_line_is_cut_when_the_file_is_opened_again(tmp_path, torn):
    first = JsonlLogger(directory=tmp_path)
    log_rows(first, [1, 2])
    first.close()
    with first.path.open("ab") as file:
        file.write(torn)
    assert [row["iteration"] for row in read_metrics(first.path)] == [1, 2]
    log_rows(JsonlLogger(directory=tmp_path), [3])
    assert [row["iteration"] for row in rows(first.path)] == [1, 2, 3]


def test_a_sample_holds_long_records_too(tmp_path):
    path = tmp_path / "metrics.jsonl"
    padding = {
        f"x/{at}": 0.5 for at in range(3000)
    }  # 40 kB: only one fits in what is read of the file
    with path.open("w") as file:
        for at in (1, 2, 3, 4):
            file.write(json.dumps({"iteration": at, "frames": at, **padding}) + "\n")
    assert [row["frames"] for row in read_sample(path, 4)] == [1, 2, 3, 4]


def test_damage_in_the_middle_costs_that_line_only(tmp_path):
    first = JsonlLogger(directory=tmp_path)
    log_rows(first, [1])
    with first.path.open("ab") as file:
        file.write(b"#####\n")
    log_rows(first, [2, 3])
    first.close()
    second = JsonlLogger(directory=tmp_path)
    second.truncate_after(2 * 64)
    assert [row["iteration"] for row in read_metrics(second.path)] == [1, 2]


def test_a_full_disk_delays_a_record_and_loses_none(tmp_path):
    logger = JsonlLogger(directory=tmp_path)
    log_rows(logger, [1])
    whole = logger.path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for room in (10, 0):  # a record that fits by a part, and one that does not fit at all
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + room, limits[1]))
            with pytest.raises(OSError):  # noqa: PT011
                log_rows(logger, [2 if room else 3])
            assert logger.path.read_bytes() == whole
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    log_rows(logger, [4])
    assert [row["iteration"] for row in rows(logger.path)] == [1, 2, 3, 4]


def test_close_writes_what_a_full_disk_held_back(tmp_path, monkeypatch):
    logger = JsonlLogger(directory=tmp_path)

    def full(file, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            log_rows(logger, [1])
    logger.close()
    logger.close()  # harmless
    assert [row["iteration"] for row in rows(logger.path)] == [1]


def test_summary_is_a_file_of_its_own(tmp_path):
    logger = JsonlLogger(directory=tmp_path)
    logger.summary({"eval/win": 0.5})
    logger.summary({"eval/win": math.nan})
    assert json.loads((tmp_path / "summary.json").read_text()) == {"eval/win": None}


def log_and_die():
    """Log 80 rows into the current folder, then get SIGKILL."""
    logger = JsonlLogger(directory=Path())
    log_rows(logger, range(80))
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.commands
def test_a_killed_process_loses_at_most_one_record(tmp_path):
    assert process(log_and_die, folder=tmp_path).returncode == -signal.SIGKILL
    assert [row["iteration"] for row in rows(tmp_path / "metrics.jsonl")] == list(range(80))


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_is_deleted_or_replaced_is_written_anew_with_all_its_rows(
    tmp_path, caplog, replaced
):
    logger = JsonlLogger(directory=tmp_path)
    log_rows(logger, [1, 2])
    logger.path.unlink()
    if replaced:
        logger.path.write_text("{}\n")
    log_rows(logger, [3, 4])
    assert [row["iteration"] for row in rows(logger.path)] == [1, 2, 3, 4]
    assert caplog.text.count("was deleted or replaced") == 1
    logger.close()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_rows_wait_while_the_folder_is_gone(tmp_path):
    (tmp_path / "run").mkdir()
    logger = JsonlLogger(directory=tmp_path / "run")
    log_rows(logger, [1])
    (tmp_path / "run").rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError, match=r"the folder .*run is gone; the next checkpoint"):
        log_rows(logger, [2])
    (tmp_path / "run").mkdir()
    log_rows(logger, [3])
    assert [row["iteration"] for row in rows(logger.path)] == [1, 2, 3]


def test_a_file_that_was_emptied_goes_on_without_holes(tmp_path, monkeypatch):
    logger = JsonlLogger(directory=tmp_path)
    log_rows(logger, [1])
    os.truncate(logger.path, 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: 3)
        with pytest.raises(OSError, match="fitted"):
            log_rows(logger, [2])
    log_rows(logger, [3])
    assert [row["iteration"] for row in rows(logger.path)] == [2, 3]
