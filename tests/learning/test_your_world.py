"""The tug of docs/your_world.md learns to dock, by the commands of the page."""

import json

import pytest

from tests import command_line
from tests.architecture.test_your_world import follow

pytestmark = pytest.mark.learning


def test_the_tug_docks(tmp_path, monkeypatch):
    monkeypatch.setattr(command_line, "_TIMEOUT_S", 900.0)
    measured = {
        "train": ["logger=none", "hydra.run.dir=run"],
        "evaluate": ["output=measured.json"],
    }
    folder, _ = follow(
        tmp_path, lambda words: [*words, *measured.get(words[0] if words else None, [])]
    )
    docked = json.loads((folder / "measured.json").read_text())["metrics"]["success"]
    assert docked["n"] == 1000
    assert docked["low"] >= 0.9
