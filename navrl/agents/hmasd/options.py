"""The options of agent=hmasd, their checks, and its ablations."""

from collections.abc import Collection
from typing import NamedTuple

from navrl.config.checks import require, require_choice, require_number, require_whole

MAX_SKILLS = 1000  # memory grows with the number of skills, and no discriminator tells more apart
ABLATIONS = ("none", "no_team", "no_indi", "no_ex", "no_in", "no_high")


class CoordinatorOptions(NamedTuple):
    """The options of the high-level policy."""

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
    """The options of the low-level policy and its critic."""

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
    """The options of both discriminators."""

    num_epochs: int
    learning_rate: float


class IntrinsicOptions(NamedTuple):
    """The weights of the low-level reward."""

    lambda_e: float
    lambda_team: float
    lambda_indiv: float
    center: bool


class PPOOptions(NamedTuple):
    """The options that all updates share."""

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


Part = CoordinatorOptions | ActorOptions | DiscriminatorOptions | PPOOptions

_WHOLE = ("num_epochs", "num_minibatches", "chunk_length", "width", "blocks", "heads", "accumulate")
_POSITIVE = ("learning_rate", "critic_learning_rate", "value_clip", "huber_delta", "max_grad_norm")
_FRACTIONS = (
    *("gae_lambda", "clip_epsilon"),
    *("final_learning_rate_share", "final_entropy_share"),
)
_CHOICES: dict[str, Collection[str]] = {
    "gamma_mode": ("per_decision", "smdp"),
    "partial": ("bootstrap", "drop"),
    "skill_injection": ("last", "input", "both"),
    "skill_init": ("pairs", "spread", "gaussian"),
    "critic": ("team", "both"),
}


def check_options(
    k: int,
    discount: float,
    coordinator: CoordinatorOptions,
    actor: ActorOptions,
    discriminator: DiscriminatorOptions,
    ppo: PPOOptions,
) -> None:
    """Raise ConfigError about the first option that makes no sense, by its name in YAML."""
    require_whole("agent.k", k, 1)
    require_number("agent.discount", discount, least=0.0, most=1.0)
    parts: dict[str, Part] = {
        "coordinator": coordinator,
        "actor": actor,
        "discriminator": discriminator,
        "ppo": ppo,
    }
    for part, options in parts.items():
        for name, value in options._asdict().items():
            _check(name, f"agent.{part}.{name}", value)
    fits, width = (
        coordinator.width % coordinator.heads == 0,
        f"a divisor of width = {coordinator.width}",
    )
    require(fits, "agent.coordinator.heads", coordinator.heads, width)


def _check(name: str, option: str, value: object) -> None:
    if name in _WHOLE:
        require_whole(option, value, 1)
    elif name in _POSITIVE and value is not None:
        require_number(option, value, above=0.0)
    elif name in _FRACTIONS:
        require_number(option, value, least=0.0, most=1.0)
    elif name in _CHOICES:
        require_choice(option, value, _CHOICES[name])


class Method(NamedTuple):
    """The parts of the method that an ablation leaves."""

    num_skills: tuple[int, ...]  # at each position of the coordinator
    team_skills: int
    individual_skills: int  # as the actor knows them
    intrinsic: IntrinsicOptions
    coordinated: bool  # False: skills are drawn at random and last as long as the episode


def ablated_method(
    ablation: str, *, n_team: int, n_indiv: int, num_agents: int, intrinsic: IntrinsicOptions
) -> Method:
    """Return the method without the part that agent.ablation names."""
    require_choice("agent.ablation", ablation, ABLATIONS)
    require_whole("agent.n_team", n_team, 1, MAX_SKILLS)
    require_whole("agent.n_indiv", n_indiv, 1, MAX_SKILLS)
    if ablation == "no_team":
        n_team, intrinsic = 1, intrinsic._replace(lambda_team=0.0)
    if ablation == "no_ex":
        intrinsic = intrinsic._replace(lambda_e=0.0)
    if ablation == "no_in":
        intrinsic = intrinsic._replace(lambda_team=0.0, lambda_indiv=0.0)
    num_skills = (n_team, *[n_indiv] * num_agents)
    if ablation == "no_indi":  # all agents act by the team's skill
        num_skills, n_indiv = (n_team,), n_team
        intrinsic = intrinsic._replace(lambda_indiv=0.0)
    return Method(num_skills, n_team, n_indiv, intrinsic, ablation != "no_high")
