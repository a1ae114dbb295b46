"""torch.compile for simulator steps: tuned for the CPU, falls back to eager with one warning."""

import time
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
    """A function that is compiled at its first call; `seconds` is what that took."""

    def __init__(self, function: Callable[..., Any], mode: str | bool) -> None:
        mode = _YAML_MODES[mode] if isinstance(mode, bool) else mode
        if mode not in COMPILE_MODES:
            raise ValueError(
                f"compile = {mode!r}; expected one of {', '.join(COMPILE_MODES)}; change compile"
            )
        self.eager = function
        self.mode = mode
        self.seconds = 0.0
        self._run = function if mode == "off" else self._first

    def __call__(self, *args: Any) -> Any:
        """What the function returns; never differentiated, so one graph serves every grad mode."""
        with torch.no_grad():
            return self._run(*args)

    def _first(self, *args: Any) -> Any:
        started = time.perf_counter()
        try:
            function = torch.compile(
                self.eager,
                dynamic=False,
                fullgraph=True,
                isolate_recompiles=True,  # else all envs of a process share one limit of 8 graphs
                options=_options(),
            )
            result = function(*args)
        except (torch._dynamo.exc.FailOnRecompileLimitHit, RuntimeError, OSError) as error:
            if self.mode == "on":
                raise RuntimeError(
                    f"the simulator step does not compile ({_first_line(error)}); expected a working C++ "
                    "compiler; install g++ or use compile=auto"
                ) from error
            warnings.warn(
                f"the simulator runs eager, several times slower: {_first_line(error)}; "
                "install g++ to compile it, or silence this with compile=off",
                stacklevel=2,
            )
            self._run = self.eager
            return self.eager(*args)
        self._run = function
        self.seconds = time.perf_counter() - started
        return result


def _options() -> dict[str, Any] | None:
    known = set(torch._inductor.list_options())
    missing = set(_TUNING) - known
    if missing:
        warnings.warn(f"this torch does not know {sorted(missing)}; compiling without", stacklevel=2)
    return {name: value for name, value in _TUNING.items() if name in known}


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
