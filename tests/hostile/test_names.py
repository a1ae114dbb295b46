"""Names in files of strangers: they are text wherever they are shown, never a path, markup or a formula."""

import argparse
import csv
import json
import re
import sys
import warnings
import xml.etree.ElementTree
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict

import navrl.commands.checkpoint
import navrl.commands.replay
import navrl.commands.report
import navrl.commands.rollouts
from navrl.config.checks import ConfigError, printable
from navrl.config.command import run_plain
from navrl.config.command_line import show
from navrl.loggers.console import ConsoleLogger
from navrl.selfplay.payoff import Payoff
from navrl.storage.checkpoint import write_state
from navrl.storage.files import to_json, write_atomically
from navrl.storage.rollouts import RolloutStorage
from navrl.view import combat_picture
from navrl.view.acmi import acmi
from navrl.view.combat_recording import recording
from navrl.view.html import COMBAT, NAVIGATION, REPORT, page
from navrl.view.matrix import svg
from tests.runs import write_run
from tests.view.fights import duel

pytestmark = pytest.mark.hostile

ESCAPES = {
    "colour": "red \x1b[31m",
    "clears the screen": "\x1b[2J\x1b[H",
    "title of the window": "\x1b]0;owned\x07",
    "one byte CSI": "\x9b31m",
    "line": "x\nok  all.ckpt",
    "return": "damaged\rok",
    "direction": "abc\u202egpj.exe",
    "NUL": "a\0b",
    "half a pair": "half \ud800",
    "other line": "a\u2028b",
    "backspace": "bad\b\b\bgood",
}
MARKUP = {
    "script": "</script><script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "comment": "<!--<script>",
    "quotes": "\"'><svg onload=alert(1)>",
    "place": "{{scripts}}{{data}}{{title}}",
    "title": "</title></style><iframe src=file:///etc/passwd>",
    "half a pair": "\ud800<b>",
}
PATHS = (
    "../../outside/x",
    "/tmp/outside",
    "..",
    ".hidden",
    "a\0b",
    "x" * 5000,
    "a/b\\c",
    "",
    "~/x",
    "é" * 200,
)
escapes = pytest.mark.parametrize("name", ESCAPES.values(), ids=ESCAPES)
markup = pytest.mark.parametrize("name", MARKUP.values(), ids=MARKUP)


def assert_plain(text: str, lines: int | None = None) -> None:
    """Text for a terminal: printable lines, and no more of them than there are without hostile names."""
    assert all(line.isprintable() for line in text.split("\n")), repr(text)
    assert lines is None or text.count("\n") == lines, text


# ---- terminals


@escapes
def test_a_name_is_shown_without_what_it_does(name: str) -> None:
    shown = printable(name)
    assert_plain(shown, lines=0)
    assert {letter for letter in name if letter.isprintable()} <= set(shown)
    shown.encode()


@escapes
def test_errors_and_warnings_are_lines_of_text(name: str, capsys: pytest.CaptureFixture) -> None:
    def fail(_: argparse.Namespace) -> None:
        warning = RuntimeWarning(f"checkpoint skipped: {name}")
        sys.stderr.write(warnings.formatwarning(warning, RuntimeWarning, "x.py", 1))
        raise ConfigError(f"{name} is no name")

    assert run_plain(argparse.ArgumentParser(), fail, []) == 2
    printed = capsys.readouterr()
    assert_plain(printed.err, lines=2)
    assert printed.out == ""


@escapes
def test_notes_of_a_run_are_lines_of_text(name: str, capsys: pytest.CaptureFixture) -> None:
    ConsoleLogger(total=1, headline={}, style="lines").note(f"going on from {name}")
    show(f"{name} against {name}: 10 episodes\n")
    assert_plain(capsys.readouterr().out)


