"""Compilation: a fallback with one warning under auto, one sentence under on, and equal numbers."""

import functools
import os
import shutil
import subprocess
import sys
import time
import warnings

import pytest
import torch
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache, check_node_safe
from torch._inductor.exc import InductorError, InvalidCxxCompiler
from torch._inductor.utils import run_and_get_code
from torch.fx.experimental.proxy_tensor import make_fx

import navrl.envs.core.compiling
from navrl.config.compose import build
from navrl.envs.core.compiling import (
    Compiled,
    CompiledGradients,
    CompiledSample,
    _masks_where_used,
    eager_at_first,
    next_iteration,
)
from tests.envs.conftest import configuration
from tests.envs.playing import observed, play, random_actions, stacked

FAILURES = {
    "no compiler": InductorError(InvalidCxxCompiler("g++"), None),
    "unsupported": RuntimeError("torch.compile is not supported here\nand a long story"),
    "no cache": OSError("Read-only file system"),
    "many graphs": FailOnRecompileLimitHit("Hard failure"),
}


def double(x):
    return 2.0 * x


def _seeded(seed):
    return torch.Generator().manual_seed(seed)


def break_compilation(monkeypatch, error, *, at_first_call):
    """torch.compile raises, at once or, as it mostly does, when the function is first called."""

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(torch, "compile", (lambda *_, **__: fail) if at_first_call else fail)


@pytest.mark.parametrize(
    ("failure", "at_first_call"), [*((name, True) for name in FAILURES), ("unsupported", False)]
)
def test_auto_runs_eager_after_one_warning(monkeypatch, failure, at_first_call):
    break_compilation(monkeypatch, FAILURES[failure], at_first_call=at_first_call)
    function = Compiled(double, "auto")
    with pytest.warns(UserWarning, match="runs eager") as caught:
        results = [function(torch.full((2,), float(n))).tolist() for n in (1, 2, 3)]
    assert results == [[2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]
    (warning,) = caught
    assert "\n" not in str(warning.message)


@pytest.mark.parametrize(
    ("failure", "compiler"), [("no compiler", None), ("unsupported", "/usr/bin/g++")]
)
def test_on_refuses_in_one_plain_sentence(monkeypatch, failure, compiler):
    break_compilation(monkeypatch, FAILURES[failure], at_first_call=True)
    monkeypatch.setattr(shutil, "which", lambda _: compiler)
    with pytest.raises(RuntimeError, match=r"; (.* or )?use compile=auto$") as refused:
        Compiled(double, "on")(torch.ones(2))
    assert "\n" not in str(refused.value)
    assert ("install g++" in str(refused.value)) == (compiler is None)


def test_an_env_of_several_compiled_functions_warns_once(monkeypatch):
    break_compilation(monkeypatch, FAILURES["no compiler"], at_first_call=True)
    env = build(configuration("env=combat", "compile=auto").env)(num_envs=2, device="cpu", seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")  # what Python does with a UserWarning
        play(env, random_actions(env, 3))
    assert ["runs eager" in str(warning.message) for warning in caught] == [True]


def test_a_mistake_in_the_function_is_no_compilation_failure(monkeypatch):
    break_compilation(monkeypatch, KeyError("thrust"), at_first_call=True)
    with pytest.raises(KeyError, match="thrust"):
        Compiled(double, "auto")(torch.ones(2))


def test_a_gradient_step_in_bf16_is_kept_for_the_next_process():
    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ x).float().sum()

    kept = CompiledGradients(step, "on")._options()["unsafe_marked_cacheable_functions"]
    seen = []

    def backend(graph, _):
        seen.extend(graph.graph.nodes)
        with torch._inductor.config.patch(unsafe_marked_cacheable_functions=kept):
            for node in seen:
                check_node_safe(node)
        return graph.forward

    torch.compile(step, backend=backend, fullgraph=True)(torch.ones(2, 2))
    with pytest.raises(BypassAOTAutogradCache):  # what is named there is needed
        [check_node_safe(node) for node in seen]


@pytest.mark.parametrize(
    ("lookup", "expected"), [("hit", True), ("miss", False), ("bypass", False)]
)
def test_a_compilation_is_recorded(monkeypatch, lookup, expected):
    def slow(*args):
        torch._dynamo.utils.counters["inductor"][f"fxgraph_cache_{lookup}"] += 1
        time.sleep(0.01)
        return double(*args)

    monkeypatch.setattr(navrl.envs.core.compiling, "compilations", found := [])
    monkeypatch.setattr(torch, "compile", lambda *_, **__: slow)
    function = Compiled(double, "auto")
    for _ in range(2):
        function(torch.ones(2))
    ((name, seconds, cached, _),) = found
    assert (name, cached) == ("the simulator step", expected)
    assert 0.01 <= seconds < 10.0


@pytest.mark.parametrize(
    ("kind", "done", "expected"),
    [
        (Compiled, 0, [1, 2]),
        (Compiled, 2, []),
        (CompiledSample, 0, [1, 2]),
        (CompiledGradients, 1, [2]),
    ],
)
def test_a_training_runs_its_first_iterations_eager(monkeypatch, kind, done, expected):
    """Whichever process begins there: an iteration is eager by its number in the run."""
    eager, function = [], kind(double, "auto")
    monkeypatch.setattr(torch, "compile", lambda *_, **__: lambda *args: double(*args) + 1.0)
    with eager_at_first(done):
        for iteration in range(done + 1, 7):
            result = {function(torch.ones(2))[0].item() for _ in range(2)}
            assert len(result) == 1
            eager += [iteration] * (result == {2.0})
            next_iteration()
    assert eager == expected
    assert kind(double, "auto")(torch.ones(2))[0] == 3.0  # outside it compiles at once


def test_off_never_compiles(monkeypatch):
    break_compilation(monkeypatch, AssertionError("compiled"), at_first_call=False)
    assert Compiled(double, "off")(torch.ones(2)).tolist() == [2.0, 2.0]


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="compile = always; expected one of auto, on, off"):
        Compiled(double, "always")


