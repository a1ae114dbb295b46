"""The console line to the letter, and the live table on a real pseudo-terminal."""

import atexit
import fcntl
import io
import math
import os
import pty
import re
import select
import struct
import sys
import termios

import pytest

from navrl.loggers.console import ConsoleLogger, layout, progress_line, resolve_style
from navrl.loggers.format import count, duration, sparkline, value
from tests.command_line import forks

HEADLINE = {"win%": "episode/win", "return": "episode/return", "kl": "policy/kl"}
METRICS = {
    "episode/win": 0.41,
    "episode/win_low": 0.35,
    "episode/win_high": 0.47,
    "episode/return": 0.31,
    "policy/kl": 0.008,
    "time/fps": 48_100.0,
    "time/eta_s": 38.2,
}


def line_of(metrics, **changes):
    place = {"iteration": 12, "frames": 1_228_800, "total": 40}
    options = {**place, "headline": HEADLINE, **changes}
    return progress_line(metrics, **options)


def test_the_line_to_the_letter():
    assert line_of(METRICS) == (
        "iter 12/40 | 1.2M frames | 48k fps | win 41% (35..47) | return 0.31 | kl 0.008 | eta 0:38"
    )


def test_what_is_known_late_is_a_line_of_its_own():
    stream = io.StringIO()
    logger = ConsoleLogger(total=40, headline=HEADLINE, style="lines", stream=stream)
    found = {"eval/win": 0.9, "eval/win_low": 0.85, "eval/win_high": 0.94, "eval/return": 0.5}
    logger.late(found, 8, 819_200)
    assert stream.getvalue() == ("iter 8 evaluated | 819k frames | win 90% (85..94) | return 0.5\n")


def test_an_evaluation_of_the_iteration_follows_its_line():
    stream = io.StringIO()
    logger = ConsoleLogger(total=9, headline={"win%": "episode/win"}, style="lines", stream=stream)
    for iteration, held_out in enumerate(({}, {"eval/win": 0.25}), 1):
        logger.log({"episode/win": 0.5, **held_out}, iteration=iteration, frames=100 * iteration)
    assert stream.getvalue().splitlines() == [
        "iter 1/9 | 100 frames | win 50%",
        "iter 2/9 | 200 frames | win 50%",
        "iter 2 evaluated | 200 frames | win 25%",
    ]


def test_before_the_first_episode():
    bounds = {"episode/return_low": -2.25, "episode/return_high": 7.25}
    assert line_of({"episode/return": 2.5, **bounds, "policy/kl": math.nan}) == (
        "iter 12/40 | 1.2M frames | win - | return 2.5 (-2.25..7.25) | kl nan"
    )


def test_without_the_end_of_an_episode_the_last_ones_are_shown():
    stream = io.StringIO()
    logger = ConsoleLogger(total=9, headline={"win%": "episode/win"}, style="lines", stream=stream)
    for iteration, ended in enumerate((0.0, 4.0, 0.0), 1):
        episodes = {"episode/win": 0.5} if ended else {}
        logger.log({"episode/count": ended, **episodes}, iteration=iteration, frames=iteration)
    shown = [line.rpartition(" | ")[2] for line in stream.getvalue().splitlines()]
    assert shown == ["win -", "win 50%", "win 50%"]


def test_a_number_that_stands_for_a_word_is_followed_by_it():
    options = {"headline": {"stage": "a/stage"}, "words": {"a/stage": ["aim", "survive"]}}
    assert line_of({"a/stage": 2.0}, **options).endswith(" | stage 2 survive")
    assert line_of({}, **options).endswith(" | stage -")


