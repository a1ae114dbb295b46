"""Lines that no logger writes, in the records of a run from elsewhere: they cost themselves only."""

import csv
import json
import math
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import navrl.commands.report
from navrl.loggers.jsonl import JsonlLogger, read_metrics
from navrl.view.report import report
from navrl.view.report_charts import Run
from tests.runs import write_run

pytestmark = pytest.mark.hostile
MB = 10**6

# Lines that are no record.
FOREIGN = {
    "nothing": b"",
    "half a record": b'{"iteration": 2, "frames": 128, "x": 1.0',
    "a list": b"[1, 2, 3]",
    "a string": b'"frames"',
    "a number": b"3",
    "null": b"null",
    "no place": b'{"x": 1.0}',
    "no iteration": b'{"frames": 128, "x": 1.0}',
    "no frames": b'{"iteration": 2, "x": 1.0}',
    "true frames": b'{"iteration": 2, "frames": true}',
    "true iteration": b'{"iteration": true, "frames": 128}',
    "frames below 0": b'{"iteration": 2, "frames": -1}',
    "frames of 1e308": b'{"iteration": 2, "frames": 1e308}',
    "frames with a fraction": b'{"iteration": 2, "frames": 128.0}',
    "infinite frames": b'{"iteration": 2, "frames": Infinity}',
    "frames that are no number": b'{"iteration": 2, "frames": NaN}',
    "frames in words": b'{"iteration": 2, "frames": "128"}',
    "frames in a list": b'{"iteration": 2, "frames": [128]}',
    "frames of 400 digits": b'{"iteration": 2, "frames": ' + b"9" * 400 + b"}",
    "frames of 5,000 digits": b'{"iteration": 2, "frames": ' + b"9" * 5000 + b"}",
    "an iteration of 400 digits": b'{"frames": 128, "iteration": ' + b"9" * 400 + b"}",
    "frames given twice": b'{"iteration": 2, "frames": 128, "frames": null}',
    "no UTF-8": b'{"iteration": 2, "frames": 128, "\xff\xfe": 1}',
    "half of UTF-8": b'{"iteration": 2, "frames": 128, "a\xe2\x82": 1}',
    "NUL": b'{"iteration": 2, "frames": 128, "a\0": 1}',
    "zeros": bytes(5000),
    "nested lists": b"[" * 500_000,
    "nested objects": b'{"a":' * 100_000,
    "a nested value": b'{"iteration": 2, "frames": 128, "x": ' + b"[" * 100_000 + b"}",
    "another machine's line": '{"iteration": 2, "frames": 128}'.encode("utf-16"),
    "a long line": b'{"iteration": 2, "frames": 128, "x": "' + b"a" * (2 << 20) + b'"}',
}
# Metrics of a record that is one otherwise, and the numbers that are left of them.
METRICS = {
    "words": ('{"loss/x": "1.0"}', {}),
    "true": ('{"loss/x": true, "loss/y": false}', {}),
    "a list": ('{"loss/x": [1.0, [2.0]]}', {}),
    "an object": ('{"loss/x": {"loss/y": 1.0}}', {}),
    "null": ('{"loss/x": null}', {"loss/x": math.nan}),
    "not a number": (
        '{"loss/x": NaN, "loss/y": -Infinity}',
        dict.fromkeys(["loss/x", "loss/y"], math.nan),
    ),
    "too large for a float": ('{"loss/x": 1e999}', {"loss/x": math.nan}),
    "an int that is too large": ('{"loss/x": %s}' % ("9" * 400), {"loss/x": math.nan}),
    "twice": ('{"loss/x": 1.0, "loss/x": 2.0}', {"loss/x": 2.0}),
    "a name that moves the cursor": ('{"loss/\\u001b[2J": 1.0}', {}),
    "half a character": ('{"loss/\\ud800": 1.0}', {}),
    "another line": ('{"loss/a\\nb": 1.0}', {}),
    "a long name": ('{"loss/%s": 1.0}' % ("x" * 201), {}),
    "no name": ('{"": 1.0}', {"": 1.0}),
    "numbers whose sum is none": ('{"loss/x": 1.7e308}', {"loss/x": 1.7e308}),
    "numbers whose square is none": ('{"time/iteration": 1e200}', {"time/iteration": 1e200}),
    "time that goes back": ('{"time/iteration": -1e-300}', {"time/iteration": -1e-300}),
    "hardly any time": ('{"time/iteration": 5e-324}', {"time/iteration": 5e-324}),
}
foreign = pytest.mark.parametrize("line", FOREIGN.values(), ids=FOREIGN)


