"""Checks of options: the message names the option, the value and what is expected."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from navrl.config import checks
from navrl.config.checks import ConfigError

EXPECTED = [
    (checks.require_whole, (0, 1, 8), "a whole number from 1 to 8"),
    (checks.require_whole, (2.0, 1, 8), "a whole number from 1 to 8"),
    (checks.require_whole, (True, 1), "a whole number, 1 or more"),
    (checks.require_number, (math.inf,), "a finite number"),
    (checks.require_number, (10**400,), "a finite number"),
    (checks.require_number, (True, 0.0), "a finite number of at least 0"),
    (checks.require_number, (0.0, None, 0.0, 1.0), "a finite number above 0 and of at most 1"),
    (checks.require_choice, ("syn", ("sync", "async")), "one of sync, async; did you mean 'sync'?"),
    (checks.require_flag, (1,), "true or false"),
    (checks.require_flag, ("yes",), "true or false"),
]


@pytest.mark.parametrize(("check", "arguments", "expected"), EXPECTED)
def test_a_wrong_value_is_refused_in_one_form(check, arguments, expected):
    sentence = f"a.b = {arguments[0]}; expected {expected}; change a.b"
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}$"):
        check("a.b", *arguments)


def test_right_values_pass():
    checks.require_whole("n", 8, 1, 8)
    checks.require_number("x", 1, least=0.0, most=1.0)
    checks.require_choice("c", "sync", ("sync", "async"))
    checks.require_flag("f", False)


@pytest.mark.parametrize(
    ("option", "named"), [("--svg", "--svg no/x"), ("output", "output = no/x")]
)
def test_a_file_that_cannot_be_written_names_the_option(option, named):
    with pytest.raises(ConfigError, match=f"{named}; .* change {option}"):
        checks.require_writable(Path("no/x"), option)


def test_importing_checks_imports_neither_torch_nor_hydra():
    program = "import sys, navrl.config.checks; assert not {'torch', 'hydra'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", program], check=True)
