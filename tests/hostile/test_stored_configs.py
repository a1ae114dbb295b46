"""Configurations of strangers, in checkpoints and run folders: not evaluated, and of a bounded size."""

import json
import shutil
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import navrl.evaluate
import navrl.train
from navrl.api.training import _as_job
from navrl.commands import replay, report
from navrl.config.checks import ConfigError
from navrl.config.command import _sentence
from navrl.config.compose import compose, compose_all, from_json, overridden, to_json, to_plain
from navrl.config.resumed import resumed
from navrl.config.stored import MOST_LEVELS, MOST_VALUES, parse_yaml
from navrl.run.build import build_env, build_parts
from navrl.run.plan import new_overrides, plan_run
from navrl.run.policies import build_policy, find_policy, opponent_name
from navrl.storage.checkpoint import load, write_state
from navrl.storage.find import find
from tests.command_line import command
from tests.runs import write_run

pytestmark = pytest.mark.hostile
CANARY = "canary-5f1d"
MIB = 1 << 20
TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "opponent=crank"),
    *("env.sim.tick_s=0.25", "total_frames=128", "hydra.run.dir=outputs/run"),
)
ACTIVE = [
    "${oc.env:CANARY}",
    "${${q}:CANARY}",
    "${oc.env:${name}}",
    "${${q}${sep}CANARY}",
    "a${oc.env:CANARY}b",
    "\\${oc.env:CANARY}",
    "\\\\${oc.env:CANARY}",
    "${dollar}{oc.env:CANARY}",
    "${dollar}${brace}",
    "${oc.decode:'${oc.env:CANARY}'}",
    "${ oc.env:CANARY}",
    "${oc.env:CANARY",
    "${oc.create:{a: 1}}",
    "${now:%Y}",
    "${run_id:}",
    "${hydra:runtime.cwd}",
    "${oc.select:seed}",
    "${seed[0]}",
    "${\u200bseed}",
    "${}",
    "${.}",
    "${......seed}",
    "${seed}\n",
]
PARTS = {"q": "oc.env", "sep": ":", "name": "CANARY", "dollar": "$", "brace": "{oc.env:CANARY}"}


def doubling(text, count):
    """A name for each of `count` texts, each of which holds the next one twice."""
    return {f"b{i}": text.replace("X", f"b{i + 1}") for i in range(count)} | {f"b{count}": "end"}


def nested(depth):
    value = "end"
    for _ in range(depth):
        value = {"a": value}
    return value


def circles(count):
    return {f"c{i}": f"${{c{(i + 1) % count}}}" for i in range(count)}


def branches(count):
    """References through references, each of which takes two more steps to find."""
    found = {f"n{i}": {"k": f"${{n{i + 1}.k.k}}"} for i in range(count)}
    return found | {f"n{count}": {"k": {"k": 1}}}


BOMBS = {
    "text": doubling("${X}${X}", 40),
    "nodes": {f"b{i}": {"x": f"${{b{i + 1}}}", "y": f"${{b{i + 1}}}"} for i in range(30)}
    | {"b30": 1},
    "lists": {f"b{i}": [f"${{b{i + 1}}}"] * 9 for i in range(9)} | {"b9": 1},
    "wide": {"b": list(range(900)), "a": [{"x": "${b}"}] * 900},
    "indexed": {f"b{i}": [[f"${{b{i + 1}.0}}"] * 9] for i in range(9)} | {"b9": [1]},
    "chain": {f"c{i}": f"${{c{i + 1}}}" for i in range(4000)} | {"c4000": 1},
    "circle": circles(2),
    "itself": {"a": {"b": "${a}"}},
    "relative": {"a": {"b": {"c": "${...a}"}}},
    "long circle": circles(25),
    "branches": branches(30),
    "deep": nested(400),
    "many": {f"k{i}": i for i in range(200_000)},
    "long": {"a": "x" * 8 * MIB},
    "longkey": {"x" * MIB: 1},
    "tensor": {"a": object()},
}


def stored():
    return to_json(compose("train", ["opponent=crank"]))


