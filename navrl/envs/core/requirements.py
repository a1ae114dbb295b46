"""Refusing numbers that no simulator can use."""


def require(setting: str, value: object, usable: bool, expected: str) -> None:
    """Raise about the option `setting` unless its value is usable."""
    if not usable:
        raise ValueError(f"{setting} = {value}; expected {expected}; change {setting}")


def require_whole(setting: str, value: object, low: int, high: int) -> None:
    """Raise unless the option is a whole number from low to high."""
    usable = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    require(setting, value, usable, f"a whole number from {low} to {high}")


def require_kind(observation: object, params: object, kind: type, env: str) -> None:
    """Raise when an observation is given the simulator of another env than its own."""
    if not isinstance(params, kind):
        raise ValueError(
            f"observation is {type(observation).__name__}, which tells of env={env}; expected an observation "
            "of the env that was chosen; change observation"
        )
