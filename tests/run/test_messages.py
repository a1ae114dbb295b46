"""Messages of the train command before it begins."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from navrl.config.compose import compose
from navrl.envs.core.compiling import Compilation
from navrl.ranks import cores
from navrl.run.messages import (
    banner,
    compiled,
    going_on,
    interrupted,
    next_commands,
    not_finite,
    other_arithmetic,
    saved_files,
)


def lines_of(*overrides, iterations=3, done=0):
    """The lines of the banner."""
    learners = SimpleNamespace(
        curriculum=SimpleNamespace(summary=""),
        env=SimpleNamespace(device="cpu"),
        agent=SimpleNamespace(precision="fp32"),
    )
    return banner(compose("train", overrides), learners, Path("run"), iterations, done).splitlines()


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        # 4 s / -ln 0.995 = 798.0 s; 0.995^4 = 0.98015, and 1 s / -ln 0.995 = 199.5 s
        (
            ["env.sim.time_scale=4"],
            "a decision lasts 4 s: agent.discount=0.995 looks 798 s ahead, 0.9801 would look 199 s "
            "as at env.sim.time_scale=1",
        ),
        # 0.25 s / -ln 0.9 = 2.373 s; 0.9^0.5 = 0.94868, and 0.5 s / -ln 0.9 = 4.746 s
        (
            ["env.sim.time_scale=0.5", "env.sim.decision_s=0.5", "agent.discount=0.9"],
            "a decision lasts 0.25 s: agent.discount=0.9 looks 2 s ahead, 0.9487 would look 5 s "
            "as at env.sim.time_scale=1",
        ),
    ],
)
def test_a_stretched_decision_says_how_far_the_discount_looks(overrides, sentence):
    assert sentence in lines_of(*overrides)


@pytest.mark.parametrize("overrides", [[], ["env.sim.time_scale=2", "agent.discount=1.0"]])
def test_else_the_discount_is_not_mentioned(overrides):
    assert not any("discount" in line for line in lines_of(*overrides))


def test_several_processes_are_named_and_the_next_command_has_as_many(monkeypatch, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "1.ckpt").touch()
    assert lines_of()[1].startswith("device cpu")
    assert "ranks" not in interrupted(tmp_path, complete=False)
    monkeypatch.setenv("WORLD_SIZE", "64")
    assert lines_of()[1].startswith(f"64 ranks (64 share {cores()} cores), device cpu")
    assert interrupted(tmp_path, complete=False).endswith(" ranks=64")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")  # of 64 machines
    assert lines_of()[1].startswith("64 ranks, device cpu")
    assert "ranks" not in interrupted(tmp_path, complete=False)  # ranks=64 would start all here


def test_one_iteration_is_no_iterations():
    assert lines_of(iterations=1)[0].endswith(", 1 iteration")
    assert lines_of()[0].endswith(", 3 iterations")


def test_going_on_means_as_many_frames_again_as_were_collected(tmp_path):
    """The option was 256, an iteration makes 960 frames, and 512 would be too few to go on."""
    (tmp_path / "checkpoints").mkdir()
    assert "checkpoint=none" in next_commands(
        tmp_path, "total_frames=1920"
    )  # and no command that finds nothing
    (tmp_path / "checkpoints" / "step_000000000960.ckpt").touch()
    assert next_commands(tmp_path, "total_frames=1920").endswith(
        f" resume={tmp_path} total_frames=1920"
    )


def test_the_checkpoint_to_go_on_from_is_named_as_seen_from_here():
    place = Path.cwd() / "outputs" / "run" / "step.ckpt"
    for origin in (place, place.relative_to(Path.cwd())):
        start = SimpleNamespace(origin=str(origin), done=2, frames=64, keeps_episodes=True)
        assert going_on(start, "").startswith(f"going on from {Path('outputs/run/step.ckpt')}, ")


@pytest.mark.parametrize(
    ("done", "total", "end"),
    [
        (0, 9, "; iteration 3 compiles"),
        (1, 9, "; iteration 3 compiles"),
        (2, 9, "; the first iteration compiles"),
        (0, 2, ""),
    ],
)
def test_the_first_lines_say_when_something_compiles(done, total, end):
    (line,) = (each for each in lines_of(iterations=total, done=done) if "compile=" in each)
    assert line.partition("compile=auto")[2] == end


def test_an_iteration_says_what_compiling_took():
    step = Compilation("the simulator step", 4.0, cached=True)
    learning = Compilation("the gradient step", 2.5, cached=False)
    assert compiled(5.2, []) == "first iteration done after 5 s"
    assert (
        compiled(None, [learning]) == "compiled the gradient step in 2.5 s, now kept for later runs"
    )
    assert compiled(31.4, [step, step._replace(seconds=1.0)]) == (
        "first iteration done after 31 s; compiled the simulator step in 5.0 s, kept by an earlier run"
    )
    assert compiled(31.4, [step, learning]) == (
        "first iteration done after 31 s; compiled the simulator step in 4.0 s and the gradient step in "
        "2.5 s, now kept for later runs"
    )


def test_a_resume_says_what_computes_otherwise_now():
    before = {"threads": 1, "cpu_capability": "AVX512", "compiled": "the policy", "gone": 1}
    now = {"threads": 2, "cpu_capability": "AVX512", "compiled": "nothing", "new": 3}
    assert other_arithmetic(before, now) == (
        "not bit for bit as the saved run would have continued: threads was 1, is 2; "
        "compiled was the policy, is nothing"
    )
    assert other_arithmetic(now, now) == other_arithmetic({}, now) == ""


def test_where_nothing_is_saved_nothing_is_to_be_resumed():
    assert "resume=" not in not_finite(Path("run"), 1, None)
    assert "frame 128; lower the learning rates and go on with resume=run" in not_finite(
        Path("run"), 1, 128
    )


@pytest.mark.commands
def test_the_command_that_lists_checkpoints_runs_as_it_is_printed(tmp_path):
    line = saved_files(tmp_path / "a run")
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "a run'" in done.stderr  # it has begun, and looked there
