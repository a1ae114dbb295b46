"""Enter a command: check its command line, compose its configuration, print errors as one sentence."""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, ValueType
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from navrl.config.build import is_ours
from navrl.config.checks import ConfigError, did_you_mean, printable
from navrl.config.compose import (
    SPELLINGS,
    compose_all,
    conf_dir,
    dotted_items,
    explain,
    one_line,
    to_plain,
)
from navrl.config.launchers import JobFailed, JobStopped, unless_stopped, waiting_for_jobs
from navrl.config.plugins import add_folder, allow_plugins
from navrl.config.signals import Stopped, ending_with_reader, number_of, stoppable

# Sweeps whose values are known beforehand; glob() and interval() are left to the sweeper.
_LISTED_SWEEPS = (ValueType.SIMPLE_CHOICE_SWEEP, ValueType.CHOICE_SWEEP, ValueType.RANGE_SWEEP)
_SET = "; write key=value without --set"


def run_main(
    function: Callable[[DictConfig], float | None],
    config_name: str,
    arguments_of: Callable[[list[str]], list[str]] = list,
) -> None:
    """Run function(config) as a Hydra command; bad input ends it with one sentence on stderr.

    `arguments_of` turns the words of the command line into those for Hydra.
    Exit codes: 0 done, 1 failed while running, 2 wrong command line (nothing was created).
    """
    warnings.formatwarning = _warning_text
    try:
        with stoppable(), ending_with_reader():
            allow_plugins(sys.argv[1:])
            sys.argv[1:] = arguments_of(sys.argv[1:])
            launcher = _check_command_line(config_name, sys.argv[1:])
            conf = str(conf_dir())
            main = hydra.main(version_base="1.3", config_path=conf, config_name=config_name)
            with waiting_for_jobs(launcher):
                main(reporting(function))()
    except KeyboardInterrupt as interrupt:
        sys.exit(_interrupted(interrupt))
    except (
        ValueError,
        OSError,
    ) as error:  # ours, or Hydra's about its flags; jobs report their own
        if _debugging():
            raise
        _report(_sentence(error) or one_line(error))
        sys.exit(1 if isinstance(error, OSError) else 2)