def record(iteration: int, **metrics: float) -> bytes:
    return json.dumps({"iteration": iteration, "frames": 64 * iteration, **metrics}).encode()


@pytest.fixture(autouse=True)
def _soon():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 5.0  # of a machine that others use; each takes some 0.1 s


def quickly(action: Callable[[], object]) -> object:
    """Return the result of an action that takes less than a second of this process."""
    began = time.process_time()
    result = action()
    assert time.process_time() - began < 1.0
    return result


@foreign
def test_a_foreign_line_is_skipped(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"\n".join([record(1, x=1.0), line, record(3, x=3.0), line]))
    rows = quickly(lambda: list(read_metrics(path)))
    assert rows == [
        {"iteration": 1, "frames": 64, "x": 1.0},
        {"iteration": 3, "frames": 192, "x": 3.0},
    ]


@foreign
def test_a_run_goes_on_behind_a_foreign_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = b"\n".join([record(1), line, record(2), record(3), line])
    path.write_bytes(whole)
    logger = quickly(lambda: JsonlLogger(directory=tmp_path))
    assert path.read_bytes() == whole[: len(whole) - len(line)]
    quickly(lambda: logger.truncate_after(128))
    logger.log({}, iteration=4, frames=256)
    logger.close()
    assert [row["iteration"] for row in read_metrics(path)] == [1, 2, 4]


@pytest.mark.parametrize("begins", [b'{"iteration": 1, "frames": ', b"[[", b'"', b"\0", b"\xff"])
@pytest.mark.parametrize("ends", [b"", b"\n"], ids=["endless", "ended"])
def test_a_line_of_100_mb_costs_no_memory(tmp_path: Path, begins: bytes, ends: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    with path.open("wb") as file:
        file.write(record(1) + b"\n" + begins)
        for _ in range(100):
            file.write(b"9" * MB)
        file.write(ends)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert [row["iteration"] for row in quickly(lambda: list(read_metrics(path)))] == [1]
    quickly(lambda: JsonlLogger(directory=tmp_path).close())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB
    assert path.read_bytes() == record(1) + b"\n"


def test_a_sparse_file_of_a_terabyte_is_not_read_as_a_record(tmp_path: Path) -> None:
    for name in ("summary.json", "status.json", "config.yaml", "overrides.yaml"):
        run = write_run(tmp_path / name)
        os.truncate(run / name, 1 << 40)
        assert_reported(run, tmp_path / "out")


@pytest.mark.parametrize(("text", "left"), METRICS.values(), ids=METRICS)
def test_what_is_no_number_is_left_out(tmp_path: Path, text: str, left: dict) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"iteration": 1, "frames": 64, {text[1:]}\n')
    (row,) = read_metrics(path)
    assert row.keys() == {"iteration", "frames", *left}
    for name, value in left.items():
        assert row[name] == pytest.approx(value, rel=0, nan_ok=True)


# ---- the report


def assert_reported(run: Path, output: Path, capsys: pytest.CaptureFixture | None = None) -> int:
    """The run is reported, or one sentence says why not."""
    code = quickly(lambda: navrl.commands.report.main([str(run), "--output", str(output)]))
    assert code in (0, 1, 2)
    if capsys is not None:
        printed = capsys.readouterr()
        assert printed.err.count("\n") == (code != 0)
        assert code == 0 or printed.err.startswith("navrl: error: ")
    return int(code)


@foreign
def test_a_foreign_line_is_not_in_the_report(tmp_path: Path, line: bytes, capsys) -> None:
    run = write_run(tmp_path / "run")
    content = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(line + b"\n" + content + line)
    assert assert_reported(run, tmp_path / "out", capsys) == 0
    with (tmp_path / "out" / "iterations.csv").open() as file:
        assert [int(row["iteration"]) for row in csv.DictReader(file)] == list(range(1, 13))


@pytest.mark.parametrize("text", [text for text, _ in METRICS.values()], ids=METRICS)
def test_any_numbers_are_reported(tmp_path: Path, text: str, capsys) -> None:
    run = write_run(tmp_path / "run")
    with (run / "metrics.jsonl").open("a") as file:
        for iteration in range(13, 17):
            place = f'"iteration": {iteration}, "frames": {1000 * iteration}'
            file.write(f"{{{place}, {text[1:]}\n")
    assert assert_reported(run, tmp_path / "out", capsys) == 0


SUMMARIES = {
    "no object": "[1, 2]",
    "nothing": "",
    "words": '{"eval/x/success": "0.9", "eval/x/return": true}',
    "large": '{"eval/x/success": 1.7e308, "eval/y/success": %s}' % ("9" * 400),
    "not a number": '{"eval/x/success": NaN, "eval/y/return": -Infinity, "eval/z/success": null}',
    "names": '{"eval/\\ud800/success": 1.0, "eval/\\u001b/success": 1.0, "eval//success": 1}',
    "deep": "[" * 200_000,
    "deep objects": '{"a":' * 100_000,
    "many digits": '{"eval/x/success": %s}' % ("9" * 10_000),
}
YAMLS = {
    "nothing": "",
    "a word": "env",
    "null": "null",
    "a list": "[1, 2]",
    "no seed": "env: {name: x, objective: win}\nagent: {name: y}\n",
    "seed .inf": "env: {name: x, objective: win}\nagent: {name: y}\nseed: .inf\n",
    "seed in words": "env: {name: x, objective: win}\nagent: {name: y}\nseed: one\n",
    "large seed": "env: {name: x, objective: win}\nagent: {name: y}\nseed: 0x" + "f" * 9000 + "\n",
    "names that are none": "env: {name: [1], objective: {a: 1}}\nagent: {name: 5}\nseed: 1\n",
    "code": "env: !!python/object/apply:os.system ['touch /tmp/owned']\nagent: 1\nseed: 1\n",
    "laughs": "a: &a [x, x]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(50)),
    "merges": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40)),
    "deep": "[" * 100_000,
    "deep objects": "{a: " * 20_000,
    "NUL": "env: \0\n",
    "escapes": 'env: {name: "\\e[2J", objective: "\\0"}\nagent: {name: "\\uD800"}\nseed: 1\n',
}