def test_yaml_reads_on_and_off_as_truth_values():
    assert [Compiled(double, mode).mode for mode in (True, False)] == ["on", "off"]


def test_a_step_carries_no_gradient_and_gradients_are_made():
    weight = torch.ones(2, requires_grad=True)
    assert not Compiled(double, "off")(weight).requires_grad

    def gradient(x):
        return torch.autograd.grad(double(x).sum(), x)

    assert CompiledGradients(gradient, "off")(weight)[0].tolist() == [2.0, 2.0]


def test_many_envs_in_one_process_do_not_share_a_limit(monkeypatch):
    class Simulator:
        def step(self, x):
            return 2.0 * x

    # Dynamo as it is, without the seconds that the C++ compiler takes.
    eager_backend = functools.partial(torch.compile, backend="eager")
    monkeypatch.setattr(torch, "compile", lambda f, options, **how: eager_backend(f, **how))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in range(2, 2 + torch._dynamo.config.recompile_limit + 3):
            simulator = Simulator()
            doubled = Compiled(simulator.step, "on")(torch.ones(size))
            assert doubled.tolist() == [2.0] * size


def test_masks_that_would_double_at_every_step_stay_as_they_are():
    def doubling(x):
        mask = x > 0.0
        for _ in range(steps):
            mask = (mask & (x < 9.0)) | (mask & (x > -9.0))
        return mask.float()

    sizes = {}
    for steps in (1, 40):
        graph = make_fx(doubling)(torch.ones(4)).graph
        before = len(graph.nodes)
        _masks_where_used()(graph)
        sizes[steps] = len(graph.nodes) - before
    # One step copies the first mask once. Forty would copy 2^40 - 1 masks.
    assert sizes == {1: 1, 40: 0}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiles")
def test_a_mask_is_computed_where_it_is_used_instead_of_stored():
    def step(x, y):
        mask = (x > 0.0) & (y < x)
        return (
            mask.where(x > y.amax(0), x < y).float(),
            x.where(mask, y).amax(0),
            y.where(mask, 0).sum(1),
        )

    x, y = (torch.randint(-9, 9, (32, 64), generator=_seeded(seed)).float() for seed in (1, 2))
    found, codes = run_and_get_code(Compiled(step, "on"), x, y)
    assert all(map(torch.equal, found, step(x, y)))  # of whole numbers, so in any order of sums
    assert "float*" in codes[0]
    assert "bool*" not in codes[0]


@pytest.mark.commands
def test_a_machine_without_a_compiler_trains_eager(tmp_path):
    program = (
        "import torch\n"
        "from navrl.envs.core.compiling import Compiled\n"
        "print(Compiled(lambda x: 2.0 * x.sin(), 'auto')(torch.zeros(4)).tolist())\n"
        "Compiled(lambda x: 2.0 * x.sin(), 'on')(torch.zeros(4))\n"
    )
    environment = {**os.environ, "CXX": "/nonexistent", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "[0.0, 0.0, 0.0, 0.0]"
    assert done.stderr.count("the simulator step runs eager") == 1
    assert done.stderr.splitlines()[-1].startswith(
        "RuntimeError: the simulator step does not compile"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "fight",
    [(), ("env.team_size=2", "observation=entities", "action=continuous", "env.sim.tick_s=0.25")],
    ids=["one against one", "two against two"],
)
def test_compiled_combat_agrees_with_eager(fight):
    overrides = ("opponent=crank", "scenario.range_m=[10000,30000]", *fight)
    eager, compiled = (
        build(configuration("env=combat", *overrides, f"compile={mode}").env)(
            num_envs=256, device="cpu", seed=0
        )
        for mode in ("off", "on")
    )
    actions = random_actions(eager, 50)
    one, two = (stacked(play(env, actions)) for env in (eager, compiled))
    seen = zip(
        observed(eager, one["next"]).values(), observed(compiled, two["next"]).values(), strict=True
    )
    difference = torch.cat([(mine - theirs).abs() for mine, theirs in seen], -1)
    # Rounding decides a few near misses and launches differently, and everything after them.
    agrees = difference.amax((1, 2)) < 1e-3
    assert agrees.float().mean() > 0.9
    assert torch.equal(one["next", "done"][agrees], two["next", "done"][agrees])
    assert one["next", "done"].any()
