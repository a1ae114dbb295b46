"""navrl runs: which runs it lists, what it says of them, and what it refuses."""

import json
import os
import pty
import subprocess
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from navrl.commands.runs import main
from navrl.run.lock import RunDirectoryError, RunLock
from navrl.run.removal import remove
from tests.runs import add_options, score, write_run


@pytest.fixture
def runs(run):
    """runs(*words) -> (exit code, printed text) in an empty folder."""
    return lambda *words: run(main, *words)


def listed(runs, *words):
    """Return the names of the runs that ls prints, in their order."""
    code, printed = runs("ls", *words, "--json")
    assert code == 0, printed.err
    return [Path(each["run"]).name for each in json.loads(printed.out)]


def write_status(run, **status):
    (run / "status.json").write_text(json.dumps(status))


# ---- ls ----


def test_the_list_has_a_row_for_every_run(runs, tmp_path):
    run = write_run(tmp_path / "outputs/one", seed=3)
    ago = datetime.now(UTC) - timedelta(hours=1, minutes=2)
    write_status(run, state="finished", frames=12000, time=ago.isoformat())
    write_run(tmp_path / "multirun/x/today/0")
    (tmp_path / "outputs/latest").symlink_to("one")
    rates = {
        "eval/crank/success": 0.93,
        "eval/crank/success_low": 0.9,
        "eval/crank/success_high": 0.95,
    }
    (run / "summary.json").write_text(json.dumps(rates))
    code, printed = runs("ls")
    assert code == 0
    head, first, second = printed.out.splitlines()
    assert head.split()[:4] == ["run", "env", "agent", "seed"]
    for cell in (
        "outputs/one ",
        " 3 ",
        "finished",
        "12k",
        "success 0.93 (0.9..0.95)",
        "final, crank",
    ):
        assert cell in first
    assert " 1:02:0" in first
    assert second.startswith("multirun/x/today/0")


def test_filters_know_facts_options_metrics_and_tags(runs, tmp_path):
    for seed in range(3):
        run = write_run(tmp_path / f"outputs/r{seed}", seed=seed)
        write_status(run, state="finished", frames=1000 * 10**seed)
        score(run, crank=0.9 + 0.02 * seed)
        add_options(run, f"total_frames: 5\nflag: true\nrate: {10**-seed}\n")
    write_run(tmp_path / "outputs/other", env="combat", agent="ppo")
    runs("tag", "outputs/r1", "good")
    for word, names in {
        "env=combat": ["other"],
        "agent!=ppo": ["r0", "r1", "r2"],
        "seed=1": ["r1"],
        "frames<1e5": ["other", "r0", "r1"],
        "objective>0.91": ["r1", "r2"],
        "eval/crank/success>=0.94": ["r2"],
        "rate=1e-2": ["r2"],
        "flag=true": ["r0", "r1", "r2"],
        "agent.name=hm*": ["r0", "r1", "r2"],
        "tag=good": ["r1"],
        "tag!=good": ["other", "r0", "r2"],
        "name=r[02]": ["r0", "r2"],
        "state=running": [],
    }.items():
        assert sorted(listed(runs, word)) == names, word
    assert listed(runs, "seed>=0", "objective>0.91", "outputs", "frames>10000") == ["r2"]
    assert listed(runs, "seed>=0", "env!=combat", "--sort", "objective") == ["r2", "r1", "r0"]
    assert listed(runs, "env!=combat", "--sort", "frames", "--reverse") == ["r0", "r1", "r2"]


def test_a_run_is_listed_once_whatever_leads_to_it(runs, tmp_path):
    run = write_run(tmp_path / "outputs/one")
    (tmp_path / "outputs/latest").symlink_to("one")
    (tmp_path / "multirun").symlink_to("outputs")
    assert listed(runs) == ["one"]
    assert listed(runs, "latest", str(run), "outputs", "outputs/one", "./multirun/one") == ["one"]


