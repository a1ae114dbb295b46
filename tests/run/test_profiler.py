"""profile=true: a trace of the third and fourth iteration, and nothing else."""

import gzip
import json

import torch

from navrl.run.timers import NoProfiler, Sections, profiler_for

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


def test_a_run_that_ends_too_early_is_told(tmp_path):
    notes = []
    iterations(2, tmp_path / "profile", notes)
    assert notes == ["profile=true wrote nothing: it needs three iterations or more"]
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_ends_in_between_is_written(tmp_path):
    iterations(3, tmp_path / "profile", [])
    assert [file.name for file in (tmp_path / "profile").iterdir()] == ["trace.json.gz"]


def test_nothing_is_traced_unasked(tmp_path):
    assert isinstance(profiler_for(False, tmp_path, CPU, print), NoProfiler)


def test_a_trace_that_cannot_be_written_ends_nothing(tmp_path):
    (tmp_path / "profile").write_text("in the way")
    notes = []
    iterations(5, tmp_path / "profile", notes)
    (note,) = notes
    assert note.startswith(
        f"profile=true could not write {tmp_path / 'profile' / 'trace.json.gz'}: "
    )
