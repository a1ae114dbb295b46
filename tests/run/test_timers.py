"""Sections, rates, memory and traces, with a clock that moves only when a test moves it."""

import gzip
import json
import math

import pytest
import torch

from navrl.agents.fast.allocator import give_back_freed_memory
from navrl.run.memory import reset_peak, rss_mb
from navrl.run.progress import Monitor, eta_s
from navrl.run.timers import Sections, profiler_for


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def monitor_of(clock, device="cpu", start_frames=0):
    return Monitor(device=device, total_frames=10_000, start_frames=start_frames, clock=clock)


def test_sections_add_up_and_pop_starts_afresh(clock):
    monitor = monitor_of(clock)
    for seconds in (2.0, 3.0):
        with monitor.section("collect"):
            clock.now += seconds
    with monitor.section("update"):
        clock.now += 5.0
    metrics = monitor.pop(1000)
    assert metrics["time/collect"] == 5.0
    assert metrics["time/update"] == 5.0
    assert metrics["time/iteration"] == 10.0
    assert metrics["time/fps"] == 100.0  # 1000 frames in 10 s
    assert metrics["time/collect_fps"] == 200.0  # 1000 frames in 5 s
    assert metrics["time/update_fps"] == 200.0
    assert metrics["time/eta_s"] == 90.0  # 9000 frames at 100 per second
    assert metrics["time/progress"] == 0.1
    clock.now += 4.0
    again = monitor.pop(1200)
    assert "time/update" not in again
    assert again["time/fps"] == 50.0  # 200 frames in 4 s


def test_cpu_seconds_are_those_since_the_last_pop(clock, monkeypatch):
    used = iter([7.0, 9.5, 9.75])
    monkeypatch.setattr("navrl.run.progress.time.process_time", lambda: next(used))
    monitor = monitor_of(clock)
    clock.now += 60.0  # most of it waiting for a neighbour
    assert monitor.pop(1000)["time/cpu"] == 2.5
    assert monitor.pop(2000)["time/cpu"] == 0.25


def test_a_resumed_run_counts_only_its_own_frames(clock):
    monitor = monitor_of(clock, start_frames=6000)
    clock.now += 2.0
    assert monitor.pop(7000)["time/fps"] == 500.0


def test_evaluations_are_no_training_time_but_some_of_what_is_left(clock):
    monitor = monitor_of(clock)
    with monitor.section("collect"):
        clock.now += 10.0
    with monitor.section("curriculum"):
        clock.now += 40.0
    first = monitor.pop(1000)
    assert first["time/fps"] == 100.0
    assert first["time/iteration"] == 50.0
    assert first["time/eta_s"] == 90.0 + 9 * 40.0  # 9000 frames, 40 s for every 1000
    clock.now += 10.0
    # 80 s of training, and as many evaluations a frame as before: 40 s in 2000 frames
    assert monitor.pop(2000)["time/eta_s"] == 80.0 + 4 * 40.0


def test_what_is_left_follows_the_mean_of_the_latest_iterations(clock):
    monitor = Monitor(device="cpu", total_frames=1_000_000, start_frames=0, clock=clock)
    clock.now += 1000.0  # the first one compiles
    monitor.pop(1000)
    for iteration in range(2, 61):  # 50 of them count, every other one three times as slow
        clock.now += 1.0 if iteration % 2 else 3.0
        metrics = monitor.pop(1000 * iteration)
    assert metrics["time/fps"] == pytest.approx(1000.0 / 3.0)
    assert metrics["time/eta_s"] == pytest.approx(940_000 / 500.0)
    for iteration in range(61, 111):  # the slow ones are forgotten
        clock.now += 1.0
        metrics = monitor.pop(1000 * iteration)
    assert metrics["time/eta_s"] == pytest.approx(890_000 / 1000.0)


def test_a_section_that_raises_is_still_timed(clock):
    monitor = monitor_of(clock)

    def save():
        with monitor.section("save"):
            clock.now += 1.5
            raise KeyError

    with pytest.raises(KeyError):
        save()
    assert monitor.pop(1)["time/save"] == 1.5


