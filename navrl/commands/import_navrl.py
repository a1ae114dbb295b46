"""`navrl import-navrl`: convert the published weights of NavRL into a checkpoint, and back."""

from __future__ import annotations

import argparse
import io
import pickletools
import re
import struct
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from navrl.config.checks import ConfigError, require_writable
from navrl.config.command import run_plain
from navrl.config.command_line import command_parser
from navrl.config.compose import compose, dotted_items, from_json, to_json
from navrl.config.quoting import override, shell_line, shown_path
from navrl.run.build import build_agent, build_env, load_agent
from navrl.run.stored_files import require_no_files
from navrl.storage.checkpoint import load_policy_state, write_state
from navrl.storage.files import read_foreign, write_atomically
from navrl.storage.find import OUTPUTS, find
from navrl.storage.schema import check_finite

_EXAMPLES = """  navrl import-navrl navrl_checkpoint.pt
  navrl evaluate checkpoint=navrl_checkpoint.ckpt
  navrl import-navrl --export outputs/latest --output trained.pt

The import writes a checkpoint of env=navigation_compat agent=ppo_navrl, for evaluation. The export takes a
policy that was trained with these options and writes a file for NavRL's own code. Both keep every bit of the
weights."""
_CHOICES = {"env": "navigation_compat", "agent": "ppo_navrl"}
# With other values of these options the same weights would be another network.
_FIXED_OPTIONS = (
    *("agent.network.architecture", "agent.network.lidar_encoder", "agent.network.activation"),
    "agent.value_normalisation",
)
# Published prefixes of the parts that have the same layers in the same order as ours.
_FEATURES = {
    "feature_extractor.module.0.module": "scan.layers",
    "feature_extractor.module.1.module.1": "entities",
    "feature_extractor.module.3.module": "layers",
}
_SCALE = {
    "value_norm.running_mean": "running_mean",
    "value_norm.running_mean_sq": "running_mean_square",
    "value_norm.debiasing_term": "seen",
}
_GAE = {"gae.gamma": "discount", "gae.lmbda": "gae_lambda"}
# The published file has 0.7 MB in 39 entries; its pickle has 7 kB.
_MAX_BYTES, _MAX_ENTRIES, _MAX_PICKLE = 2 << 20, 256, 1 << 16
_NAMED, _NAME = 4, 150  # names in an error message, and letters of each
_PLAIN = re.compile(r"collections OrderedDict|torch\._utils _rebuild_tensor_v2|torch \w+Storage")
_DAMAGED = (zipfile.BadZipFile, NotImplementedError, EOFError, struct.error, ValueError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl import-navrl`."""
    return run_plain(_parser(), import_navrl, arguments)


def import_navrl(options: argparse.Namespace) -> None:
    """Import or export the weights."""
    if (options.file is None) == (options.export is None):
        raise ConfigError(
            "expected either a file to import, or --export and a policy "
            "(see: navrl import-navrl --help)"
        )
    source = options.file if options.export is None else find(options.export, OUTPUTS)
    suffix = ".ckpt" if options.export is None else ".pt"
    output = options.output or Path(f"{source.stem}{suffix}")
    require_writable(output)
    if output.exists() and output.samefile(source):
        raise ConfigError(f"output = {output}; expected another file than the source; add --output")
    if options.export is None:
        _import(source, output)
        measure = ["navrl", "evaluate", override("checkpoint", shown_path(output))]
        example = f"  next: {shell_line(measure)}\n"
    else:
        _export(source, output)
        example = ""
    sys.stdout.write(f"wrote {output}\n{example}")


def _import(source: Path, output: Path) -> None:
    found = read_published(source)
    config = _config()
    env = _env(config)
    check_published(found, published(build_agent(config, env, num_iterations=1)), str(source))
    for name, option in _GAE.items():
        config.agent[option] = _shortest(found[name])
    agent = build_agent(config, env, num_iterations=1)
    install(found, agent)
    state = {
        "agent": agent.state_dict(),
        "iteration": 0,
        "frames": 0,
        "config": to_json(config),
        "choices": _CHOICES,
    }
    write_state(output, state, frames=0, score=None)


def _export(source: Path, output: Path) -> None:
    state = load_policy_state(source)
    config, plain = from_json(state["config"]), _config()
    options, published_options = (
        dict(dotted_items(to_json(settings))) for settings in (config, plain)
    )
    for option in _FIXED_OPTIONS:
        found, expected = options.get(option), published_options[option]
        if found != expected:
            raise ConfigError(
                f"{source} was trained with {option} = {found}; expected "
                f"{expected}, as in NavRL's code; train with agent=ppo_navrl to export"
            )
    require_no_files(config)
    agent = build_agent(config, _env(config), num_iterations=1)
    load_agent(agent, state, str(source))
    found = {name: tensor.clone() for name, tensor in published(agent).items()}
    check_published(
        found, published(build_agent(plain, _env(plain), num_iterations=1)), str(source)
    )
    buffer = io.BytesIO()
    torch.save(found, buffer)
    write_atomically(output, buffer.getvalue())


def published(agent: Any) -> dict[str, Tensor]:
    """Return the agent's tensors, sharing its memory, with the names and the order of the published file."""
    policy, critic = agent.policy.state_dict(), agent.critic.state_dict()
    tensors: dict[str, Tensor] = {}
    for theirs, ours in _FEATURES.items():
        start = f"trunk.features.{ours}."
        tensors |= {
            f"{theirs}.{name.removeprefix(start)}": tensor
            for name, tensor in policy.items()
            if name.startswith(start)
        }
    kinds = ("weight", "bias")
    halves = {kind: policy[f"trunk.last.{kind}"].chunk(2) for kind in kinds}
    for half, layer in enumerate(("alpha_layer", "beta_layer")):
        tensors |= {f"actor.module.0.module.{layer}.{kind}": halves[kind][half] for kind in kinds}
    tensors |= {f"critic.module.{kind}": critic[f"trunk.last.{kind}"] for kind in kinds}
    tensors |= {theirs: critic[f"scale.{ours}"] for theirs, ours in _SCALE.items()}
    return tensors | {"gae.gamma": agent.gae.gamma, "gae.lmbda": agent.gae.lmbda}


def install(found: Mapping[str, Tensor], agent: Any) -> None:
    """Copy checked published tensors into the agent."""
    for name, tensor in published(agent).items():
        tensor.copy_(found[name])


def read_published(path: Path) -> dict[str, Tensor]:
    """Read the tensors in a file of torch.save; nothing in it is executed."""
    expected = "expected the .pt file that NavRL publishes; name another file"
    content = read_foreign(path, _MAX_BYTES)
    try:
        entries = _entries(content)
    except ConfigError as error:
        raise ConfigError(f"{path} {error}; {expected}") from error
    except _DAMAGED as error:
        raise ConfigError(f"{path} was not written by torch.save; {expected}") from error
    if not all(_is_plain(data) for name, data in entries.items() if name.endswith(".pkl")):
        raise ConfigError(
            f"{path} holds pickled code or objects, which are refused because loading them runs "
            f"foreign code; {expected}"
        )
    try:
        found = torch.load(_archive(entries), map_location="cpu", weights_only=True)
    except Exception as error:
        raise ConfigError(f"{path} cannot be read as a file of torch.save; {expected}") from error
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(x, Tensor) for name, x in found.items()
    ):
        raise ConfigError(f"{path} holds no dictionary of tensors; {expected}")
    return {name: tensor.detach() for name, tensor in found.items()}


def _entries(content: bytes) -> dict[str, bytes]:
    """Return the entries of the archive, which torch.save does not compress; the checksums are right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        if len(entries) > _MAX_ENTRIES or sum(entry.file_size for entry in entries) > len(content):
            raise ConfigError("unpacks to more than torch.save writes")
        if any(
            entry.file_size > _MAX_PICKLE for entry in entries if entry.filename.endswith(".pkl")
        ):
            raise ConfigError(f"holds a pickle of more than {_MAX_PICKLE:,} bytes")
        if any(
            entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries
        ):
            raise ConfigError("is compressed or encrypted, which no file of torch.save is")
        damaged = archive.testzip()
        if damaged is not None:
            raise ConfigError(f"is damaged: the checksum of {damaged[:_NAME]} is wrong")
        return {entry.filename: archive.read(entry) for entry in entries}


def _archive(entries: Mapping[str, bytes]) -> io.BytesIO:
    """Return an archive of these entries: torch has a parser of its own and may find others in the file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    buffer.seek(0)
    return buffer


def _is_plain(content: bytes) -> bool:
    """Return whether a pickle holds tensors of the usual kind only, each written out.

    torch refuses code, but neither tensors without storage nor a tuple of the same two tuples, of the same
    two tuples and so on, whose hash takes for ever. So nothing but names is used twice.
    """
    again: set[int | None] = set()  # places of the memo that hold a name
    previous = ""
    try:
        for code, argument, _ in pickletools.genops(content):
            name = code.name
            if name == "GLOBAL" and not _PLAIN.fullmatch(str(argument)):
                return False
            if name.endswith("GET") and argument not in again:
                return False
            if name.endswith("PUT"):
                (again.add if previous in ("GLOBAL", "BINUNICODE") else again.discard)(argument)
            previous = name
    except ValueError:  # it is cut off, or no pickle
        return False
    return True


def check_published(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], origin: str) -> None:
    """Raise ConfigError about names, shapes, dtypes or numbers that the published network cannot have."""
    faults = {
        "lacks": [name for name in wanted if name not in found],
        "has the unknown": [name for name in found if name not in wanted],
        "has another shape or dtype of": [
            f"{name} ({_kind(found[name])}, expected {_kind(tensor)})"
            for name, tensor in wanted.items()
            if name in found and _kind(found[name]) != _kind(tensor)
        ],
    }
    for fault, names in faults.items():
        if names:
            some = ", ".join(name[:_NAME] for name in names[:_NAMED])
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            raise ConfigError(
                f"{origin} {fault} {some}{more}; expected the network that NavRL "
                "publishes; name another file"
            )
    # Last: a tensor of another shape may repeat one number a billion times.
    check_finite(found, origin)


def _kind(tensor: Tensor) -> str:
    layout = "" if tensor.layout is torch.strided else f"{tensor.layout} "
    return f"{layout}{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _shortest(number: Tensor) -> float:
    """Return the shortest decimal number that rounds to this float32."""
    candidates = (float(f"{number.item():.{digits}g}") for digits in range(1, 10))
    return next((x for x in candidates if torch.tensor(x) == number), number.item())


def _config() -> Any:
    return compose("train", [f"{group}={option}" for group, option in _CHOICES.items()])


def _env(config: Any) -> Any:
    """Build the env of a configuration, for its specs."""
    config = config.copy()
    config.device = "cpu"
    return build_env(config, num_envs=1, seed=0, compile_mode="off")


def _parser() -> argparse.ArgumentParser:
    described = "Convert the published weights of NavRL into a checkpoint, or a checkpoint into such weights."
    parser = command_parser("import-navrl", described, _EXAMPLES)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the .pt file to import")
    parser.add_argument(
        "--export",
        metavar="POLICY",
        help="write weights for NavRL's own code: latest | best | a run directory | a checkpoint",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PATH",
        help="default: the name of the source with .ckpt or .pt, in this folder",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
