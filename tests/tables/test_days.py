"""Days are read as Python's own parser reads them."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from mercer.tables.days import eight_digits, is_day, times

FORMS = ["%Y-%m-%d", "%d.%m.%Y", "%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y"]


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_days(form):
    days = np.arange("1999-12-20", "2001-03-05", 13, dtype="datetime64[D]")
    words = [day.item().strftime(form) for day in days]
    assert all(map(is_day, words))
    np.testing.assert_array_equal(times(words).astype("datetime64[D]"), days)
    assert [datetime.strptime(word, form).date() for word in words] == days.tolist()


def test_months_and_times_of_day():
    assert times(["2020-11"])[0] == np.datetime64("2020-11-01")
    assert times(["08:30", "8:30:15"]).tolist() == [
        datetime(1970, 1, 1, 8, 30),
        datetime(1970, 1, 1, 8, 30, 15),
    ]


@pytest.mark.parametrize(
    "word", ["2020-13", "24:00", "Smarch 3, 2020", "Feb 30, 2020", "3 4 2020", "1/2/2020", "8", 3]
)
def test_what_is_no_day(word):
    assert not is_day(word)


def test_eight_digits():
    assert eight_digits(np.array([20240229])).tolist() == [datetime(2024, 2, 29).date()]
    for wrong in ([20230229], [1, 20240101], [20240101, 99999999], []):
        assert eight_digits(np.array(wrong, dtype=int)) is None
