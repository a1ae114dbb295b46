"""Refusing numbers that no simulator can use."""


def require(setting: str, value: object, usable: bool, expected: str) -> None:
    """Raise about the option `setting` unless its value is usable."""
    if not usable:
        raise ValueError(f"{setting} = {value}; expected {expected}; change {setting}")


def require_whole(setting: str, value: object, low: int, high: int) -> None:
    """Raise unless the option is a whole number from low to high."""
    usable = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    require(setting, value, usable, f"a whole number from {low} to {high}")
