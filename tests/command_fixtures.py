"""Fixtures of tests that run the command: a folder for each test, and tables in it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder of its own for each test, and no colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def irises(here):
    frame = load_iris(as_frame=True).frame
    names = load_iris().target_names
    frame["species"] = [str(names[k]) for k in frame.pop("target")]
    frame["soil"] = ["wet", "dry", "wet"] * 50
    frame.loc[3, "sepal length (cm)"] = np.nan
    frame.to_csv(here / "iris.csv", index=False)
    return frame


@pytest.fixture
def diabetes(here):
    frame = load_diabetes(as_frame=True, scaled=False).frame
    frame.to_csv(here / "diabetes.csv", index=False)
    return frame
