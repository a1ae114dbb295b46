"""A slice of the campaign of scripts/fuzz_state.py: thousands of changed states, and only our errors."""

from pathlib import Path

import pytest

import fuzz_state
from tests.command_line import process

pytestmark = pytest.mark.hostile


def test_changed_states_are_accepted_or_refused_in_a_sentence(tmp_path: Path) -> None:
    done = process(fuzz_state.main, "--inputs", "1500", "--seed", "1000000", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.endswith(" ms |")]
    assert len(rows) == 10
    for name, inputs, refused, accepted, other, _ in rows:
        assert min(map(int, (inputs, refused, accepted))) > 0, name
        assert other == "0"