def bounded(function, *arguments):
    """What the function raises, in at most a second and 100 MB."""
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(ConfigError) as caught:
            function(*arguments)
        took_s = time.process_time() - begun
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert took_s < 5.0  # tracemalloc makes all of it several times slower
    assert peak < 100 * MIB
    sentence = str(caught.value)
    assert len(sentence) < 1000
    assert "\n" not in sentence
    return sentence


@pytest.fixture
def canary(monkeypatch):
    monkeypatch.setenv("CANARY", CANARY)


@pytest.mark.parametrize("text", ACTIVE)
@pytest.mark.parametrize("place", ["value", "list", "deep", "key", "env"])
def test_no_resolver_of_a_file_passes(canary, text, place):
    where = {
        "value": {"note": text},
        "list": {"note": [1, [text]]},
        "deep": {"note": {"a": [{"b": text}]}},
        "key": {"note": {text: 1}},
        "env": {"env": {"name": text}},
    }[place]
    if place == "key" and "${" not in text:
        return
    sentence = bounded(from_json, {**stored(), **PARTS, **where})
    assert CANARY not in sentence


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_anything_is_resolved(name):
    bounded(from_json, {**stored(), **BOMBS[name]})


def test_references_that_a_command_adds_are_counted_too():
    half = {f"b{i}": {"x": f"${{b{i + 1}}}", "y": f"${{b{i + 1}}}"} for i in range(12)} | {"b12": 1}
    config = from_json({**stored(), **half, "b6": 1})
    bounded(overridden, config, ["b6=${b7}"])
    bounded(overridden, config, ["b12=${b0}"])


def test_what_conf_holds_passes_with_room_to_spare():
    for overrides in (
        *(["curriculum=cold_start"], ["opponent=league"], ["env=alice_and_bob", "agent=hmasd"]),
        ["env=navigation", "agent=ppo_navigation", "curriculum=crowds"],
    ):
        config = compose("train", overrides)
        assert to_plain(from_json(to_json(config)).env, resolve=True) == to_plain(
            config.env, resolve=True
        )
    largest = {f"k{i}": i for i in range(MOST_VALUES - 10)}
    assert from_json(largest).k7 == 7
    assert from_json(nested(MOST_LEVELS - 3))


def test_a_stored_reference_sees_no_option_of_this_installation(canary):
    for text in ("${logger.entity}", "${checkpoint.save_every}", "${hydra.run}", "${resume}"):
        bounded(from_json, {**stored(), "note": text})
    bounded(from_json, {**stored(), "agent": {"note": "${..logger.entity}"}})
    kept = from_json(
        {**stored(), "logger": {"_target_": "${a}", "entity": "${oc.env:CANARY}", "n": 1}}
    )
    assert to_plain(kept.logger, resolve=True) == {"n": 1}


def test_a_resolver_on_the_command_line_is_evaluated_before_it_meets_a_file(canary):
    hostile = {**stored(), "CANARY": "x", "device": "CANARY"}
    config, _ = overridden(from_json(hostile), ["env.name=${oc.env:CANARY}"])
    assert config.env.name == CANARY  # the user's own wish
    with pytest.raises(Exception, match="device"):
        overridden(from_json(hostile), ["env.name=${oc.env:${device}}"])


def test_a_resumed_run_holds_results_and_no_resolvers(monkeypatch):
    monkeypatch.setenv("NAME", "mine")
    words = ["opponent=crank", "agent.name=${oc.env:NAME}"]
    composed = compose("train", words)
    assert to_json(composed)["agent"]["name"] == "mine"
    choices = {"agent": "ppo", "env": "combat", "opponent": "crank"}
    choices |= {"logger": "none", "checkpoint": "sync", "collector": "sync", "rollouts": "none"}
    config = resumed(stored(), choices, composed, words, {**choices, "reward": "combat"})
    assert to_json(config)["agent"]["name"] == "mine"
    assert OmegaConf.is_interpolation(config.env, "opponent")


