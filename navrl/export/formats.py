"""The files of exported policies: ONNX, torch.export's own, and safetensors with the graph as text."""

import importlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from navrl.export.policies import Program
from navrl.storage.files import to_json

CARD = "card"  # the name of the card in a file's own metadata
BATCH = "batch"  # the name of the axis of simulations
Card = Mapping[str, Any]


class Format(Protocol):
    """A kind of file."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages that write it and run it."""

    def content(self, program: Program, card: Card) -> bytes:
        """Return the whole file."""

    def run(self, path: Path, program: Program, inputs: Mapping[str, Tensor]) -> Any:
        """Return the outputs of the policy in a file by name; of `program` only the operations are taken."""


class Onnx:
    """A graph of ONNX with the card in its metadata."""

    packages = ("onnx", "onnxscript", "onnxruntime")

    def content(self, program: Program, card: Card) -> bytes:
        """Return the whole file."""
        with _quiet():
            made: Any = torch.onnx.export(
                program.graph,
                dynamo=True,
                verbose=False,
                input_names=program.inputs,
                output_names=program.outputs,
            )
        for node in made.model.graph.all_nodes():
            for value in node.outputs:
                if not value.is_graph_output():  # torch calls it as an operation, such as "view",
                    value.name = f"inner.{value.name}"  # which an input may be called too
        made.model.metadata_props[CARD] = to_json(card)
        proto = made.model_proto
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = BATCH
        del proto.graph.value_info[:]  # shapes in between, by names that torch has made up
        for node in proto.graph.node:
            del node.metadata_props[:]  # which part of our code it comes from
        found: bytes = proto.SerializeToString()
        return found

    def run(self, path: Path, program: Program, inputs: Mapping[str, Tensor]) -> Any:
        """Return what onnxruntime computes."""
        runtime = importlib.import_module("onnxruntime")
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [port.name for port in session.get_outputs()]
        read = {port.name: inputs[port.name].numpy() for port in session.get_inputs()}
        return dict(zip(names, session.run(names, read), strict=True))


class Pt2:
    """A program of torch.export: torch.export.load(file).module()(inputs) needs torch alone."""

    packages: tuple[str, ...] = ()

    def content(self, program: Program, card: Card) -> bytes:
        """Return the whole file."""
        buffer = io.BytesIO()
        with _quiet():
            torch.export.save(program.graph, buffer, extra_files={f"{CARD}.json": to_json(card)})
        return buffer.getvalue()

    def run(self, path: Path, program: Program, inputs: Mapping[str, Tensor]) -> Any:
        """Return what torch computes."""
        with _quiet():
            return torch.export.load(path).module()(inputs)


class Safetensors:
    """Weights by name; the card has the operations on them as text, in torch's core operators."""

    packages = ("safetensors",)

    def content(self, program: Program, card: Card) -> bytes:
        """Return the whole file."""
        save = importlib.import_module("safetensors.torch").save
        plain = _in_core_operators(program)
        stored = {**plain.graph.state_dict, **plain.graph.constants}
        tensors = {name: tensor.clone().contiguous() for name, tensor in stored.items()}
        graph = {
            "code": plain.graph.graph_module.code.strip(),
            "arguments": _arguments(plain),
            "outputs": plain.outputs,
        }
        found: bytes = save(tensors, {CARD: to_json({**card, "graph": graph})})
        return found

    def run(self, path: Path, program: Program, inputs: Mapping[str, Tensor]) -> Any:
        """Return what the operations make of the tensors in the file."""
        values = importlib.import_module("safetensors.torch").load_file(path)
        plain = _in_core_operators(program)
        taken = ({**values, **inputs}[name] for name in _arguments(plain))
        # The graph module runs the very text that `content` stores.
        return dict(zip(plain.outputs, plain.graph.graph_module(*taken), strict=True))


def _in_core_operators(program: Program) -> Program:
    """Return the program in the few operators that torch makes all others of."""
    with _quiet():
        return program._replace(graph=program.graph.run_decompositions())


def _arguments(program: Program) -> list[str]:
    """Return the names of tensors and inputs in the order of the arguments of the program's code."""
    inputs = iter(program.inputs)
    specs = program.graph.graph_signature.input_specs
    return [next(inputs) if spec.target is None else spec.target for spec in specs]


FORMATS: dict[str, Format] = {"onnx": Onnx(), "pt2": Pt2(), "safetensors": Safetensors()}


def require_packages(name: str) -> None:
    """Raise one sentence if a package is missing that writes this format."""
    for package in FORMATS[name].packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ImportError(
                f"--to {name} needs {package}, which is not installed; pip install 'navrl[export]'"
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's messages about itself from the user."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
