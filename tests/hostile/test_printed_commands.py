"""Commands that navrl prints work as they are, whatever the folder of the run is called."""

import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

import navrl.train
from navrl.config.quoting import override, shell_line
from navrl.evaluate import arguments_of
from navrl.run import messages
from navrl.run.supervisor import supervised_command
from navrl.storage.checkpoint import write_state
from navrl.storage.find import find
from tests.command_line import process

pytestmark = pytest.mark.hostile
LETTERS = " ,=:'\"\\$~-{}()[]#%!&|;<>*?@^`\n\t\r\x01\x1b\x7f\x85\u2028üß日\udcff\udc80aA0."
CHOSEN = [
    *(
        "null",
        "true",
        "1",
        "1e5",
        "0x10",
        "nan",
        "-1",
        "~",
        "~root",
        "-",
        "--help",
        "-m",
        "latest",
        "best",
    ),
    *(
        "auto",
        "scripted:crank",
        "a b",
        "a,b",
        "a=b",
        "resume=x",
        "'",
        '"',
        "\\",
        "\\\\'",
        "a'b\"c",
        "$HOME",
    ),
    *(
        "${HOME}",
        "$(id)",
        "`id`",
        "${oc.env:HOME}",
        "\\${x}",
        "\\\\${x}",
        "a\\",
        "a\\'",
        "{a:1}",
        "[1,2]",
    ),
    *(
        "(",
        "a#b",
        "%s%d\\n",
        "!!",
        "*",
        "\n",
        "a\n",
        "\na",
        "\r",
        "\x1b[31m",
        "\udcff",
        "ü",
        "日本",
        " ",
        ".",
    ),
    *(
        "...",
        "a.ckpt",
        "best ",
        "choice(1,2)",
        "range(3)",
        "glob(*)",
        "???",
        "@x",
        "+x",
        "a:b",
        "a;b",
    ),
]


