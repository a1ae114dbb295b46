"""Compose conf/, turn configurations into JSON and back, and build objects from them."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from navrl.config.build import construct
from navrl.config.checks import ConfigError, did_you_mean, require
from navrl.config.plugins import allow_plugins
from navrl.config.stored import COMMAND, LOCAL, is_reference, plain_stored

_ABSENT = object()
SPELLINGS = {"evaluate": ("checkpoint", "env")}  # which that command takes besides its keys
_LAUNCHERS = "hydra/launcher"
# Their packages, by name.
LAUNCHERS = {
    **dict.fromkeys(("joblib", "submitit_local", "submitit_slurm"), "pip install 'navrl[launch]'"),
    "ray": "pip install 'navrl[ray]', then pip install --no-deps hydra-ray-launcher==1.2.2",
}
_BARE = {"evaluate": "checkpoint"}  # what a word without a key is likely to be
_SYNONYMS = {"gamma": "discount", "lr": "learning_rate"}  # what others call it

# Names the run directory: one value per composed configuration, so all jobs of a sweep share it.
OmegaConf.register_new_resolver(
    "run_id", lambda: secrets.token_hex(2), use_cache=True, replace=True
)


# The part of a help text with the options that belong to no group.
OmegaConf.register_new_resolver(
    "options_of", lambda config_name: _described(conf_dir() / f"{config_name}.yaml"), replace=True
)


def conf_dir() -> Path:
    """Return the directory of train.yaml: $NAVRL_CONF, else the installed copy, else the checkout."""
    chosen = os.environ.get("NAVRL_CONF")
    package = Path(__file__).resolve().parents[1]
    places = [Path(chosen).absolute()] if chosen else [package / "conf", package.parent / "conf"]
    for place in places:
        if (place / "train.yaml").is_file():
            return place
    looked = " or ".join(str(place) for place in places)
    raise FileNotFoundError(f"no train.yaml in {looked}; set NAVRL_CONF to the conf directory")


def _described(file: Path) -> str:
    """Return a line for every option of the file that has a comment: key, default and comment."""
    lines, parent = [], ""
    for line in file.read_text(encoding="utf-8").splitlines():
        found = re.match(r"( *)(\w+): *(.*?)  # (.*)", line)
        if found:
            indent, key, default, comment = found.groups()
            parent = parent if indent else "" if default else f"{key}."
            name = f"{parent if indent else ''}{key}{'=' if default else '.*'}{default}"
            lines.append(
                f"{name:<29} {comment}" if len(name) < 29 else f"{name}\n{'':<29} {comment}"
            )
    return "\n".join(lines)


def compose(config_name: str, overrides: Sequence[str] = ()) -> DictConfig:
    """Return the composed configuration, in struct mode and without Hydra's own node."""
    config = compose_all(config_name, overrides)
    with open_dict(config):
        del config["hydra"]
    return evaluated(config)


def evaluated(config: DictConfig) -> DictConfig:
    """Return the configuration with the results of its resolvers, such as ${oc.env:X}, in their places.

    It means the same anywhere then, and nothing of it may be evaluated once it was stored. Options of this
    installation, where passwords may be, are never read from a file and stay as they are.
    """
    config = config.copy()
    for key in config:
        if key not in (*LOCAL, *COMMAND):
            _evaluate(config, key)
    return config


def _evaluate(parent: Any, key: Any) -> None:
    """Evaluate the resolvers in the value of this key and in those inside it."""
    node = parent._get_node(key)
    if not OmegaConf.is_interpolation(parent, key):
        inside = node if OmegaConf.is_config(node) and not node._is_none() else ()
        for inner in range(len(inside)) if OmegaConf.is_list(inside) else inside:
            _evaluate(inside, inner)
    elif not is_reference(node._value()):
        value = to_plain(parent[key], resolve=True)
        _require_text(node._get_full_key(None), value)
        parent[key] = value