YAMLS = {
    "aliases": "a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: [*b, *b, *b, *b]\n",
    "merged aliases": "a: &a {x: 1}\nb: {<<: *a}\n",
    "an anchor": "- &a 1\n",
    "itself": "&a [*a]\n",
    "a tag": "!!python/object/apply:os.system ['true']\n",
    "a plain tag": "- !!str 1\n",
    "deep": "[" * 100_000,
    "deep blocks": "- " * 60_000,
    "many": "- a\n" * 30_000,
    "a long line": "x" * 120_000,
    "a long number": ":".join(["59"] * 40_000),
    "gigantic": "#" * 100 * MIB,
    "binary": "\x00\x01",
    "two documents": "- a\n---\n- b\n",
    "unhashable": "{[1]: 2}\n",
    "a date": "- 2026-99-99\n",
    "a mapping": "a: 1\n",
    "a text": "resume=auto\n",
    "numbers": "- 1\n- [2]\n",
}


@pytest.mark.parametrize("name", YAMLS)
def test_yaml_of_a_run_is_bounded(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / "run")
    for file in ("overrides.yaml", "config.yaml"):
        text = (run / file).read_text()
        (run / file).write_text(YAMLS[name])
        begun = time.process_time()
        assert report.main(["run"]) in (1, 2)
        assert time.process_time() - begun < 2.0
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("navrl: error: run is not described")
        if file == "overrides.yaml":
            with pytest.raises(ValueError, match=r"overrides\.yaml"):
                new_overrides(run, ["seed=1"])
        (run / file).write_text(text)
    assert report.main(["run"]) == 0


def test_lines_of_resumes_are_bounded(tmp_path):
    run = write_run(tmp_path / "run")
    lines = [
        '{"overrides": ["seed=7"]}',
        "[" * 100_000,
        '{"overrides": 3}',
        "x" * 2 * MIB,
        "1",
        '{"over',
    ]
    (run / "resumes.jsonl").write_text("\n".join(lines))
    assert new_overrides(run, ["seed=7", "num_envs=3"]) == ["num_envs=3"]
    (run / "resumes.jsonl").write_text("[]," * 10 * MIB)
    with pytest.raises(ValueError, match=r"resumes\.jsonl"):
        new_overrides(run, ["seed=7"])


def test_yaml_of_navrl_passes():
    text = OmegaConf.to_yaml(compose("train", ["curriculum=cold_start"]))
    assert parse_yaml(text, Path("config.yaml"))["env"]["name"] == "combat"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert command(navrl.train.main, *TINY) == 0
    return folder