def names():
    """200 names: those that mean something to Hydra or a shell, and random ones."""
    draw = random.Random(5)
    found = dict.fromkeys(name for name in CHOSEN if name not in (".", ".."))
    while len(found) < 200:
        found[draw.choice(["", "x"]) + "".join(draw.choices(LETTERS, k=draw.randint(1, 9)))] = None
    return [name for name in found if name not in (".", "..")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run for every name, each with the same small checkpoint."""
    folder = tmp_path_factory.mktemp("runs")
    state = {
        "agent": {"policy": {}},
        "config": {"env": {}},
        "choices": {},
        "frames": 1,
        "iteration": 1,
    }
    write_state(folder / "small", state, frames=1, score=None)
    for name in names():
        checkpoints = folder / name / "checkpoints"
        checkpoints.mkdir(parents=True)
        os.link(folder / "small", checkpoints / "step_000000000001.ckpt")
    return folder


def words_of(lines):
    """The words that a shell makes of every line, without the program."""
    script = "argv() { printf '%s\\0' \"$@\" END; }\n"
    script += "\n".join(f"argv {line.partition(' ')[2]}" for line in lines)
    done = subprocess.run(["sh", "-c", os.fsencode(script)], capture_output=True, check=True)
    words = os.fsdecode(done.stdout).split("\0END\0")[:-1]
    return [each.split("\0") for each in words]


def value_of(word):
    """The value that a configuration of Hydra gets from the word."""
    parsed = OverridesParser.create().parse_override(word)
    assert not parsed.is_sweep_override()
    config = OmegaConf.create({"value": None})
    OmegaConf.update(config, "value", parsed.value())
    return config.value


def test_every_printed_command_finds_its_run(runs, monkeypatch):
    monkeypatch.chdir(runs)
    lines, meant = [], []
    for name in names():
        place = Path(name)
        evaluate, resume = messages.next_commands(place, "total_frames=2").splitlines()[1:]
        lines += [
            evaluate,
            resume,
            messages.interrupted(place, complete=False).partition("go on:")[2],
        ]
        lines.append(messages.interrupted(place, complete=True).partition("measure it:")[2])
        meant += [place] * 4
    lines = [line.strip() for line in lines]
    assert all(line.isprintable() for line in lines)
    found = words_of(lines)
    assert len(found) == len(meant) >= 800
    evaluated = iter(arguments_of([words[2] for words in found if words[1] == "navrl.evaluate"]))
    for (flag, module, word, *_), place in zip(found, meant, strict=True):
        assert flag == "-m"
        if module == "navrl.evaluate":
            assert word.startswith("checkpoint=")
        read = next(evaluated) if module == "navrl.evaluate" else word
        assert read.startswith({"navrl.evaluate": "policy=", "navrl.train": "resume="}[module])
        file = find(str(value_of(read)), Path("outputs"))
        assert file.resolve().parents[1].samefile(place), place
        assert value_of(read) not in ("auto", None)


def test_every_word_means_its_value(runs):
    values = [name for name in names() if name != "???"]  # which OmegaConf takes for no value
    for value, word in zip(values, (override("a", value) for value in values), strict=True):
        assert value_of(word) == value
    nested = [override("b", value) for value in values]
    assert list(value_of(override("a", nested))) == nested  # as the overrides of navrl evaluate
    (words,) = words_of([shell_line(["argv", *(f"{value}." for value in values)])])
    assert words == [f"{value}." for value in values]


def test_plain_names_stay_plain():
    assert (
        override("resume", "outputs/combat-ppo/20261118-1")
        == "resume=outputs/combat-ppo/20261118-1"
    )
    assert override("resume", "null") == "resume='null'"


def test_the_child_of_restarts_gets_the_same_folder(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train"])
    hydra = SimpleNamespace(get=lambda: SimpleNamespace(mode=None))
    monkeypatch.setattr("navrl.run.supervisor.HydraConfig", hydra)
    for name in names():
        command = supervised_command(OmegaConf.create({"resume": "auto"}), Path("/x", name))
        assert value_of(command[-1]) == str(Path("/x", name))


def test_options_of_an_evaluation_arrive_as_they_were_typed():
    words = [override("env.sim.note", name) for name in names()]
    assert list(value_of(arguments_of(words)[-1])) == words
    # A quote is one for Hydra already.
    bare = [name for name in names() if name[0] not in "'\"" and name != "???"]
    found = arguments_of([f"opponent=checkpoint:{name}" for name in bare])
    assert found[::2] == ["opponent=checkpoint"] * len(bare)
    assert [value_of(word) for word in found[1::2]] == bare


TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "opponent=crank"),
    *("env.sim.tick_s=0.25", "total_frames=128", "compile=off"),
)


def test_a_run_of_any_name_is_trained_and_continued(tmp_path):
    name = "outputs/null/a b,c=d'e\"$HOME{}ü\udcff\n\\"
    done = process(navrl.train.main, *TINY, override("hydra.run.dir", name), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    again = process(navrl.train.main, *TINY, override("hydra.run.dir", name), folder=tmp_path)
    assert again.returncode in (1, 2)
    (hint,) = again.stderr.splitlines()
    (words,) = words_of([f"x {hint.partition('go on with ')[2].rpartition(', or choose')[0]}"])
    done = process(navrl.train.main, *words, "console=none", "total_frames=256", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / name / "metrics.jsonl").read_text().splitlines()) == 2
    done = process(
        navrl.train.main, *TINY, override("hydra.run.dir", name), "resume=auto", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_names_that_hydra_cannot_have_are_one_sentence(tmp_path):
    for name in ("outputs/${seed}", "outputs/a\\${oc.env:HOME}", "outputs/x${"):
        done = process(navrl.train.main, *TINY, override("hydra.run.dir", name), folder=tmp_path)
        assert done.returncode == 2, (name, done)
        (line,) = done.stderr.splitlines()
        assert "expected a folder without ${" in line
    assert not list(tmp_path.iterdir())
