"""A few inputs of scripts/fuzz_container.py, whose own run has many more."""

import random
from collections import Counter
from pathlib import Path

import fuzz_container
from navrl.storage.container import CorruptFile


def test_mutations_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    samples = fuzz_container.make_samples()
    outcomes: Counter[str] = Counter()
    for seed in range(400):
        dice = random.Random(seed)
        sample = dice.choice(samples)
        path.write_bytes(fuzz_container.mutated(sample, dice))
        try:
            sample.read(path)
            outcomes["read"] += 1
        except CorruptFile as error:
            outcomes[error.part.partition(" ")[0]] += 1
    assert outcomes.keys() == {"read", "header", "length", "tensor"}
    assert min(outcomes.values()) > 20  # the mutations reach every part of the reader


def test_an_unchanged_sample_is_rebuilt_and_read(tmp_path: Path) -> None:
    for sample in fuzz_container.make_samples():
        (tmp_path / "x").write_bytes(fuzz_container.build(sample.header, sample.payload))
        assert sample.read(tmp_path / "x") is not None
