"""`navrl check-env`: try a world and say in plain sentences what is wrong with it."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl.config.checks import ConfigError, require_whole
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, show, take_words
from navrl.config.compose import compose
from navrl.envs.core.calls import READS_ON_HOST, message_of, users_place
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.validation import check_step
from navrl.run.build import build_env
from navrl.run.device import prepare_process
from navrl.view.world_recording import draw

NUM_ENVS, FEW, FIRST = 64, 7, 3  # in all, in a smaller batch, and the first of a batch of others
_PAIR_STEPS = 30  # of comparisons
_CLOSE = 1e-5  # of numbers that differ in rounding only
_POSITIONAL = ("NAME", "a world: what env= chooses; default: combat")
_SETTINGS = {
    "steps": Setting(1000, "within which an episode has to end; default: 1000"),
    "seed": Setting(0, "of the episodes and of the random actions; default: 0"),
}
_OVERRIDES = "options of navrl train: plugins=[mylab], env.horizon=50, observation=entities, ..."
_EXAMPLES = """  navrl check-env coverage
  navrl check-env reach plugins=[mylab]
  navrl check-env env=combat env.team_size=2 observation=entities
  navrl check-env gym env.id=CartPole-v1"""

Make = Callable[..., Any]  # make(num_envs=, seed=, first_env_id=) -> env
Check = Callable[["Trial"], str]  # what is so; raises ConfigError about what is not


class Trial(NamedTuple):
    """A world under random actions."""

    make: Make
    env: Any
    seed: int
    steps: int
    actions: list[Tensor]  # of all steps that two worlds are compared for
    frames: list[TensorDictBase]  # what `env` did under them, the opening first

    def other(self, **options: int) -> contextlib.closing[Any]:
        """Return one more such world with these options, which is closed with the context."""
        return contextlib.closing(self.make(**{"num_envs": NUM_ENVS, "seed": self.seed, **options}))


class Line(NamedTuple):
    """One line of the result: ok, note or WRONG."""

    mark: str
    text: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl check-env`; return 1 if something is wrong with the world."""
    parser = command_parser(
        "check-env",
        __doc__.partition(": ")[2],
        _EXAMPLES,
        positional=_POSITIONAL,
        settings=_SETTINGS,
        overrides=_OVERRIDES,
    )
    return run_plain(parser, check_env, arguments)


def check_env(options: argparse.Namespace) -> int:
    """Print a line for every check, and a picture of a world that passes."""
    take_words(options, _SETTINGS, positionals=1)
    require_whole("steps", options.steps, 1)
    require_whole("seed", options.seed, 0)
    chosen = [f"env={name}" for name in options.positionals]
    config = compose("train", [*chosen, *options.overrides])
    prepare_process(config.threads)
    make = partial(build_env, config, compile_mode="off", from_checkpoint=False)
    wrong = False
    show(f"env={config.env.name}, {NUM_ENVS} envs under random actions\n")
    for line in examine(make, seed=options.seed, steps=options.steps):
        show(f"{line.mark:<6} {line.text}\n")
        sys.stdout.flush()
        wrong = wrong or line.mark == "WRONG"
    return int(wrong)


def examine(make: Make, *, seed: int, steps: int) -> Iterator[Line]:
    """Yield a line for each check of the world that `make` makes; stop where it cannot be stepped."""
    with contextlib.ExitStack() as stack:
        try:
            env, noted = _built(make, seed)
            stack.callback(env.close)
            trial = _begun(make, env, seed, steps)
        except ConfigError as error:
            yield Line("WRONG", str(error))
            return
        for sentence in noted:
            yield Line("WRONG" if READS_ON_HOST in sentence else "note", sentence)
        ours = isinstance(env, BatchedEnv)
        if ours:
            yield Line("ok", "what the hooks return has the right types and shapes")
        draws = ours and type(env).draw is not BatchedEnv.draw
        for check in (*_ANY_WORLD, *(_OURS if ours else ()), *(_DRAWING if draws else ())):
            yield _checked(check, trial)
        if not ours:
            left = "batch size, order and saved states are not checked: the world is from elsewhere"
            yield Line("note", left)
        yield from _picture(env)


def _checked(check: Check, trial: Trial) -> Line:
    try:
        with warnings.catch_warnings(action="ignore"), _errors_of_users():  # warned of above
            return Line("ok", check(trial))
    except OddError as error:
        return Line("note", str(error))
    except ConfigError as error:
        return Line("WRONG", str(error))


