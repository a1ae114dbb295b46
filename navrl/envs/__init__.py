"""TorchRL skins over the simulators."""