@escapes
def test_checkpoints_are_listed_as_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "outputs" / "run" / "checkpoints"
    folder.mkdir(parents=True)
    shown = {}
    for written, frames in (("plain", 10), (name, 20)):
        state = {"agent": {written: {"policy": torch.ones(2), "note": written}}, "frames": frames}
        path = folder / f"step_{frames:012d}.ckpt"
        write_state(path, state, frames=frames, score=0.5)
        (folder / "latest").write_text(f'{{"file": "{path.name}\\n", "sha256": "x"}}')
        for action in (["ls", "run"], ["show", str(path)], ["verify", str(path)]):
            assert navrl.commands.checkpoint.main(action) == 0
            printed = capsys.readouterr().out
            assert_plain(printed, shown.get(action[0]) if action[0] != "ls" else None)
            shown[action[0]] = printed.count("\n")
    both = [str(path) for path in sorted(folder.glob("*.ckpt"))]
    assert navrl.commands.checkpoint.main(["diff", *both]) == 1
    assert_plain(capsys.readouterr().out)


@escapes
def test_rollouts_are_listed_as_text(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    lines = set()
    for folder, key in (("plain", "plain"), ("hostile", name)):
        place = tmp_path / folder
        kept = RolloutStorage(directory=place, save_every=1, keep_last=1, drop=[], compress=True)
        rollout = TensorDict({key: torch.ones(2, 2), "next": {key: torch.ones(2, 2)}}, [2, 2])
        kept.save(rollout.set_non_tensor("value", key), iteration=1)
        for action in ("ls", "show", "verify"):
            assert navrl.commands.rollouts.main([action, str(place)]) == 0
        printed = capsys.readouterr().out
        assert_plain(printed)
        lines.add(printed.count("\n"))
    assert len(lines) == 1


def test_a_folder_with_a_hostile_name_is_text_too(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "\x1b[31mx\nrollout_000002.nvrl: intact"
    kept = RolloutStorage(directory=folder, save_every=1, keep_last=1, drop=[], compress=True)
    path = kept.save(TensorDict({"a": torch.ones(2, 2)}, [2, 2]), iteration=1)
    path.write_bytes(path.read_bytes()[:-1])
    assert navrl.commands.rollouts.main(["verify", str(folder)]) == 1
    assert_plain(capsys.readouterr().out, lines=2)


def test_the_players_of_a_league_have_printable_names() -> None:
    for name in ESCAPES.values():
        with pytest.raises(ValueError, match="a name that can be printed"):
            Payoff().add(name)


# ---- paths


@pytest.mark.parametrize("name", PATHS)
def test_a_replay_is_written_where_replays_are(name: str, tmp_path: Path) -> None:
    place = navrl.commands.replay._default_output
    run = tmp_path / "run"
    for state, label, folder in (
        ({}, str(run / "checkpoints" / "best.ckpt"), run / "replays"),
        ({}, f"{name[:200]}.ckpt", Path("outputs/replays")),
        (None, f"scripted:{name}", Path("outputs/replays")),
    ):
        path = place(state, label, name, 7, 1)
        assert path.parent == folder
        assert re.fullmatch(r"([\w=,][\w.,=-]{0,150}-)?seed7-episode1\.html", path.name, re.ASCII)


@escapes
def test_text_of_any_letters_can_be_written(name: str, tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.json", to_json({name: name}))
    assert json.loads((tmp_path / "a.json").read_text()) == {name: name}
    write_atomically(tmp_path / "a.yaml", f"- {name}\n")
    assert (tmp_path / "a.yaml").read_bytes().decode().startswith("- ")


# ---- pages, pictures, recordings


class Elements(HTMLParser):
    """The elements of a page with the names of their attributes, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))


@markup
@pytest.mark.parametrize("scene", [COMBAT, NAVIGATION, REPORT], ids=["combat", "trips", "report"])
def test_no_name_adds_an_element_to_a_page(scene, name: str) -> None:
    def made(text: str) -> str:
        return page(scene, {"title": text, text: [text], "subtitle": text})

    hostile = made(name)
    assert Elements(hostile).found == Elements(made("plain")).found
    assert "<" not in name or name not in hostile
    hostile.encode()


@pytest.fixture(scope="module")
def recorded():
    return recording(*duel()[:2])


FORMULAS = (
    "=1+1",
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    " =1",
    "\uff1d1",
    '"=1',
)


def hostile_run(path: Path, name: str) -> Path:
    """Return a run in which everything that may be a name is this one."""
    run = write_run(path)
    config = {"env": {"name": name, "objective": name}, "agent": {"name": name}, "seed": 0}
    (run / "config.yaml").write_text(json.dumps(config))
    (run / "overrides.yaml").write_text(json.dumps([name, f"x={name}"]))
    (run / "status.json").write_text(json.dumps({"state": name}))
    (run / "summary.json").write_text(json.dumps({f"eval/{name}/{name}": 1.0, name: 2.0}))
    with (run / "metrics.jsonl").open("a") as file:
        groups = ("", "episode/", "reward/", "skill/usage_Z_", "high/ended_by/", "time/", "loss/")
        metrics = {f"{group}{name}": 1.0 for group in groups}
        file.write(json.dumps({"iteration": 13, "frames": 13_000, **metrics}) + "\n")
    return run


@pytest.mark.parametrize("name", [*MARKUP.values(), *ESCAPES.values(), *FORMULAS])
def test_no_name_in_a_run_gets_out_of_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture, name: str
) -> None:
    for label, text in (("plain", "plain"), ("hostile", name)):
        run = hostile_run(tmp_path / label, text)
        output = tmp_path / f"{label} report"
        assert navrl.commands.report.main([str(run), "--output", str(output)]) == 0
    assert_plain(capsys.readouterr().out, lines=2)
    plain, hostile = (
        (tmp_path / f"{label} report" / "report.html").read_text() for label in ("plain", "hostile")
    )
    assert Elements(hostile).found == Elements(plain).found
    assert "<" not in name or name not in hostile
    for table in ("iterations.csv", "episodes.csv", "reward_components.csv"):
        with (tmp_path / "hostile report" / table).open(newline="") as file:
            rows = list(csv.reader(file))
        assert len({len(row) for row in rows}) == 1
        for cell in (cell for row in rows for cell in row):
            assert_plain(cell, lines=0)
            assert is_number(cell) or not cell.strip().startswith(("=", "+", "-", "@", "\uff1d"))


def is_number(cell: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", cell) is not None


def test_negative_numbers_of_a_table_stay_numbers(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    row = {"iteration": 13, "frames": 13_000, "episode/return": -1.5, "reward/x": -2e-07}
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    assert navrl.commands.report.main([str(run)]) == 0
    with (run / "report" / "iterations.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert (last["episode/return"], last["reward/x"]) == ("-1.5", "-2e-07")


FIELDS = ("a,Color=Red", "a\n#99\n0,Title=b", "a|b", "a\\,b", "a\u2028b", *ESCAPES.values())


@pytest.mark.parametrize("name", FIELDS)
def test_no_name_adds_a_line_or_a_field_to_a_recording(recorded, name: str) -> None:
    plain, hostile = (acmi(recorded, title=printable(text)).splitlines() for text in ("a", name))
    assert len(plain) == len(hostile)
    fields = [len(re.split(r"(?<!\\),", line)) for line in hostile]
    assert fields == [len(re.split(r"(?<!\\),", line)) for line in plain]


@pytest.mark.parametrize("name", [*MARKUP.values(), *ESCAPES.values()])
def test_no_name_adds_an_element_to_a_heat_map(name: str) -> None:
    def made(first: str):
        results = SimpleNamespace(games=2, wins=1, draws=0, losses=1)
        payoff = SimpleNamespace(
            players=(first, "b"), results=lambda *_: results, score=lambda *_, **__: 0.5
        )
        return [each.tag for each in xml.etree.ElementTree.fromstring(svg(payoff)).iter()]

    assert made(name) == made("plain")


@pytest.mark.parametrize(
    "name", ["$\\frac{$", "$\\alpha$ $", "_hidden", "%s {0} \\", *MARKUP.values()]
)
def test_a_picture_has_any_name_as_its_title(recorded, tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib", reason="the viz extra is not installed")
    title, pilot = printable(name), printable(name)
    combat_picture.write_png(recorded, tmp_path / "a.png", title=title, pilots=(pilot, "b"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