def _built(make: Make, seed: int) -> tuple[Any, list[str]]:
    """Return an env, and what is odd about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = make(num_envs=NUM_ENVS, seed=seed)
    noted = [str(warning.message) for warning in caught]
    noted += check_step(env) if isinstance(env, BatchedEnv) else []
    return env, [*dict.fromkeys(noted)]


def _begun(make: Make, env: Any, seed: int, steps: int) -> Trial:
    """Play the env."""
    torch.manual_seed(seed)
    spec = env.full_action_spec[env.action_key]
    actions = [spec.rand() for _ in range(_PAIR_STEPS)]
    with _errors_of_users():
        return Trial(make, env, seed, steps, actions, played(env, actions, seed))


@contextlib.contextmanager
def _errors_of_users() -> Iterator[None]:
    """Raise ConfigError about an error in a user's code."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        place = users_place(error)
        if place is None:
            raise
        reason = f"{type(error).__name__}: {message_of(error)}"
        raise ConfigError(f"random actions end in {reason}; change {place}") from error


class OddError(ConfigError):
    """Something that is odd, but may be meant."""


# ---- checks --------------------------------------------------------------------------------------


def _finite(trial: Trial) -> str:
    for step, frame in enumerate(trial.frames):
        for key, leaf in _leaves(frame).items():
            if leaf.is_floating_point() and not bool(torch.isfinite(leaf).all()):
                raise ConfigError(
                    f"{key} is NaN or infinite after {step} steps; expected finite numbers; change the hook "
                    "that computes it"
                )
    return f"all numbers are finite in {len(trial.frames) - 1} steps"


def _ends(trial: Trial) -> str:
    """Play until an episode of every env has ended, and measure the speed."""
    env = trial.env
    length = env.episode_keys.index("length")
    spec, root, lengths, steps = env.full_action_spec[env.action_key], env.reset(), [], 0
    running = torch.ones(env.batch_size, dtype=torch.bool, device=env.device)
    began = time.perf_counter()
    while bool(running.any()) and steps < trial.steps:
        frame, root = env.step_and_maybe_reset(root.set(env.action_key, spec.rand()))
        ended = frame["next", "done"].squeeze(-1)
        lengths += frame["next", "episode"][ended & running, length].tolist()
        running, steps = running & ~ended, steps + 1
    speed = steps * NUM_ENVS / (time.perf_counter() - began)
    if not lengths:
        raise ConfigError(
            f"no episode has ended within {steps} steps; expected an end by judge(state) or by env.horizon; "
            f"change one of them, or check longer: steps={10 * steps}"
        )
    unfinished = f", {int(running.sum())} envs go on after {steps} steps" if running.any() else ""
    mean = sum(lengths) / len(lengths)
    return (
        f"episodes end: after {mean:.1f} steps on average of {len(lengths)}{unfinished}; "
        f"{speed:,.0f} steps/s (eager, {NUM_ENVS} envs)"
    )


def _same_seed(trial: Trial) -> str:
    with trial.other() as env:
        again = played(env, trial.actions, trial.seed + 1)
    differs = _difference(trial.frames, again)
    if differs:
        raise ConfigError(
            f"the same seed gives other episodes: {differs}; expected all random numbers from the episode's "
            "key; draw with navrl.envs.core.random, not with torch.rand or numpy"
        )
    return "the same seed gives the same episodes"


def _other_seed(trial: Trial) -> str:
    with trial.other(seed=trial.seed + 1) as env:
        other = played(env, trial.actions, trial.seed)
    if not _difference(trial.frames, other):
        raise OddError(
            "another seed gives the same episodes; expected others unless nothing is random; draw in "
            "initial(key) with navrl.envs.core.random"
        )
    return "another seed gives other episodes"


def _batch(trial: Trial) -> str:
    for first in (0, FIRST):
        rows = slice(first, first + FEW)
        with trial.other(num_envs=FEW, first_env_id=first) as env:
            few = played(env, [action[rows] for action in trial.actions], trial.seed)
        whole = [frame[rows] for frame in trial.frames]
        differs = _difference(whole, few)
        if not differs:
            continue
        if not _difference(whole, few, _CLOSE):
            raise OddError(
                f"envs {first} to {first + FEW - 1} play slightly other episodes alone than in a batch of "
                f"{NUM_ENVS}: {differs}, by rounding; sum with navrl.envs.core.reductions for the same bits"
            )
        raise ConfigError(
            f"envs {first} to {first + FEW - 1} play other episodes alone than in a batch of {NUM_ENVS}: "
            f"{differs}; expected episodes that depend on the env's own key only; change what reads the "
            "number or the order of the envs"
        )
    return f"an env plays the same episode in a batch of {FEW} and of {NUM_ENVS}, at any place"