def test_eta():
    assert eta_s(300, 100.0) == 3.0
    assert eta_s(0, 0.0) == 0.0
    assert eta_s(1, 0.0) == math.inf


def test_resident_memory_grows_with_what_is_held():
    give_back_freed_memory()  # what earlier tests left in this process could be used again
    before, _ = rss_mb()
    held = torch.ones(64 * 2**20 // 4)  # 64 MiB, touched
    now, peak = rss_mb()
    assert now - before > 48.0
    assert peak >= now
    del held
    give_back_freed_memory()
    after, peak = rss_mb()
    assert peak - after > 48.0  # the most that was held
    reset_peak(torch.device("cpu"))
    assert rss_mb()[1] < peak - 48.0


def test_percentiles_are_of_the_latest_readings_only(clock):
    sections = Sections("cpu", window=20, clock=clock)
    for seconds in (1000.0, *range(1, 21)):  # the first is forgotten
        for part in (0.25, 0.75):  # the sum of a reading counts
            with sections.section("it"):
                clock.now += seconds * part
        assert sections.read() == {"it": seconds}
    assert sections.spread() == {"it": (10.5, 19.0)}  # 19 of 20 take at most 19 s


def test_a_run_ends_with_percentiles(clock):
    monitor = monitor_of(clock)
    for iteration, seconds in enumerate((3.0, 1.0, 2.0), 1):
        with monitor.section("update"):
            clock.now += seconds
        monitor.pop(iteration)
    assert monitor.summary() == {"time/update_p50": 2.0, "time/update_p95": 3.0}


class FakeEvent:
    log: list = []  # noqa: RUF012
    time_ms = 0.0

    def __init__(self, *, enable_timing):
        assert enable_timing

    def record(self):
        FakeEvent.time_ms += 250.0
        self.at_ms = FakeEvent.time_ms
        FakeEvent.log.append("record")

    def synchronize(self):
        FakeEvent.log.append("synchronize")

    def elapsed_time(self, end):
        return end.at_ms - self.at_ms


def test_cuda_sections_wait_for_the_device_only_when_read(clock, monkeypatch):
    monkeypatch.setattr(FakeEvent, "log", [])
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**20)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2**20)
    monitor = monitor_of(clock, device="cuda")
    with monitor.section("collect"):
        clock.now += 9.0  # what the host sees says nothing about the device
    assert FakeEvent.log == ["record", "record"]
    clock.now += 1.0
    metrics = monitor.pop(100)
    assert FakeEvent.log == ["record", "record", "synchronize"]
    assert metrics["time/collect"] == 0.25
    assert metrics["time/collect_fps"] == 400.0
    assert metrics["memory/cuda_mb"] == 1.0
    assert metrics["memory/cuda_peak_mb"] == 3.0


# ---- profile=true

CPU = torch.device("cpu")


def iterations(number, folder, notes):
    """So many iterations with a section of their own."""
    sections = Sections(CPU)
    with profiler_for(True, folder, CPU, notes.append) as profiler:
        for iteration in range(1, number + 1):
            if iteration > 1:
                profiler.step()
            with sections.section(f"iteration {iteration}"):
                torch.ones(4) + torch.ones(4)


def test_the_trace_holds_two_iterations_by_name(tmp_path):
    notes = []
    iterations(5, tmp_path / "profile", notes)
    (file,) = (tmp_path / "profile").iterdir()
    (note,) = notes
    assert str(file) in note
    found = {
        event.get("name") for event in json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    }
    assert {name for name in found if str(name).startswith("iteration")} == {
        "iteration 3",
        "iteration 4",
    }
    assert "aten::add" in found


def test_a_run_that_ends_too_early_is_reported(tmp_path):
    notes = []
    iterations(2, tmp_path / "profile", notes)
    assert notes == ["profile=true wrote nothing: it needs 3 iterations or more"]
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_cannot_be_written_ends_nothing(tmp_path):
    (tmp_path / "profile").write_text("in the way")
    notes = []
    iterations(5, tmp_path / "profile", notes)
    (note,) = notes
    assert note.startswith(
        f"profile=true could not write {tmp_path / 'profile' / 'trace.json.gz'}: "
    )