@pytest.mark.parametrize("name", ["summary.json", "status.json"])
@pytest.mark.parametrize("text", SUMMARIES.values(), ids=SUMMARIES)
def test_any_summary_and_status_is_survived(tmp_path: Path, name: str, text: str, capsys) -> None:
    run = write_run(tmp_path / "run")
    (run / name).write_text(text)
    assert_reported(run, tmp_path / "out", capsys)


@pytest.mark.parametrize("name", ["config.yaml", "overrides.yaml"])
@pytest.mark.parametrize("text", YAMLS.values(), ids=YAMLS)
def test_any_yaml_is_survived(tmp_path: Path, name: str, text: str, capsys) -> None:
    run = write_run(tmp_path / "run")
    (run / name).write_text(text)
    assert_reported(run, tmp_path / "out", capsys)
    assert not Path("/tmp/owned").exists()


def test_more_metrics_than_any_run_has_are_one_sentence(tmp_path: Path, capsys) -> None:
    """A table of all of them would have a thousand million cells."""
    run = write_run(tmp_path / "run")
    with (run / "metrics.jsonl").open("w") as file:
        for iteration in range(30_000):
            place = {"iteration": iteration, "frames": iteration}
            file.write(json.dumps(place | {f"loss/{iteration}": 1.0}) + "\n")
    assert assert_reported(run, tmp_path / "out", capsys) == 2
    assert not (tmp_path / "out").exists()


def test_deviations_of_extreme_numbers_are_left_out() -> None:
    row = {"iteration": 1, "frames": 0, "episode/win": 1e300, "episode/return": 1e-300}
    rows = [row | {"frames": frames, "time/iteration": 5e-324} for frames in (0, 1, 10**17)]
    runs = [
        Run(str(seed), "x", seed, "finished", "win", rows, {"eval/a/win": 10.0**seed})
        for seed in (0, 149, 151, 308)
    ]
    found = report(runs, title="t", subtitle="s")
    json.dumps(found, allow_nan=False)
    assert [run["fps"] for run in found["table"]] == [None] * 4
    (final,) = found["finals"]
    assert final["values"] == [1.0, 1e149, None, None]
    assert final["mean"] == pytest.approx(5e148)
