"""torch.compile with a way back: what does not compile runs eager, after one warning."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import torch

# Without these Inductor cuts a decision into dozens of small loops and is four times slower.
_TUNING = {
    "cpp.enable_tiling_heuristics": False,
    "max_fusion_size": 100_000,
    "cpp.max_horizontal_fusion_size": 100_000,
    "max_fusion_buffer_group_pairwise_attempts": 100_000,
}

COMPILE_MODES = ("auto", "on", "off")
_YAML_MODES = {True: "on", False: "off"}  # YAML reads a bare on or off as a truth value


class Compiled:
    """A simulator step that is compiled at its first call."""

    name = "the simulator step"
    options: dict[str, Any] | None = _TUNING
    differentiable = False

    def __init__(self, function: Callable[..., Any], mode: str | bool) -> None:
        mode = _YAML_MODES[mode] if isinstance(mode, bool) else mode
        if mode not in COMPILE_MODES:
            raise ValueError(
                f"compile = {mode!r}; expected one of {', '.join(COMPILE_MODES)}; change compile"
            )
        self.eager = function
        self.mode = mode
        self._run = function if mode == "off" else self._first

    def __call__(self, *args: Any) -> Any:
        """What the function returns."""
        # A simulator is never differentiated, so one graph serves callers in every grad mode.
        with contextlib.nullcontext() if self.differentiable else torch.no_grad():
            return self._run(*args)

    def _first(self, *args: Any) -> Any:
        try:
            compiler: Any = torch.compile  # its annotations lack isolate_recompiles
            function = compiler(
                self.eager,
                dynamic=False,
                fullgraph=True,
                isolate_recompiles=True,  # else all envs of a process share one limit of 8 graphs
                options=_known(self.options),
            )
            result = function(*args)
        except (torch._dynamo.exc.FailOnRecompileLimitHit, RuntimeError, OSError) as error:
            if self.mode == "on":
                raise RuntimeError(
                    f"{self.name} does not compile ({_first_line(error)}); expected a working C++ "
                    "compiler; install g++ or use compile=auto"
                ) from error
            warnings.warn(
                f"{self.name} runs eager, which is slower: {_first_line(error)}; "
                "install g++ to compile it, or silence this with compile=off",
                stacklevel=2,
            )
            self._run = self.eager
            return self.eager(*args)
        self._run = function
        return result


class CompiledLoss(Compiled):
    """A loss: differentiated, and made of matrix products, which want Inductor's own settings."""

    name = "the loss"
    options = None
    differentiable = True


def _known(options: dict[str, Any] | None) -> dict[str, Any] | None:
    known = set(torch._inductor.list_options())
    missing = set(options or ()) - known
    if missing:
        warnings.warn(
            f"this torch does not know {sorted(missing)}; compiling without", stacklevel=4
        )
    return options and {name: value for name, value in options.items() if name in known}


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
