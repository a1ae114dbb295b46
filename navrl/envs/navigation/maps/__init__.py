"""Map files as boxes."""

from navrl.envs.navigation.maps.reading import Scale

__all__ = ["Scale"]
