"""What YAML says of each part of the agent."""

from typing import NamedTuple

from navrl.agents.core.guards import require_fractions, require_positive


class CoordinatorOptions(NamedTuple):
    """Of who chooses skills."""

    width: int
    blocks: int
    heads: int
    entropy_coef: float
    num_epochs: int
    learning_rate: float
    least_deviation: float
    gamma_mode: str
    partial: str


class ActorOptions(NamedTuple):
    """Of who acts, and of the critic."""

    skill_injection: str
    skill_init: str
    skill_init_std: float
    rnn: str
    chunk_length: int
    critic: str
    entropy_coef: float
    num_epochs: int
    num_minibatches: int
    learning_rate: float
    critic_learning_rate: float


class DiscriminatorOptions(NamedTuple):
    """Of who tells skills apart."""

    num_epochs: int
    learning_rate: float


class IntrinsicOptions(NamedTuple):
    """Of what agents are paid for beside the env's reward."""

    lambda_e: float
    lambda_team: float
    lambda_indiv: float
    center: bool


class PPOOptions(NamedTuple):
    """Of the updates of all parts."""

    gae_lambda: float
    clip_epsilon: float
    value_normalisation: str
    value_clip: float | None
    huber_delta: float | None
    adam_epsilon: float
    final_learning_rate_share: float
    final_entropy_share: float
    max_grad_norm: float
    accumulate: int


class Update(NamedTuple):
    """What holds for the updates of all parts."""

    ppo: PPOOptions
    discount: float
    num_iterations: int


def check_options(
    coordinator: CoordinatorOptions,
    actor: ActorOptions,
    discriminator: DiscriminatorOptions,
    update: Update,
) -> None:
    """Refuse numbers that make no sense, by their name in YAML."""
    ppo = update.ppo
    require_fractions(discount=update.discount)
    require_fractions(
        **{
            f"ppo.{name}": getattr(ppo, name)
            for name in (
                *("gae_lambda", "clip_epsilon"),
                *("final_learning_rate_share", "final_entropy_share"),
            )
        }
    )
    for name in ("value_clip", "huber_delta", "accumulate"):
        require_positive(**{f"ppo.{name}": getattr(ppo, name)})
    parts = {"coordinator": coordinator, "actor": actor, "discriminator": discriminator}
    for part, options in parts.items():
        for name in (
            "learning_rate",
            "critic_learning_rate",
            "num_epochs",
            "num_minibatches",
            "chunk_length",
            "width",
            "blocks",
            "heads",
        ):
            require_positive(**{f"{part}.{name}": getattr(options, name, None)})
    if coordinator.width % coordinator.heads:
        raise ValueError(
            f"agent.coordinator.heads = {coordinator.heads}; expected a divisor of width = "
            f"{coordinator.width}; change agent.coordinator.heads"
        )
