"""agent.ablation: what the method is without one of its parts, as in the paper."""

from typing import NamedTuple

from navrl.agents.hmasd.options import IntrinsicOptions

MOST_SKILLS = 1000  # nobody tells more apart, and memory grows with them
ABLATIONS = ("none", "no_team", "no_indi", "no_ex", "no_in", "no_high")


class Setting(NamedTuple):
    """What is built."""

    choices: tuple[int, ...]  # skills at each position of the coordinator
    team_skills: int
    individual_skills: int  # that an actor knows
    intrinsic: IntrinsicOptions
    coordinated: bool  # False: skills are drawn at random and last as long as the episode


def setting(
    ablation: str, *, n_team: int, n_indiv: int, num_agents: int, intrinsic: IntrinsicOptions
) -> Setting:
    """What an ablation leaves."""
    if ablation not in ABLATIONS:
        raise ValueError(
            f"agent.ablation = {ablation!r}; expected one of {', '.join(ABLATIONS)}; "
            "change agent.ablation"
        )
    for option, value in (("n_team", n_team), ("n_indiv", n_indiv)):
        if not 1 <= value <= MOST_SKILLS:
            raise ValueError(
                f"agent.{option} = {value}; expected 1 to {MOST_SKILLS}; change agent.{option}"
            )
    if ablation == "no_team":
        n_team, intrinsic = 1, intrinsic._replace(lambda_team=0.0)
    if ablation == "no_ex":
        intrinsic = intrinsic._replace(lambda_e=0.0)
    if ablation == "no_in":
        intrinsic = intrinsic._replace(lambda_team=0.0, lambda_indiv=0.0)
    choices = (n_team, *[n_indiv] * num_agents)
    if ablation == "no_indi":  # all agents share the team's skill, and nobody has one of its own
        choices, n_indiv = (n_team,), n_team
        intrinsic = intrinsic._replace(lambda_indiv=0.0)
    return Setting(choices, n_team, n_indiv, intrinsic, ablation != "no_high")