def test_the_total_is_given_and_not_guessed_from_frames():
    # on resume with other num_envs an iteration has other frames than those before
    assert line_of({}, headline={}, frames=64).startswith("iter 12/40 |")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (1000, "1.0k"),
        (9949, "9.9k"),
        (48_100, "48k"),
        (999_499, "999k"),
        (1_228_800, "1.2M"),
        (2.5e9, "2.5G"),
        (-1500, "-1.5k"),
        (math.inf, "inf"),
    ],
)
def test_count(number, text):
    assert count(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.008, "0.008"), (-12.345, "-12.3"), (1234.5, "1.2k"), (math.nan, "nan"), (1e-7, "1e-07")],
)
def test_value(number, text):
    assert value(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (38.2, "0:38"), (59.6, "1:00"), (3723, "1:02:03"), (183_600, "2d 3h")],
)
def test_duration(seconds, text):
    assert duration(seconds) == text
    assert duration(math.inf) == "?"


def test_sparkline():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], unicode=True) == "▁▂▃▄▅▆▇█"
    assert sparkline([5.0, math.nan, 0.0, 2.0], unicode=False) == "# _-"  # 2/5 of five steps
    assert sparkline([3.0, 3.0], unicode=True) == "▅▅"
    assert sparkline([math.nan], unicode=True) == " "


def test_lines_go_to_a_stream_that_is_no_terminal():
    stream = io.StringIO()
    console = ConsoleLogger(total=2, headline={}, style="auto", stream=stream)
    console.log({}, iteration=1, frames=64)
    console.note("saved step_64.ckpt")
    console.close()
    assert stream.getvalue() == "iter 1/2 | 64 frames\nsaved step_64.ckpt\n"


def test_style_none_is_silent():
    stream = io.StringIO()
    console = ConsoleLogger(total=2, headline={}, style="none", stream=stream)
    console.log({}, iteration=1, frames=64)
    console.note("saved")
    console.close()
    assert stream.getvalue() == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("style", "stream", "environment", "expected"),
    [
        ("auto", Terminal(), {"TERM": "xterm"}, "table"),
        ("auto", Terminal(), {"TERM": "dumb"}, "lines"),
        ("auto", Terminal(), {}, "lines"),
        ("auto", io.StringIO(), {"TERM": "xterm"}, "lines"),
        ("table", io.StringIO(), {"TERM": "xterm"}, "lines"),
        ("lines", Terminal(), {"TERM": "xterm"}, "lines"),
        ("none", Terminal(), {"TERM": "xterm"}, "none"),
    ],
)
def test_which_style_is_used_where(style, stream, environment, expected):
    assert resolve_style(style, stream, environment) == expected


def test_an_unknown_style_names_the_known_ones():
    with pytest.raises(
        ValueError, match=r"console = fancy; expected one of auto, table, lines, none"
    ):
        resolve_style("fancy", io.StringIO(), {})


def test_layout_fills_the_width_and_respects_the_height():
    history = {f"{group}/m{i}": [0.0, 1.0] for group in ("time", "loss", "episode") for i in "ab"}
    narrow = layout("title", history, width=50, height=40, unicode=True)
    heads = ["episode/", "loss/", "time/"]
    assert [line for line in narrow if line.endswith("/")] == heads
    assert narrow[2] == "  ma                        1 ▁█"
    wide = layout("title", history, width=120, height=40, unicode=True)
    assert wide[1].split() == heads
    assert len(wide) == 4
    low = layout("title", history, width=50, height=5, unicode=True)
    assert low == [*narrow[:4], "(6 lines more in metrics.jsonl)"]
    thin = layout("a long title", {"x/" + "n" * 90: [1.0]}, width=10, height=40, unicode=True)
    assert max(map(len, thin)) == 10


def test_layout_without_metrics_is_the_title():
    assert layout("title", {}, width=80, height=24, unicode=True) == ["title"]


def test_names_cannot_move_the_cursor():
    text = "".join(layout("t", {"x\x1b[2J/y\x1b": [1.0]}, width=80, height=24, unicode=True))
    assert "\x1b" not in text


