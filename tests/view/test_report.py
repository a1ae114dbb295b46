"""Curves over runs by hand, and which charts a report has for which metrics."""

import math

import pytest

from navrl.envs.core.compiling import EAGER_ITERATIONS
from navrl.view.curves import YOUNG, Axis, axis, band, curve, settled
from navrl.view.report import report
from navrl.view.report_charts import Run


def rows(*values, metric="episode/win", every=10):
    """A row every so many frames."""
    return [
        {"frames": every * (i + 1), "iteration": i + 1, metric: v} for i, v in enumerate(values)
    ]


def test_every_round_is_a_point_of_its_own_up_to_a_screenful():
    assert axis([rows(1.0, 2.0, 3.0), rows(1.0)]) == Axis(10.0, 3)
    assert axis([rows(1.0, 2.0, 3.0)]).ends == [10, 20, 30]
    assert axis([rows(*[0.0] * 1000)]) == Axis(10_000 / 240, 240)
    assert axis([[]]) == Axis(1.0, 1)


@pytest.mark.parametrize("every", [1, 3, 7, 128, 32_768])
def test_a_round_is_in_the_step_that_it_ends(every):
    on = axis([rows(*range(240), every=every)])
    assert curve(rows(*range(1, 241), every=every), "episode/win", on) == [*range(1, 241)]


def test_a_step_is_the_mean_of_what_is_known_in_it():
    on = Axis(20.0, 3)
    run = rows(1.0, 3.0, math.nan, 5.0, 7.0, math.nan)
    assert curve(run, "episode/win", on) == [2.0, 5.0, 7.0]
    assert curve(run, "episode/loss", on) == [None, None, None]


def test_a_band_by_hand():
    found = band([[1.0, None, 4.0], [3.0, None, None], [5.0, 2.0, 6.0]])
    assert found.mean == [3.0, 2.0, 5.0]
    # Deviations 2 = sqrt((4 + 0 + 4) / 2) and sqrt(2); Student's t is 4.3027 of 3 runs, 12.706 of 2.
    assert found.low == [pytest.approx(3.0 - 4.3027 * 2.0 / 3**0.5, rel=1e-4), None, -7.7062]
    assert found.high == [pytest.approx(3.0 + 4.3027 * 2.0 / 3**0.5, rel=1e-4), None, 17.706]
    one = band([[0.9]])
    assert (one.mean, one.low, one.high) == ([0.9], [None], [None])
    share = band([[0.9], [0.8]], share=True)
    assert (share.low, share.high) == ([pytest.approx(0.85 - 12.706 * 0.05, rel=1e-4)], [1.0])


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ([900.0, *[1.0, 2.0] * 10], 1),
        ([-900.0, 700.0, *[1.0, 2.0] * 10], 2),
        ([None, None, 900.0, *[1.0, 2.0] * 10], 3),
        ([2.0 + 0.1 * i for i in range(20)], 0),  # a slow climb
        ([*[1.0, 2.0] * 10, 900.0], 0),  # the end is never cut off
        ([900.0, *[1.0] * 20], 0),  # beside a constant there is nothing to be seen
        ([900.0, 1.0, 2.0], 0),  # too few to know
    ],
)
def test_first_values_that_dwarf_the_rest_do_not_count_for_an_axis(values, first):
    assert settled([values]) == first


def run(name, metrics, *, label="game", seed=0, summary=None):
    """Two rounds that know these metrics."""
    known = [{"iteration": i, "frames": 100.0 * i, **metrics} for i in (1, 2)]
    return Run(name, label, seed, "finished", "win", known, summary or {})


def sections(*runs):
    found = report(runs, title="t", subtitle="s")["sections"]
    return {each["title"]: {chart["title"]: chart for chart in each["charts"]} for each in found}


def test_every_metric_is_in_one_chart():
    names = (
        *("episode/return", "episode/win", "eval/win", "eval/draw", "reward/hit", "low/reward/env"),
        *("skill/usage_Z_0", "skill/usage_z_1", "skill/switches", "high/ended_by/interval"),
        *("sync/replay_error", "loss/policy", "time/fps", "time/collect", "memory/rss_mb"),
        *("high/loss/explained_variance", "curriculum/stage", "league/size", "world/wind"),
    )
    bounds = ("episode/win_low", "episode/win_high")
    logged = (*names, "episode/count", "time/progress")
    values = {name: 0.1 * place for place, name in enumerate(logged)} | dict.fromkeys(bounds, 1.0)
    found = sections(run("a", values))
    lines = [
        line for charts in found.values() for chart in charts.values() for line in chart["lines"]
    ]
    assert len(lines) == len(names)
    assert [*found["Learning"]] == ["win", "return", "draw"]
    assert [line["pale"] for line in found["Learning"]["win"]["lines"]] == [False, True]
    assert [line.get("low") for line in found["Learning"]["win"]["lines"]] == [None, [1.0, 1.0]]
    assert [*found["Curriculum and league"]] == ["curriculum/stage", "league/size"]
    assert [*found["Everything else"]] == ["world/wind"]
    assert found["Skills"]["skills of the team, share of decisions"]["kind"] == "stack"