def _own_action(trial: Trial) -> str:
    """Give one env other actions: no other env may notice, and the env itself should."""
    torch.manual_seed(trial.seed + 1)
    spec = trial.env.full_action_spec[trial.env.action_key]
    others = [action.clone() for action in trial.actions]
    for action in others:
        action[0] = spec.rand()[0]
    with trial.other() as env:
        changed = played(env, others, trial.seed)
    differs = _difference([f[1:] for f in trial.frames], [f[1:] for f in changed])
    if differs:
        raise ConfigError(
            f"envs share a state: another action in env 0 changes other envs: {differs}; expected envs that "
            "know nothing of each other; change what adds, averages or indexes over the last axis"
        )
    if not _difference([f[:1] for f in trial.frames], [f[:1] for f in changed]):
        raise OddError(
            "another action changes nothing: the step ignores it; expected a state that depends on the "
            "action; change advance(state, action)"
        )
    return "an action changes its own env and no other"


def _saved(trial: Trial) -> str:
    half = _PAIR_STEPS // 2
    with trial.other() as env, trial.other(seed=trial.seed + 1) as other:
        root = played(env, trial.actions[:half], trial.seed)[-1]
        other.load_runtime_state(env.runtime_state())
        root = root.exclude("reward", ("agents", "reward"))
        rest = played(other, trial.actions[half:], trial.seed, root)
    differs = _difference(trial.frames[half + 1 :], rest[1:])
    if differs:
        raise ConfigError(
            f"a saved state goes on otherwise: {differs} of the rest; expected everything that changes to be "
            "in the state; move what is kept in self into the NamedTuple"
        )
    return "a saved state goes on as it would have"


def _drawn(trial: Trial) -> str:
    with trial.other() as env:
        root = env.reset()
        kinds = draw(env, 0).kinds
        for step, action in enumerate(trial.actions, start=1):
            _, root = env.step_and_maybe_reset(root.set(env.action_key, action))
            draw(env, step, kinds)
    return f"draw(state) gives a picture of every state: {', '.join(kinds) or 'nothing'}"


_ANY_WORLD: tuple[Check, ...] = (_finite, _same_seed, _ends)
_OURS: tuple[Check, ...] = (_other_seed, _batch, _own_action, _saved)
_DRAWING: tuple[Check, ...] = (_drawn,)


# ---- playing and comparing -----------------------------------------------------------------------


def played(
    env: Any, actions: Sequence[Tensor], seed: int, root: TensorDictBase | None = None
) -> list[TensorDictBase]:
    """Return the first frame, and what followed on each of the actions."""
    torch.manual_seed(seed)  # of what draws from torch's generator and should not
    root = env.reset() if root is None else root
    frames = [root]
    with set_exploration_type(ExplorationType.DETERMINISTIC):  # of opponents that are policies
        for action in actions:
            frame, root = env.step_and_maybe_reset(root.copy().set(env.action_key, action))
            frames.append(frame["next"])
    return frames


def _leaves(frame: TensorDictBase) -> dict[str, Tensor]:
    """Return the tensors of a frame by their names with slashes; an action is no outcome."""
    keys = [(key,) if isinstance(key, str) else key for key in frame.keys(True, True)]
    return {"/".join(key): frame.get(key) for key in keys if key[-1] != "action"}


def _difference(
    expected: Sequence[TensorDictBase], found: Sequence[TensorDictBase], close: float = 0.0
) -> str:
    """Return which leaf differs first and when, or nothing."""
    for step, (one, other) in enumerate(zip(expected, found, strict=True)):
        theirs = _leaves(other)
        for key, leaf in _leaves(one).items():
            if not torch.allclose(
                leaf.double(), theirs[key].double(), close, close, equal_nan=True
            ):
                return f"{key} differs after {step} steps"
    return ""


def _picture(env: Any) -> Iterator[Line]:
    spec = env.observation_spec
    names = sorted(spec.keys(True, True), key=str)
    for name in names:
        if name == "episode":  # of our own statistics
            continue
        key = (name,) if isinstance(name, str) else name
        leaf = spec[name]
        yield Line("", f"{'/'.join(key):<32} {_shape(leaf)}  {_dtype(leaf)}")
    action = env.full_action_spec[env.action_key]
    yield Line("", f"{'action':<32} {_shape(action)}  {type(action).__name__}, {_dtype(action)}")
    shown = [key for key in env.episode_keys if not key.startswith("_")]
    yield Line("", f"{'statistics':<32} {', '.join(shown)}")


def _shape(spec: Any) -> str:
    """Return the shape of a leaf in one env."""
    return str(tuple(spec.shape[1:]))


def _dtype(spec: Any) -> str:
    return str(spec.dtype).removeprefix("torch.")