def test_a_run_that_has_not_finished_is_known_by_its_last_rows(runs, tmp_path):
    run = write_run(tmp_path / "outputs/one")
    write_status(run, state="running", frames=0)
    (run / "summary.json").write_text("{}")
    with RunLock(run):
        (found,) = json.loads(runs("ls", "--json")[1].out)
        assert (found["state"], found["frames"]) == ("running", 12000)
        assert found["objective"] == {
            "name": "success",
            "value": 0.5,
            "low": None,
            "high": None,
            "source": "eval/success",
        }
    assert listed(runs, "state=stale") == ["one"]
    (run / "metrics.jsonl").unlink()
    (found,) = json.loads(runs("ls", "--json")[1].out)
    assert (found["frames"], found["objective"]) == (0, None)


def test_only_the_end_of_long_metrics_is_read(runs, tmp_path):
    run = write_run(tmp_path / "outputs/one", iterations=2)
    write_status(run, state="running")
    (run / "summary.json").write_text("{}")
    rows = [
        {"iteration": i, "frames": i, "episode/success": i / 1e6, "x": "y" * 400}
        for i in range(2000)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"torn')
    (found,) = json.loads(runs("ls", "--json")[1].out)
    assert (found["frames"], found["objective"]["value"]) == (1999, 1999 / 1e6)
    long = {"iteration": 3000, "frames": 3000, "episode/success": 0.25, "x": "y" * 900_000}
    with (run / "metrics.jsonl").open("a") as file:
        file.write("\n" + json.dumps(long) + "\n")
    (found,) = json.loads(runs("ls", "--json")[1].out)
    assert (found["frames"], found["objective"]["value"]) == (3000, 0.25)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ls", "nowhere"], "nowhere"),
        (["ls", "objective>much"], "objective>much; expected a number"),
        (["ls", "agnt=ppo"], "agnt is unknown to these runs"),
        (["ls", "state=finshed"], "interrupted, failed, running, stale; did you mean 'finished'"),
        (["ls", "--sort", "objectiv"], "did you mean 'objective'"),
        (["ls", "--jsn"], "--json"),
        (["ls", "objective"], "'objective>1'"),
        (["lst"], "did you mean 'ls'"),
        ([], "no action is named"),
        (["show", "outputs"], "not the folder of a run"),
        (["tag", "outputs/one", "two words"], "expected up to 40 letters"),
        (["tag", "outputs/one", "good", "--remove"], "has no tag good"),
        (["note", "outputs/one", "x" * 2001], "2,001 characters"),
        (["compare", "outputs/one"], "1 groups of runs"),
        (["compare", "outputs/one", "--"], "holds no run"),
        (["compare", "outputs/one", "--", "outputs/one"], "is in two groups"),
        (["rm", "outputs"], "not the folder of a run"),
        (["archive", "outputs/one", "--to", "x.zip"], "ends in .tar.gz"),
        (["archive", "outputs/one", "--to", "outputs/one/x.tar.gz"], "in the run itself"),
    ],
)
def test_plain_words_about_what_is_wrong(runs, tmp_path, words, sentence):
    write_run(tmp_path / "outputs/one")
    code, printed = runs(*words)
    assert code == 2
    assert sentence in printed.err
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("words", [["show"], ["tag", "latest", "x"], ["stop", "latest"]])
def test_no_run_at_all_is_not_one_without_a_checkpoint(runs, words):
    code, printed = runs(*words)
    assert (code, "there is no latest run below outputs" in printed.err) == (2, True)


def test_help_has_examples(runs):
    for words in ([], ["ls"], ["show"], ["compare"], ["tag"], ["note"], ["rm"], ["archive"]):
        code, printed = runs(*words, "--help")
        assert code == 0
        assert "examples:\n  navrl runs" in printed.out


# ---- files of strangers ----


def test_a_damaged_or_hostile_run_is_left_out_with_a_warning(runs, tmp_path):
    write_run(tmp_path / "outputs/good")
    secret = tmp_path / "secret"
    secret.write_text("env: {name: secret}\n")
    for name in ("config.yaml", "metrics.jsonl", "notes.json", "overrides.yaml"):
        run = write_run(tmp_path / f"outputs/{name}")
        write_status(run, state="interrupted")
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(secret)
    (write_run(tmp_path / "outputs/missing") / "config.yaml").unlink()
    (write_run(tmp_path / "outputs/list") / "config.yaml").write_text("[1, 2]\n")
    (write_run(tmp_path / "outputs/notes") / "notes.json").write_text("[" * 100_000)
    with pytest.warns(RuntimeWarning) as warned:
        assert listed(runs) == ["good"]
    assert len(warned) == 7
    assert sum("is a link" in str(each.message) for each in warned) == 4