def long_run(name="a", **curves):
    """A run of as many rounds as these curves have values; "_" stands for the "/" of a metric."""
    columns = {key.replace("_", "/", 1): values for key, values in curves.items()}
    length = len(next(iter(columns.values())))
    known = [
        {"iteration": i + 1, "frames": 100.0 * (i + 1), **{key: v[i] for key, v in columns.items()}}
        for i in range(length)
    ]
    return Run(name, "game", 0, "finished", "win", known, {})


def test_no_chart_repeats_another_or_shows_what_never_changes():
    data = report(
        [
            long_run(
                **{"episode_win": [0.0, 0.0, 0.0, 0.0], "episode_kill": [0.1, 0.2, 0.3, 0.4]},
                **{"episode_kills": [0.1, 0.2, 0.3, 0.4], "episode_launches": [2.0, 2.0, 2.0, 2.0]},
                **{"sync_lag": [0.0] * 4, "memory_rss_mb": [1.0, 1.0, 1.0, 2.0]},
            )
        ],
        title="t",
        subtitle="s",
    )
    learning, performance = (
        next(each for each in data["sections"] if each["title"] == title)
        for title in ("Learning", "Performance")
    )
    # The objective is shown however it goes.
    assert [chart["title"] for chart in learning["charts"]] == ["win", "kill"]
    assert learning["charts"][1]["same"] == ["kills"]
    assert learning["constants"] == ["launches 2"]
    assert [chart["title"] for chart in performance["charts"]] == ["memory/rss_mb"]
    assert {"Rollouts"} <= {each["title"] for each in data["sections"] if not each["charts"]}


ENDS = {"eval/crank/win": 0.9, "eval/crank/win_low": 0.85, "eval/crank/win_high": 0.95}


@pytest.mark.parametrize(
    ("ends", "row", "badge"),
    [
        (ENDS, {}, "win 0.9 (0.85..0.95), 200 held-out episodes against crank"),
        (
            ENDS | {"eval/straight/win": 1.0},
            {},
            "win 0.95, mean over crank, straight",
        ),
        ({}, {"eval/win": 0.5}, "win 0.5, 200 held-out episodes against pursuit"),
        ({}, {}, "win 0.25 (0.1..0.4), while training against pursuit"),
    ],
)
def test_the_badge_tells_of_which_episodes_it_speaks(ends, row, badge):
    logged = {"episode/win": 0.25, "episode/win_low": 0.1, "episode/win_high": 0.4, **row}
    one = run("a", logged, summary=ends)._replace(opponent="pursuit", eval_episodes=200)
    assert report([one], title="t", subtitle="s")["badge"] == badge
    others = [one, one._replace(label="other")]
    assert report(others, title="t", subtitle="s")["badge"] is None


def test_an_env_without_skills_has_no_section_of_them():
    found = sections(run("a", {"episode/win": 1.0, "reward/hit": 0.5, "time/fps": 9.0}))
    assert [*found] == ["Learning", "Reward", "Performance"]


def test_groups_are_lines_and_seeds_are_bands():
    runs = [run(str(i), {"episode/return": float(i), "reward/hit": 1.0}) for i in (1, 2, 3)]
    runs.append(run("4", {"episode/return": 9.0, "reward/miss": 1.0}, label="other"))
    found = sections(*runs)
    game, other = found["Learning"]["return"]["lines"]
    half = pytest.approx(4.3027 / 3**0.5, rel=1e-4)  # of Student's interval of three runs
    assert (game["label"], game["mean"]) == ("game", [2.0, 2.0])
    assert ([2.0 - low for low in game["low"]], [high - 2.0 for high in game["high"]]) == (
        [half, half],
        [half, half],
    )
    assert game["each"] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    assert other["label"] == "other"
    assert "low" not in other
    assert "each" not in other
    assert other["tone"] != game["tone"]
    assert [*found["Reward"]] == ["game: reward by term", "other: reward by term"]


def test_final_evaluations_over_seeds():
    ends = [
        {"eval/crank/win": win, "eval/crank/length": 9.0, "eval/win": 0.1} for win in (0.4, 0.8)
    ]
    runs = [run(str(i), {"episode/win": 1.0}, summary=end) for i, end in enumerate(ends)]
    (final,) = report(runs, title="t", subtitle="s")["finals"]
    assert (final["where"], final["what"], final["values"]) == ("crank", "win", [0.4, 0.8])
    assert final["mean"] == 0.6
    # 0.2828 / sqrt(2) x 12.706 is more than a share can have.
    assert (final["low"], final["high"]) == (0.0, 1.0)


def test_a_row_of_the_table_of_runs():
    known = [{"iteration": i, "frames": 100.0 * i, "time/iteration": 2.0} for i in (1, 2, 3)]
    (row,) = report([Run("a", "g", 7, "failed", "win", known, {})], title="", subtitle="")["table"]
    assert row == {
        **{"name": "a", "tone": 0, "seed": 7, "state": "failed"},
        **{"frames": 300.0, "seconds": 6.0, "fps": 50},  # the first round compiles
    }


def test_times_begin_after_the_iterations_that_run_eager_and_the_one_that_compiles():
    assert YOUNG == EAGER_ITERATIONS + 1