def _require_text(key: str, value: object) -> None:
    """Raise ConfigError about a text with ${, such as a folder's name, which is a reference once stored."""
    require("${" not in str(value), key, value, "a value or a name without ${")


def group_option(group: str, name: str) -> Any:
    """Return the YAML of one option of a group, with the defaults of everything else around it."""
    known = group_options(group)
    if name not in known:  # which a stored configuration may name, and ../ would lead out of conf/
        available = f"; available: {', '.join(known)}{did_you_mean(str(name), known)}"
        raise ConfigError(f"Unknown {group} {str(name)!r}{available}")
    return compose("train", [f"+{group}@option={name}"]).option


def group_options(group: str) -> list[str]:
    """Return the names of a group's options."""
    with _hydra_context():
        loader: Any = GlobalHydra.instance().config_loader()
        return sorted(loader.get_group_options(group))


def to_json(config: DictConfig) -> dict[str, Any]:
    """Return the configuration as plain data with unresolved interpolations, ready for json.dump."""
    return to_plain(config, resolve=False)


def from_json(data: Mapping[str, Any]) -> DictConfig:
    """Return the DictConfig of to_json's data, in struct mode, once `plain_stored` has checked it."""
    config = OmegaConf.create(plain_stored(data))
    OmegaConf.set_struct(config, True)
    return config


def compose_all(config_name: str, overrides: Sequence[str]) -> DictConfig:
    """Return the composed configuration with Hydra's node; a ConfigError explains mistakes."""
    allow_plugins(overrides)
    try:
        with _hydra_context():
            return hydra.compose(config_name, list(overrides), return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explain(error, config_name, overrides)) from error
    except (TypeError, ValueError) as error:  # Hydra's about a group that is no name
        raise ConfigError(_no_name(overrides) or one_line(error)) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"Cannot read a YAML file: {one_line(error)}") from error
    except (RecursionError, MemoryError) as error:
        raise ConfigError(
            "Cannot compose the configuration: a YAML file is nested too deeply or too large; expected files "
            "like those in conf/; change those of --config-dir or NAVRL_CONF"
        ) from error


def _no_name(overrides: Sequence[str]) -> str:
    """Return a sentence about the first group whose choice is no name, or nothing."""
    for each in _parsed(overrides):
        key, value = str(each.key_or_group), each.value()
        if not isinstance(value, str) and "." not in key and group_options(key):
            known = ", ".join(group_options(key))
            return f"{key} = {'null' if value is None else value}; expected one of {known}; change {key}"
    return ""


def overridden(config: DictConfig, overrides: Sequence[str]) -> tuple[DictConfig, dict[str, str]]:
    """Return a stored configuration with other options, and the groups that were replaced as a whole."""
    config = config.copy()
    groups, values = groups_and_values(overrides)
    for group, name in groups.items():
        if group not in config:
            raise ConfigError(
                f"env '{config.env.name}' has no {group}; leave {group}= out, or choose another env"
            )
        with open_dict(config):
            config[group] = group_option(group, name)
    for key, value in values.items():
        if OmegaConf.select(config, key, default=_ABSENT) is _ABSENT:
            known = [name for name, _ in dotted_items(to_json(config))]
            raise ConfigError(f"Unknown key '{key}'{did_you_mean(key, known)}")
        OmegaConf.update(config, key, value, merge=False)
    plain_stored(to_json(config))  # what is stored and what is typed may be too much together
    return config, groups


