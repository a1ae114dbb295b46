"""Whom to play next."""

from collections.abc import Sequence


def pfsp_weights(scores: Sequence[float], power: float = 2.0) -> list[float]:
    """Prioritised fictitious self-play: the chance of each opponent, (1 - score) ** power.

    `scores` are the learner's. The weights sum to 1. Power 0 draws everybody alike, a higher
    power dwells on who still wins; when everybody is always beaten, everybody is drawn alike.
    """
    usable = all(0.0 <= rate <= 1.0 for rate in scores) and 0.0 <= power < float("inf")
    if not usable or not scores:
        raise ValueError(
            f"scores = {list(scores)}, power = {power}; "
            "expected at least one score, all in [0, 1], and a power of 0 or more"
        )
    hardest = max(1.0 - rate for rate in scores)
    if hardest == 0.0:
        return [1.0 / len(scores)] * len(scores)
    # against the hardest opponent: the largest weight is 1, so a high power cannot lose them all
    weights = [((1.0 - rate) / hardest) ** power for rate in scores]
    total = sum(weights)
    return [weight / total for weight in weights]