def test_names_with_escapes_are_printed_as_text(runs, tmp_path):
    run = write_run(tmp_path / "outputs/\x1b[31mred\nrow", agent='"\\e[2J"')
    write_status(run, state="failed\x1b", reason="\x1b[2J", time="\x1b")
    (run / "notes.json").write_text(
        json.dumps({"tags": ["good", "\x1b[1m", 7], "note": "a\x1b[1mb"})
    )
    (run / "metrics.jsonl").write_text('{"iteration": 1, "frames": 2, "\\u001b": 1}\n')
    for words in (["ls"], ["show", str(run)], ["ls", "--json"], ["tag", str(run), "x"]):
        code, printed = runs(*words)
        assert code == 0
        assert "\x1b" not in printed.out
        assert words[0] != "ls" or "good" in printed.out
    assert len(runs("ls")[1].out.splitlines()) == 2
    (found,) = json.loads(runs("ls", "--json")[1].out)
    assert found["tags"] == ["good", "x"], "what is no tag is left out"


def test_huge_numbers_are_no_numbers(runs, tmp_path):
    run = write_run(tmp_path / "outputs/one")
    write_status(run, state="finished", frames=10**30, time="99999-01-01")
    huge = "1" + "0" * 400
    (run / "summary.json").write_text(f'{{"eval/crank/success": {huge}, "eval/b/success": 1e300}}')
    add_options(run, f"total_frames: {huge}\nbig: {huge}\n")
    (found,) = json.loads(runs("ls", "--json", "big>1e300")[1].out)
    assert (found["frames"], found["total_frames"]) == (12000, None)
    assert found["objective"]["value"] == 1e300
    assert runs("show", str(run))[0] == 0
    write_run(tmp_path / "outputs/two", seed=1)
    code, printed = runs(
        "compare", "outputs/one", "--", "outputs/two", "--metric", "eval/b/success"
    )
    assert (code, "0 of 2 groups have runs with eval/b" in printed.err) == (2, True)


# ---- show, tag, note ----


def test_show_has_options_numbers_and_notes(runs, tmp_path):
    run = write_run(tmp_path / "outputs/one", extra=["agent.k=5"])
    runs("tag", "outputs/one", "good", "paper", "good")
    runs("note", "outputs/one", "the", "first that works")
    assert json.loads((run / "notes.json").read_text()) == {
        "tags": ["good", "paper"],
        "note": "the first that works",
    }
    (run / "environment.json").write_text("[]")
    printed = runs("show", "one")[1].out
    for text in (
        "agent.k=5",
        "good paper",
        "the first that works",
        "eval/alice_and_bob/success",
        "none",
    ):
        assert text in printed
    assert "loss/policy" not in printed
    (run / "summary.json").unlink()
    assert "loss/policy" in runs("show", "one", "--all")[1].out
    assert runs("tag", "one", "paper", "--remove")[1].out == "outputs/one: good\n"
    assert runs("note", "one", "")[1].out == "outputs/one: no note\n"
    assert runs("note", "one", "--", "-5 dB")[1].out == "outputs/one: -5 dB\n"


def test_notes_are_not_written_through_a_link(runs, tmp_path):
    run = write_run(tmp_path / "outputs/one")
    target = tmp_path / "target"
    target.write_text('{"tags": []}')
    (run / "notes.json").symlink_to(target)
    for words in (["tag", "outputs/one", "good"], ["note", "outputs/one", "x"]):
        code, printed = runs(*words)
        assert (code, "is a link" in printed.err) == (1, True)
    assert target.read_text() == '{"tags": []}'


# ---- rm, archive ----


def test_removal_needs_a_yes_and_repairs_latest(runs, tmp_path):
    for name in ("old", "new", "last"):
        write_run(tmp_path / f"outputs/x/{name}")
    os.utime(tmp_path / "outputs/x/old/config.yaml", (1, 1))
    latest = tmp_path / "outputs/latest"
    latest.symlink_to("x/last")
    code, printed = runs("rm", "latest")
    assert (code, "add --yes" in printed.err) == (2, True)
    assert (tmp_path / "outputs/x/last").exists()
    assert runs("rm", "latest", "outputs/x/last", "--yes")[0] == 0
    assert not (tmp_path / "outputs/x/last").exists()
    assert os.readlink(latest) == "x/new"
    assert runs("rm", "outputs/x/old", "--yes")[0] == 0
    assert os.readlink(latest) == "x/new"
    assert runs("rm", "outputs/x/new", "--yes")[0] == 0
    assert not latest.is_symlink()


