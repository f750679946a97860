"""What counts as slower than before, on ratios that are made up."""

from __future__ import annotations

import json

import pytest

watch = pytest.importorskip("watch", reason="the source distribution has no benchmarks")


def test_only_what_lost_more_than_a_tenth_is_slower():
    before = {"a": 2.0, "b": 2.0, "c": 2.0, "gone": 2.0}
    found = {"a": 1.81, "b": 1.0, "c": 1.7, "new": 0.1}
    changes = watch.compared(found, before)
    assert [change.task for change in changes] == ["a", "b", "c"]
    assert [change.task for change in watch.slower(changes)] == ["b", "c"]
    assert watch.slower(changes)[0].lost == pytest.approx(0.5)


@pytest.mark.parametrize(("values", "expected"), [([1.9], 1.9), ([1.0, 1.2, 1.95], 1.95)])
def test_a_ratio_that_fell_is_measured_again_until_it_is_back(values, expected):
    left = iter(values)
    assert watch.measured(lambda: {"a": next(left)}, {"a": 2.0}) == {"a": expected}
    assert not list(left)


def test_what_stays_slower_is_believed_in_the_end():
    tries = []

    def measure():
        tries.append(None)
        return {"a": 1.0}

    assert watch.measured(measure, {"a": 2.0}) == {"a": 1.0}
    assert len(tries) == watch.AGAIN


def test_every_use_of_the_suite_exists():
    names = {use.name: use.largest for use in watch.sweep.uses()}
    for name, sizes in watch.USES.items():
        assert max(sizes) <= names[name]
    assert set(watch.GRAMS) <= set(watch.gram.CASES)


def test_the_exit_status_and_the_list(tmp_path, monkeypatch, capsys):
    path = tmp_path / "ratios.json"
    monkeypatch.setattr(watch, "suite", lambda: [lambda: {"fit": 3.0}, lambda: {"predict": 8.0}])
    watch.store(path, rounds=3)
    assert json.loads(path.read_text())["ratios"] == {"fit": 3.0, "predict": 8.0}
    assert watch.compare(path) == 0
    monkeypatch.setattr(watch, "suite", lambda: [lambda: {"fit": 2.0}, lambda: {"predict": 9.0}])
    assert watch.compare(path) == 1
    assert "fit: 3.00x before, 2.00x now" in capsys.readouterr().out