HOSTILE = {
    "nested resolver": {"q": "oc.env", "note": "${${q}:CANARY}", "compile": "${note}"},
    "built text": {"d": "$", "compile": "${d}{oc.env:CANARY}"},
    "bomb": BOMBS["nodes"],
    "no mapping": {"env": "combat"},
    "no agent": {"agent": None},
    "a scenario outside of conf": {"eval_scenario": "../../../../../../tmp/x"},
    "an opponent outside of conf": {"eval_opponents": ["../env/combat"]},
    "an opponent that is a resolver": {"eval_opponents": ["${oc.env:CANARY}"]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_every_command_refuses_it_in_one_sentence(
    original, tmp_path, monkeypatch, capfd, canary, name
):
    shutil.copytree(original, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    file = find("run", Path("outputs"))
    state = load(file)
    state["config"] |= HOSTILE[name]
    write_state(file, state, frames=state["frames"], score=None)
    before = set(Path("outputs").rglob("*"))
    for main, words in (
        (navrl.train.main, ["resume=outputs/run", "total_frames=256", "console=none"]),
        (navrl.train.main, [*TINY, "total_frames=256", "resume=auto"]),
        (navrl.evaluate.main, ["checkpoint=outputs/run", "num_episodes=1"]),
        (
            navrl.evaluate.main,
            ["checkpoint=scripted:crank", "num_episodes=1", "opponent=checkpoint:outputs/run"],
        ),
        (lambda: sys.exit(replay.main()), ["outputs/run"]),
    ):
        if "outside" in name and main is not navrl.train.main:
            continue  # which do not read it
        code = command(main, *words)
        out, err = capfd.readouterr()
        assert code in (1, 2), (words, out)
        assert CANARY not in out + err
        assert len([line for line in err.splitlines() if "error" in line]) == 1, err
        assert "Traceback" not in err
    assert set(Path("outputs").rglob("*")) == before
    for path in Path("outputs").rglob("*.y*ml"):
        assert CANARY not in path.read_text()


ANOTHER = {"_target_": "navrl.envs.WeightedReward", "terms": {}, "weights": {}}
WRONG_KINDS = [
    *[("opponent", kind) for kind in (None, 3, "${curriculum}", ANOTHER)],
    *[("observation", kind) for kind in (None, "${action}", {"a": 1})],
    *[("action", kind) for kind in ("${observation}", [1])],
    *[("curriculum", kind) for kind in (None, "${compile}", {}, ANOTHER)],
    *[("env", kind) for kind in (None, 3, [1], "${agent}", ANOTHER)],
    *[("agent", kind) for kind in (3, "${env}")],
    *[("agent.network.hidden_sizes", kind) for kind in ([-1], [[8]])],
    *[("env.sim", 1.5), ("env.headline", "${action}"), ("agent.network", {}), ("reward", None)],
    *[("eval_opponents", kind) for kind in (None, 3, "x", {"a": 1})],
    *[("choices", kind) for kind in (None, "x", [1], {"env": 3}, {"opponent": {"a": 1}})],
]
OF_TRAINING = ("curriculum", "eval_opponents")  # which only a resumed run builds


def _wrong(state, key, kind):
    """The state with something of another kind at this key of its configuration."""
    state = {**state, "config": json.loads(json.dumps(state["config"]))}
    *way, last = key.split(".")
    place = state if key == "choices" else state["config"]
    for name in way:
        place = place[name]
    place[last] = kind
    return state


def _built_to_evaluate(path):
    config, state, _, choices = find_policy(path, device="cpu")
    env = build_env(config, num_envs=1, seed=0, compile_mode="off")
    build_policy(path, config, state, env)
    opponent_name(config, choices)


def _built_to_resume(path):
    words = ["console=none", f"resume={path}", "hydra.run.dir=outputs/new", "total_frames=256"]
    with _as_job(compose_all("train", words)) as cfg, plan_run(cfg) as plan:
        build_parts(plan)


@pytest.mark.parametrize(("key", "kind"), WRONG_KINDS, ids=str)
def test_an_object_of_the_wrong_kind_is_one_sentence(original, monkeypatch, key, kind):
    monkeypatch.chdir(original)
    state = _wrong(load(find("run", Path("outputs"))), key, kind)
    write_state(Path("wrong.ckpt"), state, frames=state["frames"], score=None)
    for begin in (_built_to_evaluate, _built_to_resume):
        if begin is _built_to_evaluate and key in OF_TRAINING:
            begin("wrong.ckpt")
            continue
        with pytest.raises(Exception) as caught:  # noqa: PT011  (the sentence is what counts)
            begin("wrong.ckpt")
        sentence = _sentence(caught.value)
        assert sentence, caught.value
        assert "\n" not in sentence
        assert len(sentence) < 1000


def test_an_allocation_that_fails_is_no_wrong_kind(original, monkeypatch):
    monkeypatch.chdir(original)
    state = _wrong(load(find("run", Path("outputs"))), "agent.network.hidden_sizes", [1 << 20] * 2)
    write_state(Path("wrong.ckpt"), state, frames=state["frames"], score=None)
    with pytest.raises(RuntimeError, match="allocate memory"):
        _built_to_evaluate("wrong.ckpt")
    with pytest.raises(ConfigError, match="needs more memory than there is"):
        _built_to_resume("wrong.ckpt")


def test_a_deep_file_of_the_user_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own" / "reward").mkdir(parents=True)
    for text in ("{a: " * 3000, "[" * 3000, "- " * 3000):
        (tmp_path / "own" / "reward" / "mine.yaml").write_text(text)
        code = command(navrl.train.main, "--config-dir", "own", "reward=mine")
        assert code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("navrl: error: ")
        json.dumps(line)