def groups_and_values(overrides: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the chosen options of groups, and the values of keys with their resolvers evaluated."""
    allow_plugins(overrides)
    groups: dict[str, str] = {}
    values: dict[str, Any] = {}
    for override in _parsed(overrides):
        key, value = override.key_or_group, override.value()
        if override.is_sweep_override() or override.is_add() or override.is_delete():
            raise ConfigError(f"Cannot apply '{override.input_line}' to a run; write key=value")
        if "." not in key and group_options(key):
            groups[key] = str(value)
        else:  # on its own: no resolver may see what is stored
            alone = OmegaConf.create({"value": value})
            values[key] = value if is_reference(value) else to_plain(alone.value, resolve=True)
            _require_text(key, "" if is_reference(value) else values[key])
    return groups, values


def _parsed(overrides: Sequence[str]) -> list[Override]:
    try:
        return OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise ConfigError(explain(error, "train")) from error


def _hydra_context() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which Hydra knows conf/; inside a command it does already."""
    if GlobalHydra.instance().is_initialized():
        return contextlib.nullcontext()
    return hydra.initialize_config_dir(version_base="1.3", config_dir=str(conf_dir()))


def explain(error: Exception, config_name: str, overrides: Sequence[str] = ()) -> str:
    """Return Hydra's error about an override as one sentence with a suggestion."""
    if isinstance(error, OverrideParseException):
        place = _BARE.get(config_name)
        if place and re.fullmatch(r"[\w/.:-]+", str(error.override)):
            return f"Cannot read '{error.override}'; did you mean '{place}={error.override}'?"
        return (
            f"Cannot read '{error.override}': write key=value, "
            "and quote values that hold spaces, commas or brackets"
        )
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        options = [str(name) for name in error.options or ()]
        known = f"; available: {', '.join(options)}" if options else ""
        if group == _LAUNCHERS and option in LAUNCHERS:
            return f"{group}={option} needs a package that is not installed; {LAUNCHERS[option]}"
        if group == "reward" and not any(word.startswith("reward=") for word in overrides):
            return (
                f"env={option} has no reward of its name; expected conf/reward/{option}.yaml beside "
                f"conf/env/{option}.yaml; add that file, or choose reward=..."
            )
        return f"Unknown {group or 'config'} '{option}'{known}{did_you_mean(option, options)}"
    refused = re.search(r"Could not override '([^']+)'", str(error))
    if refused:  # the cause knows what is missing inside of a value such as {a:1}
        key = getattr(error.__cause__, "full_key", None) or refused[1]
        return _unknown_key(key, refused[1], config_name, overrides)
    repeated = re.search(r"Multiple values for ([^ ]+)\. ", str(error))
    if repeated:
        return f"'{repeated[1]}' is chosen twice; write {repeated[1]}=... once, without a +"
    return one_line(error, error.__cause__)


def _unknown_key(key: str, written: str, config_name: str, overrides: Sequence[str]) -> str:
    """Return 'Unknown key ...' with the closest key or group of the command, given the other overrides."""
    if written.startswith("hydra.launcher."):
        return f"Unknown key '{written}' of this launcher; name the launcher too, as in {_LAUNCHERS}=joblib"
    env = [override for override in overrides if override.startswith("env=")]
    others = [
        override for override in overrides if override.lstrip("+~").partition("=")[0] != written
    ]
    if len(others) == len(overrides):
        return _changed_by_an_option(key, written, config_name, overrides)
    config = compose_all(config_name, others)  # raises in turn about the next that is wrong
    groups = [name for name in config.hydra.runtime.choices if not name.startswith("hydra/")]
    plain = to_plain(config, resolve=False)
    del plain["hydra"]
    homes = _homes(key, config_name) if "env" in groups else []
    if homes:
        return f"'{key}' is an option of env={', '.join(homes)}; choose another env, or leave {key}= out"
    having = _options_with(key, config_name, env)
    if having:
        choices = f"{key.partition('.')[0]}={', '.join(having)}"
        choose = "choose one of them" if having[1:] else "choose it"
        return f"'{key}' is an option of {choices}; {choose}, or leave {key}= out"
    if env and _is_known(key, config_name):
        return f"'{key}' is an option of other envs than {env[-1]}; leave it out, or choose another env"
    spelt = dict.fromkeys((*groups, *SPELLINGS.get(config_name, ())), "")
    known = {**spelt, **dict(dotted_items(plain))}
    place, _, leaf = key.rpartition(".")
    beside = [name.rpartition(".")[2] for name in known if name.rpartition(".")[0] == place]
    where = f" with {env[-1]}" if env else ""
    synonym = f"{place}{'.' * bool(place)}{_SYNONYMS.get(leaf, leaf)}"
    meant = f"; did you mean '{synonym}'?" if synonym in known else did_you_mean(key, list(known))
    hint = meant or f"; known{where}: {', '.join(sorted(beside or known))}"
    kind = "key" if "." in key else "option"
    return f"Unknown {kind} '{key}'{hint} (see: python -m navrl.{config_name} --help)"


def _changed_by_an_option(
    key: str, written: str, config_name: str, overrides: Sequence[str]
) -> str:
    """Explain a key that a chosen option changes, such as curriculum=league, and that does not exist."""
    asking = "a chosen option"
    for one in overrides:
        others = [override for override in overrides if override is not one]
        with _hydra_context(), contextlib.suppress(HydraException, OmegaConfBaseException):
            hydra.compose(config_name, others, return_hydra_config=True)
            asking = asking if one.startswith("env=") else one
    homes = _homes(key, config_name)
    of = f"is an option of env={', '.join(homes)}" if homes else "does not exist"
    return f"{asking} changes '{written}', which {of}; choose another env, or leave {asking} out"


def _homes(group: str, config_name: str) -> list[str]:
    """Return the envs that have this group, if it is one."""
    if "." in group or not group_options(group):
        return []
    return [name for name in group_options("env") if _is_known(group, config_name, [f"env={name}"])]


def _options_with(key: str, config_name: str, env: Sequence[str]) -> list[str]:
    """Return the options of a key's group that have this key, in the chosen env.

    As the options of collector for collector.threads.
    """
    group = key.partition(".")[0]
    if config_name != "train" or "." not in key or not group_options(group):
        return []
    return [
        name for name in group_options(group) if _is_known(key, "train", [*env, f"{group}={name}"])
    ]


def _is_known(key: str, config_name: str, overrides: Sequence[str] = ()) -> bool:
    """Return whether the command has the key or group with these overrides."""
    config = compose_all(config_name, overrides)
    known = OmegaConf.select(config, key, throw_on_missing=False, default=_ABSENT) is not _ABSENT
    return known or key in config.hydra.runtime.choices


def dotted_items(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key below node as 'agent.optimizer.learning_rate', with its value."""
    for name, value in node.items():
        yield f"{prefix}{name}", value
        if isinstance(value, Mapping):
            yield from dotted_items(value, f"{prefix}{name}.")


def to_plain(node: Any, *, resolve: bool) -> Any:
    """Return dicts, lists and scalars instead of OmegaConf containers."""
    if isinstance(node, (DictConfig, ListConfig)):
        return OmegaConf.to_container(node, resolve=resolve)
    return node


def one_line(*errors: BaseException | None) -> str:
    """Return the messages of the errors, joined into one line."""
    return " ".join(": ".join(_message(error) for error in errors if error is not None).split())


def _message(error: BaseException) -> str:
    """Return str(error) without the table of internals that OmegaConf adds."""
    if not isinstance(error, OmegaConfBaseException):
        return str(error)
    where = f" (in '{error.full_key}')" if error.full_key else ""
    return f"{str(error).splitlines()[0]}{where}"


def build(node: Any, *, from_checkpoint: bool = False) -> Any:
    """Build the object that a node with `_target_` describes (with `_partial_: true`, a partial of it).

    Nodes below it are built first; interpolations are resolved against the whole configuration.
    from_checkpoint refuses everything that could touch files: somebody else may have written it.
    """
    path = (node._get_full_key(None) or "config") if isinstance(node, DictConfig) else "config"
    written = to_plain(node, resolve=False)
    homes = {
        key: found[1]
        for key, value in dotted_items(written if isinstance(written, Mapping) else {}, f"{path}.")
        if (found := re.fullmatch(r"\$\{(\w+)\}", str(value)))
    }
    plain = to_plain(node, resolve=True)
    return construct(plain, path, from_checkpoint=from_checkpoint, homes=homes)
