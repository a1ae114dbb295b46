"""A population: who takes over from whom, how options change, and what a kill in mid-generation costs."""

import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from navrl.config.checks import ConfigError
from navrl.tune import member as member_file
from navrl.tune import population as population_file
from navrl.tune import training
from navrl.tune.evolution import (
    BEGUN,
    CONTINUED,
    TAKEN_OVER,
    WEIGHTS,
    drawn,
    first_generation,
    line_of,
    next_generation,
    perturbed,
)
from navrl.tune.member import Trainer, work_on
from navrl.tune.plan import require_same
from navrl.tune.population import Population, frames_until
from navrl.tune.population_report import page_data, write_population
from navrl.tune.space import Choices, Range, Space, constant_rates, without_schedules
from navrl.tune.training import TrainingFailed, train_on
from tests.tune.studies import FRAMES, plan

RATE, EPOCHS = "agent.optimizer.learning_rate", "agent.num_epochs"
STEPS, SIZES = "rollout_steps", "agent.network.hidden_sizes"


def space(**dimensions):
    by_key = {key.replace("__", "."): each for key, each in dimensions.items()}
    return Space("made", by_key, dict.fromkeys(by_key, 1))


def ended(scores, made):
    members = first_generation(made, len(scores), seed=7)
    return [
        each._replace(ended=True, score=score) for each, score in zip(members, scores, strict=True)
    ]


def population(tmp_path, *, members=4, generations=3):
    tmp_path.mkdir(exist_ok=True)
    made = plan(tmp_path / "a", population=members, interval=FRAMES // generations)
    return made._replace(
        total_frames=FRAMES // generations * generations, interval=FRAMES // generations
    )


def trainings(monkeypatch, score_of):
    """Let trainings end at once: a run keeps its frames, and with them its score and a checkpoint."""
    given = []

    def train_on(made, words, folder, watch, source):
        values = dict(word.split("=") for word in words)
        given.append((folder.relative_to(made.folder).as_posix(), values, source))
        score = score_of(folder, values)
        if isinstance(score, BaseException):
            raise score
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "summary.json").write_text(json.dumps({"eval/crank/win": score}))
        status = {"state": "finished", "frames": int(values["total_frames"])}
        (folder / "status.json").write_text(json.dumps(status))
        (folder / "newest.ckpt").write_bytes(folder.name.encode())
        return True

    monkeypatch.setattr(member_file, "train_on", train_on)
    monkeypatch.setattr(Trainer, "_known", {RATE: 5e-4})  # not composed each time
    monkeypatch.setattr(
        population_file,
        "find",
        lambda run, _: Path(run, "newest.ckpt"),
    )
    return given


def test_the_lowest_quarter_takes_over_from_the_upper_quarter():
    made = space(agent__rate=Range(1e-5, 1e3, True, None))
    scores = [0.1, 0.5, 0.8, 0.3, 0.9, 0.4, 0.2, 0.6]
    before = [each._replace(base=1) for each in ended(scores, made)]
    after = next_generation(made, before, 2, seed=7)
    assert {each.number for each in after if each.how == TAKEN_OVER} == {0, 6}
    for number in (0, 6):
        parent = before[after[number].parent]
        assert parent.number in {2, 4}
        ratio = after[number].params["agent.rate"] / parent.params["agent.rate"]
        assert min(abs(ratio - 0.8), abs(ratio - 1.25)) < 1e-3, "four digits are kept"
        assert (after[number].seed, after[number].base) == (parent.seed, 1)
        assert after[number].run == f"members/{number:02d}/generation-002"
    for number in {1, 2, 3, 4, 5, 7}:
        assert after[number].params == before[number].params
        assert (after[number].run, after[number].how) == (before[number].run, CONTINUED)
        assert not after[number].ended
    assert after == next_generation(made, before, 2, seed=7)
    others = [next_generation(made, before, 2, seed=seed) for seed in range(8, 18)]
    assert any(other[0].params != after[0].params for other in others)


