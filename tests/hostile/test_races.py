"""A run that ends against a run that resumes: every order leaves every row once."""

import pytest

import fault_races

pytestmark = pytest.mark.hostile


def test_no_order_of_an_end_and_a_resume_loses_or_doubles_a_row(tmp_path):
    found = fault_races.race(5, tmp_path)
    assert found == fault_races.Races(races=5, resumed=4, refused=1, lost=0, double=0, wrong=0)