def run_plain(
    parser: argparse.ArgumentParser,
    function: Callable[[argparse.Namespace], int | None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run function(options) as a command with flags of its own; return the exit code, as in run_main."""
    warnings.formatwarning = _warning_text
    inner = _subparsers(parser)
    for each in (parser, *inner):
        each.allow_abbrev = False
        # A subparser leaves a flag that it does not know to its parent, who complains.
        parsers = (each, *inner) if each is parser else (each,)
        actions = [action for found in parsers for action in found._actions]
        flags = [flag for action in actions for flag in action.option_strings]
        refuse = functools.partial(_refuse_flags, each.prog, flags)
        setattr(each, "error", refuse)  # noqa: B010  (argparse would print its usage and exit)
    try:
        # Intermixed: words may stand before, between and after flags. Subcommands do not support it.
        parse = parser.parse_args if inner else parser.parse_intermixed_args
        with stoppable(), ending_with_reader():
            options = parse(arguments)
            if getattr(options, "config_dir", None) is not None:
                add_folder(options.config_dir)
            return function(options) or 0
    except KeyboardInterrupt as interrupt:
        return _interrupted(interrupt)
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None or _debugging():
            raise
        _report(sentence)
        return _exit_code(error)


def split_overrides(words: Sequence[str], config_name: str) -> tuple[list[str], list[str]]:
    """Return the words for this command, and the options of navrl train that it does not have itself."""
    own_config, train = compose_all(config_name, ()), compose_all("train", ())
    own = {*own_config, *own_config.hydra.runtime.choices, *SPELLINGS.get(config_name, ())}
    groups = [folder.name for folder in conf_dir().iterdir() if folder.is_dir()]
    others = {*train, *groups} - {"hydra"}
    chosen = {word.partition("=")[0] for word in words}
    mine: list[str] = []
    overrides: list[str] = []
    for word in words:
        key = word.lstrip("+~").partition("=")[0]
        root = key.partition(".")[0]
        is_own = key in own or (root in own and root in chosen and root != "env")
        (overrides if "=" in word and root in others and not is_own else mine).append(word)
    return mine, overrides


def _subparsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return the parsers of its actions, as in `navrl checkpoint ls`."""
    return [
        each
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for each in action.choices.values()
    ]


def _refuse_flags(program: str, flags: Sequence[str], message: str) -> None:
    """Raise argparse's error as one sentence."""
    words = message.split()
    unknown = next((word.rstrip(":") for word in words if word.startswith("--")), "")
    hint = "" if unknown in flags else did_you_mean(unknown.partition("=")[0], flags)
    if unknown == "--set":
        hint = _SET
    raise ConfigError(f"{' '.join(words)}{hint} (see: {program} --help)")


def _check_command_line(config_name: str, arguments: Sequence[str]) -> str:
    """Raise one sentence about anything wrong with the arguments, before anything is created.

    Return the class of the launcher, nothing without a sweep.
    """
    options = _parse_flags(config_name, arguments)
    if options.help or options.hydra_help or options.shell_completion:
        return ""
    extra = []
    if options.config_dir is not None:
        extra = [f"hydra.searchpath=['file://{Path(options.config_dir).absolute()}']"]
    name = options.config_name or config_name
    config, sweeps = _compose_first_job(name, options.overrides, extra)
    multirun = options.multirun or config.hydra.mode is RunMode.MULTIRUN
    if sweeps and not multirun:
        raise ConfigError(
            f"'{sweeps[0].input_line}' lists several values: add -m to run one job for each, "
            f"or write {sweeps[0].key_or_group}=[...] to pass a list"
        )
    if options.cfg is None and options.info is None:
        check_can_start(config, multirun=multirun)
    return str(config.hydra.launcher["_target_"]) if multirun else ""


def _parse_flags(config_name: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Return Hydra's flags and the overrides; raise about flags that are refused."""
    parser = get_args_parser()
    parser.allow_abbrev = False
    flags = [flag for action in parser._actions for flag in action.option_strings]
    refuse = functools.partial(_refuse_arguments, config_name, flags)
    setattr(parser, "error", refuse)  # noqa: B010  (argparse would print its usage and exit)
    options = parser.parse_args(arguments)
    if options.experimental_rerun is not None:
        raise ConfigError("--experimental-rerun is refused: it unpickles a file, which runs code")
    if options.config_path is not None:
        raise ConfigError("--config-path is refused: use --config-dir DIR or NAVRL_CONF=DIR")
    if options.resolve and options.cfg is None:
        raise ConfigError("--resolve only goes with --cfg, as in --cfg job --resolve")
    if options.config_dir is not None and not Path(options.config_dir).is_dir():
        raise ConfigError(f"--config-dir '{options.config_dir}' is not a directory")
    return options


def _refuse_arguments(config_name: str, flags: Sequence[str], message: str) -> None:
    """Raise argparse's error as one sentence."""
    words = message.split()
    hint = did_you_mean(words[-1], flags)
    unknown = next((word for word in words if word.startswith("--")), "").partition("=")[0][2:]
    known = compose_all(config_name, ())
    if unknown in known or unknown in known.hydra.runtime.choices:
        hint = f"; write {unknown}=... without dashes"
    elif unknown == "set":
        hint = _SET
    elif "=" in words[-1]:
        hint = "; write flags such as -m before the first key=value"
    raise ConfigError(f"{' '.join(words)}{hint} (see: python -m navrl.{config_name} --help)")


def _compose_first_job(
    config_name: str, lines: Sequence[str], extra: Sequence[str]
) -> tuple[DictConfig, list[Override]]:
    """Return the first job's configuration, and the sweeps; try every swept group option."""
    try:
        overrides = OverridesParser.create().parse_overrides(list(lines))
    except HydraException as error:
        raise ConfigError(explain(error, config_name)) from error
    sweeps = [override for override in overrides if override.is_sweep_override()]
    listed = [item for item in sweeps if item.value_type in _LISTED_SWEEPS]
    values = {
        str(item.input_line): [
            f"{item.get_key_element()}={x}" for x in item.sweep_string_iterator()
        ]
        for item in listed
    }
    fixed = [str(item.input_line) for item in overrides if item not in sweeps] + list(extra)
    first = {line: jobs[0] for line, jobs in values.items()}
    config = compose_all(config_name, [*fixed, *first.values()])
    for item in listed:
        if item.key_or_group in config.hydra.runtime.choices:
            for job in values[str(item.input_line)][1:]:
                compose_all(config_name, [*fixed, *{**first, str(item.input_line): job}.values()])
    return config, sweeps


def check_can_start(config: DictConfig, *, multirun: bool) -> None:
    """Raise if a mandatory value is missing or the output directory cannot be made."""
    plain = to_plain(config, resolve=False)
    del plain["hydra"]
    for key, value in dotted_items(plain):
        if value == "???":
            raise ConfigError(f"'{key}' needs a value: add {key}=...")
    try:
        output = Path(config.hydra.sweep.dir if multirun else config.hydra.run.dir).absolute()
    except OmegaConfBaseException as error:
        raise ConfigError(f"The output directory has no name: {one_line(error)}") from error
    if "${" in str(output):  # Hydra writes it into the configuration, where that is a reference
        raise ConfigError(
            f"hydra.run.dir = {output}; expected a folder without ${{ in its name; change hydra.run.dir, or "
            "work in another folder"
        )
    try:
        if output.exists() and not output.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is a file")
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent):
            pass  # the run itself makes `output`; it could
    except OSError as error:
        reason = f"cannot create the output folder ({error.strerror})"
        raise OSError(error.errno, reason, str(output)) from error


def reporting(function: Callable[[DictConfig], float | None]) -> Callable[[DictConfig], Any]:
    """Return the function as a job that ends without a traceback if the message explains the error."""

    @functools.wraps(function)
    def job(config: DictConfig) -> float | None:
        try:
            return unless_stopped(function, config)
        except JobStopped:
            raise
        except Exception as error:
            sentence = _sentence(error)
            if sentence is None or _debugging():
                raise
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                raise JobFailed(f"navrl: error: {printable(sentence)}") from error
            _report(sentence)
            raise SystemExit(_exit_code(error)) from error

    return job


def _sentence(error: BaseException) -> str | None:
    """Return the error in one line if it was written for the user, None if it is a bug to trace."""
    if isinstance(error, OmegaConfBaseException) or is_ours(type(error).__module__):
        return one_line(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: '{error.filename}'" if error.filename else error.strerror
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_by_us = trace is not None and is_ours(trace.tb_frame.f_globals.get("__name__", ""))
    if raised_by_us and isinstance(error, (ValueError, OSError, ImportError)):
        return one_line(error)
    return None


def _exit_code(error: Exception) -> int:
    """Return 2 for a wrong command line, 1 for a failure while running."""
    return 2 if isinstance(error, (ValueError, FileNotFoundError)) else 1


def _interrupted(interrupt: KeyboardInterrupt) -> int:
    """Print the message of a signal and return its exit code."""
    sentence = str(interrupt) or str(Stopped(signal.SIGINT))
    with contextlib.suppress(OSError):  # a terminal that hung up
        sys.stderr.write(f"navrl: {sentence}\n")
    return 128 + number_of(interrupt)


def _report(sentence: str) -> None:
    """Print an error."""
    sys.stderr.write(f"navrl: error: {printable(sentence)}\n")


def _warning_text(message: Warning | str, *_: object, **__: object) -> str:
    """Return a warning as a sentence for the user, without the source line that Python adds."""
    return f"navrl: warning: {printable(message)}\n"


def _debugging() -> bool:
    """Return whether tracebacks are wanted."""
    return "1" in (os.environ.get("NAVRL_DEBUG"), os.environ.get("HYDRA_FULL_ERROR"))