def test_nobody_takes_over_from_one_that_is_not_better():
    made = space(agent__rate=Range(1e-5, 1e3, True, None))
    after = next_generation(made, ended([0.5] * 4, made), 2, seed=7)
    assert [each.how for each in after] == [CONTINUED] * 4
    after = next_generation(made, ended([None] * 4, made), 2, seed=7)
    assert [each.how for each in after] == [CONTINUED] * 4


def test_all_that_failed_take_over_also_beyond_a_quarter():
    made = space(agent__rate=Range(1e-5, 1e3, True, None))
    before = ended([None, None, None, 0.0], made)
    before[:3] = [each._replace(fault="gradients were not finite") for each in before[:3]]
    after = next_generation(made, before, 2, seed=7)
    assert [each.parent for each in after] == [3, 3, 3, 3]
    assert not any(each.fault for each in after)


def test_what_a_resumed_run_cannot_change_begins_a_new_run_with_the_weights():
    made = space(rollout_steps=Range(8, 4096, False, None))
    before = ended([0.1, 0.9], made)
    before[1] = before[1]._replace(params={STEPS: 100}, base=1)
    (after, _) = next_generation(made, before, 3, seed=7)
    assert (after.how, after.base, after.seed) == (WEIGHTS, 2, 7)
    assert after.params[STEPS] in (80, 125)
    (again, _) = next_generation(made, [after._replace(ended=True, score=0.95), before[1]], 4, 7)
    assert (again.how, again.source) == (CONTINUED, "")


def test_options_change_within_the_space():
    made = space(
        rate=Range(1e-4, 1e-2, True, None),
        share=Range(0.5, 0.99, False, None),
        epochs=Range(2, 8, False, None),
        grid=Range(0.0, 1.0, False, 0.25),
        agent__network__hidden_sizes=Choices(("[64,64]", "[128,128]")),
        size=Choices((8, 16)),
    )
    params = {"rate": 1e-3, "share": 0.95, "epochs": 2, "grid": 0.5, SIZES: "[64,64]", "size": 8}
    found = [perturbed(made, params, Random(seed)) for seed in range(400)]
    assert {each["rate"] for each in found} == {8e-4, 1.25e-3}
    assert {each["share"] for each in found} == {0.76, 0.99}, "clipped at the upper bound"
    assert {each["epochs"] for each in found} == {2, 3}, "2 * 1.25 is the next whole number"
    assert all(type(each["epochs"]) is int for each in found)
    assert {each["grid"] for each in found} == {0.25, 0.75}, "a step at least"
    assert {each[SIZES] for each in found} == {"[64,64]"}, "the weights fit no other"
    # Drawn anew with 1/4, and then the other one of two with 1/2: 50 of 400, deviation 6.6.
    assert 23 < sum(each["size"] == 16 for each in found) < 77
    zero = [perturbed(made, {**params, "grid": 0.0}, Random(seed))["grid"] for seed in range(60)]
    assert {0.25, 0.5, 0.75, 1.0} <= set(zero), "zero times 1.25 would be zero for ever"


def test_the_first_members_lie_everywhere_on_the_scale_of_an_option():
    made = space(rate=Range(1e-4, 1e-2, True, None), epochs=Range(2, 5, False, None))
    values = [drawn(made.dimensions["rate"], Random(seed)) for seed in range(400)]
    assert 150 < sum(value < 1e-3 for value in values) < 250, "the middle of the logarithms"
    assert {drawn(made.dimensions["epochs"], Random(seed)) for seed in range(60)} == {2, 3, 4, 5}
    members = first_generation(made, 3, seed=7)
    assert members[0].params == made.defaults
    assert [each.seed for each in members] == [7, 8, 9]
    assert {each.how for each in members} == {BEGUN}


