"""Try faults on savers and files: power cuts, kills, full disks, damage, and states that change meanwhile."""

import random
import warnings
from collections import Counter

import pytest
import torch

import fault_campaign
import fault_kills
import fuzz_container
from navrl.storage.async_saver import AsyncSaver
from navrl.storage.checkpoint import load, verify_or_warn
from navrl.storage.header import CorruptFile
from navrl.storage.info import checkpoint_files
from navrl.storage.saver import CheckpointSaver
from tests.command_line import process
from tests.storage.power_cuts import Trace

ASYNC = {
    **{"keep_last": 9, "keep_best": 0, "save_every": 1, "on_error": "stop", "compress": False},
    **{"queue_size": 1, "when_full": "wait"},
}


def power_cuts(make, tmp_path):
    """Count the states after a power cut, those with a damaged file, and those that lack a save."""
    directory, after = tmp_path / "run", tmp_path / "after"
    saver = make(directory)
    trace = Trace(directory)
    with trace.recording():
        for step in (1, 2, 3, 4):
            saver.save({"x": torch.full((64,), float(step))}, frames=step, score=float(-step))
            saver.flush()
            trace.acknowledge(step)
    seen, damaged, lost = set(), 0, 0
    for promised, files in trace.crashes():
        key = (promised, tuple(sorted(files.items())))
        if key in seen:
            continue
        seen.add(key)
        after.mkdir(exist_ok=True)
        for name, content in files.items():
            (after / name).write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [verify_or_warn(path) for path in checkpoint_files(after)]
        damaged += None in found
        lost += max((info.frames for info in found if info), default=0) < promised
        for path in after.iterdir():
            path.unlink()
    return len(seen), damaged, lost


@pytest.mark.parametrize("make", [fault_kills.sync_saver, fault_kills.async_saver])
def test_no_power_cut_damages_or_loses_anything(tmp_path, make):
    states, damaged, lost = power_cuts(make, tmp_path)
    assert (damaged, lost) == (0, 0)
    assert states > 30, "else there was nothing to find"


@pytest.mark.commands
def test_a_small_campaign_keeps_every_promise(tmp_path):
    numbers = {"kills": 8, "flips": 100, "truncations": 30, "full-disks": 8, "file-limits": 8}
    numbers |= dict.fromkeys(("resumes", "races", "orphans", "ranks"), 0)
    words = [word for name, n in numbers.items() for word in (f"--{name}", str(n))]
    done = process(fault_campaign.main, *words, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert len(lines) == 10
    assert all("kept" in line for line in lines)
    assert "refused 0" not in done.stdout
    assert "mid_save 0" not in done.stdout


def torn(saver, count):
    """Saves whose file is not what the state was when it was saved, and training did not wait."""
    agent = {"weight": torch.zeros(200_000), "step": torch.zeros(())}
    with saver:
        paths = []
        for number in range(1, count + 1):
            for tensor in agent.values():
                tensor.fill_(number)
            path = saver.save({"agent": {"deep": [agent]}}, frames=number, score=None)
            for tensor in agent.values():  # the next gradient step
                tensor.fill_(-1.0)
            paths.append(path)
    wrong = 0
    for number, path in enumerate(paths, start=1):
        found = load(path)["agent"]["deep"][0] if path.exists() else None
        if found is not None:
            wrong += not all(bool((tensor == number).all()) for tensor in found.values())
    return wrong


def test_snapshots_are_points_in_time(tmp_path):
    assert torn(AsyncSaver(directory=tmp_path, **{**ASYNC, "keep_last": 40}), 40) == 0


def test_the_synchronous_saver_passes_it_too(tmp_path):
    options = {
        name: ASYNC[name]
        for name in ("keep_last", "keep_best", "save_every", "on_error", "compress")
    }
    assert torn(CheckpointSaver(directory=tmp_path, **options), 9) == 0


def test_mutations_are_read_or_refused(tmp_path):
    path = tmp_path / "x"
    samples = fuzz_container.make_samples()
    outcomes = Counter()
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
