"""Simulators: NamedTuples of tensors and pure functions over them, nothing but torch."""