def test_learning_rates_are_constant_between_changes():
    known = {"agent.optimizer.learning_rate": 5e-4, "agent.optimizer.final_learning_rate": 5e-5}
    final = "agent.optimizer.final_learning_rate"
    assert constant_rates(known, [], {RATE: 2e-3}) == {final: 2e-3}
    assert constant_rates(known, [], {}) == {final: 5e-4}
    assert constant_rates(known, [f"{final}=1e-5"], {RATE: 2e-3}) == {}
    share = {"agent.actor.final_learning_rate_share": 0.05, "agent.actor.learning_rate": 1e-3}
    assert constant_rates(share, [], {}) == {"agent.actor.final_learning_rate_share": 1.0}
    both = Space(
        "made", {RATE: Range(1e-4, 1e-2, True, None), final: Choices((1, 2))}, {RATE: 1, final: 1}
    )
    assert list(without_schedules(both).dimensions) == [RATE]
    with pytest.raises(ConfigError, match="all members train as long; change total_frames in conf"):
        without_schedules(space(total_frames=Range(1, 9, False, None)))


def test_a_population_trains_through_its_generations(tmp_path, monkeypatch, capsys):
    made = population(tmp_path)
    given = trainings(monkeypatch, lambda _, values: float(values[RATE]))
    state = Population(made)
    work_on(made, state)
    generations = state.generations()
    assert [len(each) for each in generations] == [4, 4, 4]
    assert [int(values["total_frames"]) for _, values, _ in given] == [333] * 4 + [666] * 4 + [
        999
    ] * 4
    for before, after in pairwise(generations):
        for each in after:
            if each.parent == each.number:
                continue
            source = made.folder / each.source
            assert before[each.parent].score > before[each.number].score
            (words,) = [v for run, v, s in given if run == each.run and s == source][:1]
            assert float(words[RATE]) == each.params[RATE]
            assert words["seed"] == str(each.seed)
    assert any(each.how == TAKEN_OVER for each in generations[1])
    best = max(generations[-1], key=lambda each: each.score)
    line = line_of(generations, best.number)
    assert [each.score for each in line] == sorted(each.score for each in line)
    text = write_population(made, state)
    assert f"best: member {best.number}, win {best.score:.3f}" in text
    assert f"navrl evaluate checkpoint={made.folder / best.run}" in text
    assert page_data(made, generations, line)["line"] == [each.number for each in line]
    assert "generation 3/3 | member 3" in capsys.readouterr().out
    again = Population(made)
    assert again.over()
    assert again.next() is None


def test_a_population_without_scores_says_why(tmp_path, monkeypatch):
    made = population(tmp_path)
    trainings(monkeypatch, lambda *_: math.nan)  # no evaluation, and no episode that has ended
    state = Population(made)
    assert write_population(made, state).startswith("no generation is complete yet\n")
    work_on(made, state)
    assert write_population(made, state).startswith(
        "no member of generation 3 has a score: nothing was evaluated, and no episode that counts "
        "ended within a generation of 333 frames; leave eval_opponents=[] out, or set a longer "
        "--interval\n"
    )


def test_a_kill_in_mid_generation_costs_only_the_training_under_way(tmp_path, monkeypatch):
    whole, killed = population(tmp_path / "whole"), population(tmp_path / "killed")
    trainings(monkeypatch, lambda _, values: float(values[RATE]))
    work_on(whole, Population(whole))
    for kill_at in range(12):
        count = iter(range(100))

        def score_of(_, values, count=count):
            return float(values[RATE]) if next(count) < 1 else KeyboardInterrupt()

        given = trainings(monkeypatch, score_of)
        state = Population(killed)
        assert state.trained() == kill_at
        if kill_at < 11:
            with pytest.raises(KeyboardInterrupt):
                work_on(killed, state)
            assert len(given) == 2, "one that ended, and the one that was killed"
        else:
            work_on(killed, state)
    assert Population(killed).generations() == Population(whole).generations()


def test_a_training_that_had_finished_before_the_kill_is_not_repeated(tmp_path, monkeypatch):
    made = population(tmp_path)
    given = trainings(monkeypatch, lambda _, values: 0.5)
    state = Population(made)
    turn = state.next()
    Trainer(made).train(turn)
    turn.lock.release()  # killed before it could record the end
    work_on(made, state)
    assert [run for run, *_ in given].count(turn.member.run) == made.generations