def draw(ending):
    """Log three iterations on the terminal of this process, then end."""
    console = ConsoleLogger(total=4, headline={"return": "episode/return"}, style="auto")
    for iteration in range(1, 4):
        metrics = {"episode/return": float(iteration), "loss/value": 0.5, "time/fps": 100.0}
        bounds = {"episode/return_low": iteration - 0.25, "episode/return_high": iteration + 0.25}
        console.log(metrics | bounds, iteration=iteration, frames=iteration * 64)
        if iteration == 2:
            console.note("saved step_128.ckpt")
    if ending is None:
        console.close()
    else:
        raise ending


def draw_on(terminal, ending, environment):
    """Draw on that terminal and end as an interpreter does."""
    file, code = os.open(terminal, os.O_RDWR), 1
    for number in range(3):
        os.dup2(file, number)
    os.environ.pop("NO_COLOR", None)
    os.environ.update(environment)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    try:
        draw(ending)
        code = 0
    except SystemExit as stopped:
        code = stopped.code
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)


def run_on_a_terminal(ending, **environment):
    """Return what is written to a pseudo-terminal of 80 x 24, and the exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    arguments = (os.ttyname(slave), ending, {"TERM": "xterm", **environment})
    child = forks.Process(target=draw_on, args=arguments)
    child.start()
    child.join(60)
    written = b""
    while select.select([master], [], [], 0.0)[0]:
        written += os.read(master, 65536)
    os.close(slave)
    os.close(master)
    return written.decode(), child.exitcode


def screen_after(written):
    """The rows a terminal shows: a small reader of exactly the sequences we use."""
    rows, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[0-9?]*[A-Za-z]|\r?\n|[^\x1b\r\n]+", written):
        if token.endswith("\n"):
            row, column = row + 1, 0
            rows.extend([""] * (row + 1 - len(rows)))
        elif not token.startswith("\x1b"):
            rows[row] = rows[row][:column].ljust(column) + token + rows[row][column + len(token) :]
            column += len(token)
        elif token.endswith("F"):
            row, column = row - int(token[2:-1]), 0
            assert row >= 0
        elif token[-1] in "KJ":
            rows[row] = rows[row][:column]
            del rows[row + 1 if token.endswith("J") else len(rows) :]
        else:
            assert token in ("\x1b[?25l", "\x1b[?25h", "\x1b[1m", "\x1b[0m")
    return [line.rstrip() for line in rows]


EXPECTED = [
    "saved step_128.ckpt",
    "iter 3/4 | 192 frames | 100 fps | return 3 (2.75..3.25)",
    "episode/                               loss/",
    "  return                    3 ▁▅█        value                   0.5 ▅▅▅",
    "time/",
    "  fps                     100 ▅▅▅",
    "",
]


@pytest.mark.commands
@pytest.mark.parametrize(
    ("ending", "code"),
    [(None, 0), (ValueError(), 1), (SystemExit(3), 3)],
)
def test_the_table_is_redrawn_in_place_and_the_cursor_comes_back(ending, code):
    written, returned = run_on_a_terminal(ending)
    assert returned == code
    assert screen_after(written) == EXPECTED
    assert written.count("\x1b[?25l") == 1
    assert written.count("\x1b[?25h") == 1
    assert written.rstrip().endswith("\x1b[?25h")
    assert "\x1b[1m" in written


@pytest.mark.commands
def test_no_color_keeps_the_table_without_colours():
    written, _ = run_on_a_terminal(None, NO_COLOR="1")
    assert screen_after(written) == EXPECTED
    assert not re.search(r"\x1b\[[0-9;]*m", written)


@pytest.mark.commands
def test_a_dumb_terminal_gets_lines():
    written, _ = run_on_a_terminal(None, TERM="dumb")
    assert "\x1b" not in written
    assert written.splitlines() == [
        "iter 1/4 | 64 frames | 100 fps | return 1 (0.75..1.25)",
        "iter 2/4 | 128 frames | 100 fps | return 2 (1.75..2.25)",
        "saved step_128.ckpt",
        "iter 3/4 | 192 frames | 100 fps | return 3 (2.75..3.25)",
    ]