def test_removal_follows_no_link(runs, tmp_path):
    run = write_run(tmp_path / "outputs/one")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    (run / "wandb").symlink_to(precious)
    (tmp_path / "outputs/link").symlink_to("one")
    code, printed = runs("rm", "outputs/link", "--yes")
    assert (code, "is a link" in printed.err) == (1, True)
    assert runs("rm", "outputs/one", "--yes")[0] == 0
    assert not run.exists()
    assert (precious / "file").read_text() == "kept"


def test_folders_without_end_are_refused(runs, tmp_path):
    run = write_run(tmp_path / "outputs/one")
    (run / "/".join("d" * 150)).mkdir(parents=True)
    for words in (["rm", "outputs/one", "--yes"], ["archive", "outputs/one"]):
        code, printed = runs(*words)
        assert (code, "nested too deeply" in printed.err) == (2, True)
    assert run.exists()


def test_what_is_in_use_or_more_than_a_run_is_not_removed(runs, tmp_path, monkeypatch):
    run = write_run(tmp_path / "outputs/one")
    other = write_run(tmp_path / "outputs/two")
    with RunLock(run):
        for words in (["rm", "outputs/two", "outputs/one", "--yes"], ["archive", "outputs/one"]):
            code, printed = runs(*words)
            assert (code, f"in use by process {os.getpid()}" in printed.err) == (1, True)
        with pytest.raises(RunDirectoryError, match="in use"):
            remove(run, tmp_path / "outputs")  # begun since the question was asked
    write_run(run / "inner")
    assert "holds other runs" in runs("rm", "outputs/one", "--yes")[1].err
    elsewhere = write_run(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    (tmp_path / "outputs/latest").symlink_to(elsewhere)
    assert "not below this folder" in runs("rm", "latest", "--yes")[1].err
    assert "names a checkpoint" in runs("rm", "best", "--yes")[1].err
    assert all(path.exists() for path in (run, other, elsewhere))


@pytest.mark.parametrize(("answer", "removed"), [("y\n", True), ("\n", False), ("", False)])
def test_on_a_terminal_the_answer_decides(runs, tmp_path, monkeypatch, answer, removed):
    run = write_run(tmp_path / "outputs/one")
    master, slave = pty.openpty()
    os.write(master, answer.encode() or b"\x04")  # the end of input
    with os.fdopen(slave) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        code, printed = runs("rm", "outputs/one")
    os.close(master)
    assert "for good? [y/N]" in printed.out
    assert (code, run.exists()) == ((0, False) if removed else (1, True))


def test_an_archive_holds_the_run_without_links_and_can_be_restored(runs, tmp_path):
    run = write_run(tmp_path / "outputs/my run")
    (run / "checkpoints").mkdir()
    (run / "checkpoints/step").write_bytes(bytes(1000))
    (run / "secret").symlink_to("/etc/passwd")
    os.mkfifo(run / "pipe")
    code, printed = runs("archive", "outputs/my run", "--to", "one.tar.gz")
    assert code == 0
    assert "left out 2 links or pipes: pipe, secret" in printed.out
    with tarfile.open("one.tar.gz") as file:
        kinds = {member.name: member.isreg() or member.isdir() for member in file.getmembers()}
    assert all(kinds.values())
    assert "my run/checkpoints/step" in kinds
    command = printed.out.splitlines()[-1].removeprefix("restore it with  ")
    before = (run / "metrics.jsonl").read_bytes()
    assert runs("rm", "outputs/my run", "--yes")[0] == 0
    subprocess.run(command, shell=True, check=True)
    assert (run / "metrics.jsonl").read_bytes() == before
    code, printed = runs("archive", "outputs/my run", "--to", "one.tar.gz")
    assert (code, "exists" in printed.err) == (2, True)
    (tmp_path / "two.tar.gz").symlink_to("nowhere")
    assert runs("archive", "outputs/my run", "--to", "two.tar.gz")[0] == 2