def test_two_workers_never_have_the_same_member(tmp_path):
    made = population(tmp_path, members=2)
    one, other = Population(made), Population(made)
    first, second = one.next(), other.next()
    assert (first.member.number, second.member.number) == (0, 1)
    assert one.next() is None
    first.lock.release()  # as the system does for a process that is killed
    again = other.next()
    assert again.member._replace(times=0) == first.member
    for turn in (second, again):
        turn.lock.release()


def test_a_member_that_kills_every_worker_fails_and_takes_over_from_another(tmp_path, monkeypatch):
    made = population(tmp_path, members=2, generations=2)
    monkeypatch.setattr(population_file, "_MOST_TIMES", 2)
    trainings(monkeypatch, lambda *_: 0.5)
    state = Population(made)
    for _ in range(2):
        turn = state.next()
        assert turn.member.number == 0
        turn.lock.release()  # as the system does for a process that is killed
    assert state.next() is None, "the third time it has failed"
    work_on(made, state)
    first, second = state.generations()
    assert [each.fault for each in first] == ["its workers were killed", ""]
    assert (second[0].parent, second[0].how, second[0].times) == (1, TAKEN_OVER, 0)


def test_all_members_failing_ends_the_command_and_is_tried_again(tmp_path, monkeypatch):
    made = population(tmp_path, members=2)
    trainings(monkeypatch, lambda *_: TrainingFailed("no space left"))
    with pytest.raises(ConfigError, match="all 2 members failed in generation 1: no space left"):
        work_on(made, Population(made))
    trainings(monkeypatch, lambda *_: 0.5)
    state = Population(made)
    work_on(made, state)
    assert state.over()


def test_copies_are_deleted_once_nobody_begins_with_them(tmp_path, monkeypatch):
    made = population(tmp_path, generations=5)
    trainings(monkeypatch, lambda _, values: float(values[RATE]))
    state = Population(made)
    work_on(made, state)
    kept = {
        path.relative_to(made.folder).as_posix() for path in made.folder.glob("members/*/*.ckpt")
    }
    assert kept == {each.source for each in state.generations()[-1] if each.source}


def test_a_new_run_counts_its_frames_from_its_beginning(tmp_path):
    made = population(tmp_path)
    member = first_generation(made.space, 1, 0)[0]
    assert [frames_until(made, member, g) for g in (1, 2, 3)] == [333, 666, 999]
    assert [frames_until(made, member._replace(base=1), g) for g in (2, 3)] == [333, 666]


def test_a_search_and_a_population_have_folders_of_their_own(tmp_path):
    made = population(tmp_path)
    Population(made)
    search = plan(made.folder, trials=3)
    with pytest.raises(ConfigError, match="holds a study with"):
        require_same(search)
    (made.folder / "population.json").write_text("[[{}]]")
    with pytest.raises(ConfigError, match="expected the state of a population"):
        Population(made).over()


def test_a_run_that_was_killed_before_its_first_save_begins_again_from_its_source(
    tmp_path, monkeypatch
):
    made = population(tmp_path)
    folder, source, given = made.folder / "run", made.folder / "parent.ckpt", []
    write = "import pathlib; pathlib.Path('status.json').write_text('{\"state\": \"finished\"}')"

    def command(_plan, words, _folder):
        given.append((words[-1], (folder / "config.yaml").exists()))
        return [sys.executable, "-c", f"import os; os.chdir({str(folder)!r}); {write}"]

    monkeypatch.setattr(training, "_command", command)
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.yaml").touch()
    assert train_on(made, [], folder, lambda: False, source)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "step_000000000256.ckpt").touch()
    (folder / "config.yaml").touch()
    assert train_on(made, [], folder, lambda: False, source)
    assert given == [(f"resume={source}", False), ("resume=auto", True)]
