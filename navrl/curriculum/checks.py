"""What lessons may not say, found before a run begins rather than when their turn comes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from navrl.curriculum.gate import LEAST_GROUP, PER, WORST, Gate


def check_class(place: str, value: Any, wanted: type) -> None:
    """Refuse a plain mapping where an object was to be built."""
    if not isinstance(value, wanted):
        target = f"{wanted.__module__}.{wanted.__qualname__}"
        raise ValueError(f"{place} is a {type(value).__name__}; expected _target_: {target} in it")


def check_weights(
    place: str, weights: Mapping[str, Any], names: Sequence[str], *, drawn: bool
) -> None:
    """Refuse unknown names and impossible numbers; what is drawn has chances, else any weight will do."""
    _require_mapping(place, weights)
    _require_known(place, weights, names)
    numbers = [weight for weight in weights.values() if _is_number(weight)]
    usable = len(numbers) == len(weights)
    if drawn:
        usable = usable and all(weight >= 0.0 for weight in numbers) and sum(numbers) > 0.0
    if not usable:
        wanted = "weights of 0 or more, not all 0" if drawn else "finite numbers"
        raise ValueError(f"{place} = {dict(weights)}; expected {wanted}; change {place}")


def check_gate(place: str, gate: Gate, statistics: Sequence[str], rates: Sequence[str]) -> None:
    """Refuse unknown statistics, and demands that nobody can meet."""
    rates = [*rates, *(f"{WORST}{name}" for name in rates)]
    known = [*rates, *(name for name in statistics if name[0] != "_" and name not in rates)]
    for side, demands in (("at_least", gate.at_least), ("at_most", gate.at_most)):
        here = f"{place}.{side}"
        _require_mapping(here, demands)
        for name, demand in demands.items():
            _require_known(here, name.split(PER, 1), known)
            possible = _is_number(demand) and (name not in rates or 0.0 <= demand <= 1.0)
            if not possible:
                wanted = "a rate from 0 to 1" if name in rates else "a finite number"
                raise ValueError(
                    f"{here}.{name} = {demand}; expected {wanted}; change {here}.{name}"
                )
    for name in gate.at_least.keys() & gate.at_most.keys():
        if gate.at_least[name] > gate.at_most[name]:
            raise ValueError(
                f"{place} wants {name} of at least {gate.at_least[name]} and at most "
                f"{gate.at_most[name]}; expected a range; change {place}"
            )
    if not (_is_number(gate.slack) and gate.slack >= 0.0):
        raise ValueError(f"{place}.slack = {gate.slack}; expected 0 or more; change {place}.slack")


def check_groups(place: str, gate: Gate, examined: Mapping[str, float], episodes: int) -> None:
    """Refuse to ask for the worst opponent where too few episodes meet one."""
    asked = next((name for name in gate.names if name.startswith(WORST)), None)
    if asked is None:
        return
    met = {name: weight for name, weight in examined.items() if weight > 0.0}
    rarest = min(met, key=lambda name: met[name])
    share = met[rarest] / sum(met.values())
    if episodes * share < LEAST_GROUP:
        raise ValueError(
            f"{place} asks for {asked}, but {episodes * share:.3g} of {episodes} episodes meet {rarest}; "
            f"expected {LEAST_GROUP} or more; set num_envs={math.ceil(LEAST_GROUP / share)} or change {place}"
        )


def check_frames(place: str, frames: Any) -> None:
    """Refuse a budget that is no number of frames."""
    if frames is not None and not (type(frames) is int and frames >= 1):
        raise ValueError(
            f"{place} = {frames}; expected a whole number of 1 or more, or null; change {place}"
        )


def _require_mapping(place: str, found: Any) -> None:
    if not isinstance(found, Mapping):
        raise ValueError(f"{place} = {found}; expected numbers by name; change {place}")


def _require_known(place: str, found: Iterable[str], names: Sequence[str]) -> None:
    for name in found:
        if name not in names:
            raise ValueError(
                f"{place} names {name!r}; expected some of {', '.join(names)}; change {place}"
            )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
