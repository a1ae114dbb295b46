"""The tug of docs/your_world.md learns to dock, by the commands of the page."""

import json
import re

import pytest

from tests import command_line
from tests.architecture.test_your_world import ROOT, follow

pytestmark = pytest.mark.learning


def test_the_tug_docks(tmp_path, monkeypatch):
    monkeypatch.setattr(command_line, "_TIMEOUT_S", 900.0)
    measured = {
        "train": ["logger=none"],
        "evaluate": ["output=measured.json"],
    }
    folder, _ = follow(
        tmp_path, lambda words: [*words, *measured.get(words[0] if words else None, [])]
    )
    docked = json.loads((folder / "measured.json").read_text())["metrics"]["success"]
    # The page gives the range of five seeds, which another machine's rounding is as good as.
    page = (ROOT / "docs" / "your_world.md").read_text(encoding="utf-8")
    least, most = map(float, re.search(r"from (0\.\d+) to (0\.\d+)\.", page).groups())
    assert docked["n"] == 1000
    assert docked["high"] >= least
    assert docked["low"] <= most
