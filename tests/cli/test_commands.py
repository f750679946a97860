"""The commands, as a person types them."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from typer.testing import CliRunner

import mercer
from mercer import kernels as K
from mercer.cli import fitting, main, models
from mercer.cli.app import app
from mercer.cli.columns import described, nonnumbers, numbers_meant, task_of
from mercer.cli.density import estimate
from mercer.cli.evaluation import quality
from mercer.cli.pages import page
from mercer.cli.predicting import score_of
from mercer.cli.readers import Data, read

runner = CliRunner()


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


def run(*arguments, status=0, **named):
    result = runner.invoke(app, [str(argument) for argument in arguments], **named)
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def read_table(name, frame):
    frame.to_csv(name, index=False)
    return read(name)


def refused(*arguments, left=(), **named):
    """The line that a wrong command gives; nothing else is written or left."""
    before = set(os.listdir())
    result = run(*arguments, status=2, **named)
    assert result.stdout == ""
    assert re.fullmatch(r"mercer: [^\n]+\n", result.stderr)
    assert set(os.listdir()) == before
    return result.stderr


# fit


def test_fit_classes(irises):
    result = run("fit", "iris.csv", "--target", "species", "-o", "iris.mercer")
    lines = result.stdout
    for word in ("150 rows", "classification of species", "accuracy", "±", "baseline", "kernel"):
        assert word in lines
    notes = mercer.read_notes("iris.mercer")
    assert notes["score"]["value"] > 0.8 > 0.5 > notes["score"]["baseline"]
    kinds = {column["name"]: column["kind"] for column in notes["columns"]}
    assert kinds["soil"] == "category"
    assert kinds["petal width (cm)"] == "number"
    model = mercer.load("iris.mercer")
    assert np.mean(model.predict(irises.drop(columns="species")) == irises["species"]) > 0.9
    assert sorted(os.listdir()) == ["iris.csv", "iris.mercer"]


def test_fit_numbers_and_json(diabetes):
    result = run("fit", "diabetes.csv", "-t", "target", "--json")
    found = json.loads(result.stdout)
    assert found["task"] == "regression"
    assert found["trained on"] + found["tested on"] == found["rows"] == len(diabetes)
    assert found["score"]["name"] == "R²"
    assert abs(found["score"]["baseline"]) < 0.1
    assert found["saved as"] == "diabetes.mercer"
    assert found["kernel is"] == "valid"
    assert found["certificate"]["gap"] < 1e-6
    assert os.path.exists("diabetes.mercer")


def test_the_score_is_that_of_the_model_on_the_rows_held_out(diabetes):
    """The file holds what is needed to find the same rows, and the same score."""
    from mercer.cli.readers import read

    data = read("diabetes.csv", target="target")
    model, summary = fitting.fit(data, random_state=3)
    _, X_test, _, y_test = fitting.evaluation.split(
        data.X, np.asarray(data.y, dtype=float), "regression", 0.25, 3
    )
    residual = np.sum((y_test - model.predict(X_test)) ** 2)
    expected = 1 - residual / np.sum((y_test - y_test.mean()) ** 2)
    assert summary["score"]["value"] == pytest.approx(expected, rel=1e-12)


def test_quiet_says_nothing(irises):
    result = run("fit", "iris.csv", "-t", "species", "-q")
    assert result.stdout == result.stderr == ""
    assert os.path.exists("iris.mercer")


def test_columns_can_be_left_out(irises):
    run("fit", "iris.csv", "-t", "species", "--ignore", "soil", "--ignore", "petal width (cm)")
    notes = mercer.read_notes("iris.mercer")
    assert len(notes["columns"]) == 3
    assert notes["left out"]["soil"] == "as asked"
    assert "no such column" in refused("fit", "iris.csv", "-t", "species", "--ignore", "x")


def test_sequences_and_graphs_and_arrays(here):
    rng = np.random.default_rng(0)
    with open("s.fa", "w") as file:
        for i in range(60):
            letters = "AACGT" if i % 2 else "ACGTT"
            sequence = "".join(rng.choice(list(letters), size=60))
            file.write(f">s{i} kind={'ab'[i % 2]}\n{sequence}\n")
    assert json.loads(run("fit", "s.fa", "-t", "kind", "--json").stdout)["score"]["value"] > 0.6
    X = rng.normal(size=(80, 3))
    np.savez("a.npz", X=X, y=X[:, 0] ** 2)
    assert json.loads(run("fit", "a.npz", "--json").stdout)["task"] == "regression"
    np.savez("b.npz", X_train=X, y_train=X[:, 0] > 0, X_test=X + 0.1, y_test=X[:, 0] > -0.1)
    found = json.loads(run("fit", "b.npz", "--json").stdout)
    assert (found["trained on"], found["tested on"]) == (80, 80)
    paths, labels = [], []
    for i in range(40):
        size = 5 + i % 3
        ring = [(k, (k + 1) % size) for k in range(size)]
        paths.append(ring if i % 2 else ring[:-1])
        labels.append(i % 2)
    write_graphs(here / "G", paths, labels)
    found = json.loads(run("fit", "G", "--json").stdout)
    assert found["score"]["value"] > 0.9
    assert "WeisfeilerLehman" in found["kernel"]
    out = run("predict", "G.mercer", "G").stdout.splitlines()
    assert np.mean([int(line) for line in out[1:]] == np.array(labels)) > 0.9


def write_graphs(folder, edges, labels):
    folder.mkdir()
    name, start, rows, owners = folder.name, 1, [], []
    for k, graph in enumerate(edges):
        size = max(max(edge) for edge in graph) + 1
        rows += [f"{start + a}, {start + b}\n{start + b}, {start + a}" for a, b in graph]
        owners += [str(k + 1)] * size
        start += size
    for suffix, lines in (("A", rows), ("graph_indicator", owners), ("graph_labels", labels)):
        (folder / f"{name}_{suffix}.txt").write_text("\n".join(map(str, lines)) + "\n")


def test_the_same_seed_gives_the_same_model(irises):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("fit", "iris.csv", "-t", "species", "-o", f"{name}.mercer", "--seed", seed, "-q")
    scores = {name: mercer.read_notes(f"{name}.mercer")["held out"] for name in "abc"}
    assert scores["a"] == scores["b"] != scores["c"]


def test_refit_trains_on_all_rows(irises):
    found = json.loads(run("fit", "iris.csv", "-t", "species", "--refit", "--json").stdout)
    assert found["trained on"] == 150


def test_the_task_is_worked_out():
    def of(values, text=True, dtype=None):
        return task_of(pd.Series(values, dtype=dtype), text)

    rng = np.random.default_rng(0)
    assert of(["a", "b"] * 20) == "classification"
    assert of([True, False] * 20) == "classification"
    assert of([0, 1] * 20) == "classification"
    assert of([1.0, 2.0, None] * 20) == "classification"
    assert of([1.0, 2.0] * 20, text=False) == "regression"
    assert of(range(40)) == "regression"
    assert of(rng.normal(size=40)) == "regression"
    assert of([1, 2, 3] * 20, dtype="category") == "classification"


def test_columns_are_described():
    n = 60
    frame = pd.DataFrame(
        {
            "number": [None, *range(1, n)],
            "group": ["x", "y", None] * (n // 3),
            "text": [f"sentence number {i} of many" for i in range(n)],
            "void": [None] * n,
        }
    )
    rows = described(frame, ["number", "category", "text", "category"])
    assert [row["missing"] for row in rows] == [1, 20, 0, 60]
    held = [row["holds"] for row in rows]
    assert held == ["1 to 59", "x, y", "25 to 26 letters", "nothing"]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["fit"], "Missing argument 'DATA'"),
        (["fit", "missing.csv", "-t", "y"], r"missing\.csv: No such file"),
        (["fit", "iris.csv"], "--target: say which column .* sepal"),
        (["fit", "iris.csv", "-t", "kind"], "--target kind: there is no such column"),
        (["fit", "iris.csv", "-t", "species", "--task", "regression"], "not a number"),
        (["fit", "iris.csv", "-t", "species", "--task", "magic"], "'magic' is not one of"),
        (["fit", "iris.csv", "-t", "species", "-o", "no/where"], "folder .* does not exist"),
        (["fit", "iris.csv", "-t", "species", "--format", "xml"], "--format xml"),
        (["fit", "iris.csv", "-t", "species", "--holdout", "2"], "holdout"),
        (["fit", "iris.csv", "-t", "species", "--report", "no/page.html"], "does not exist"),
        (["fit", "iris.csv", "-t", "Species"], "did you mean species?"),
        (["fit", "iris.csv", "-t", "species", "--ignore", "soli"], "did you mean soil?"),
        (["predict", "iris.csv", "iris.csv"], "iris.csv is not a model"),
        (["predict", "-", "-"], "cannot both"),
        (
            ["fit", "iris.csv", "-t", "species", "-o", "./iris.csv"],
            "nothing can be written to ./iris.csv: it is read",
        ),
        (
            ["fit", "iris.csv", "-t", "species", "-o", "m", "--report", "m"],
            "m: something else goes there",
        ),
        (
            ["fit", "iris.csv", "-t", "species", "-o", "-", "--report", "-"],
            "standard output: something else",
        ),
        (["fit", "iris.csv", "-t", "species", "-o", "."], "not a regular file"),
        (["predict", "iris.csv", "iris.csv", "-o", "iris.csv"], "iris.csv: it is read"),
        (["density", "iris.csv", "-o", "iris.csv"], "iris.csv: it is read"),
        (["density", "iris.csv", "--save", "d", "--report", "d"], "d: something else"),
        (["report", "iris.csv", "-o", "iris.csv"], "iris.csv: it is read"),
        (["predict", "it.mercer", "iris.csv", "-o", "p.xlsx"], "written as .csv"),
        (["density", "iris.csv", "-o", "p.parquet"], "written as .csv"),
        (["check", "RBF("], "RBF"),
        (["check", "__import__('os')"], "mercer"),
        (["kernels", "RFB"], "did you mean RBF?"),
        (["kernels", "Magic"], "there is no kernel Magic"),
        (["density", "iris.csv", "-c", "species"], "no such column of numbers"),
        (["density", "iris.csv", "-c", "soil", "--bandwidth", "wide"], "soil"),
        (["density", "iris.csv", "--bandwidth", "wide"], "--bandwidth wide: there are isj, lscv"),
        (["density", "iris.csv", "--bandwidth", "Scot"], "did you mean scott?"),
        (["density", "iris.csv", "--bandwidth", "-1"], "a number above 0"),
        (
            ["density", "iris.csv", "--kernel", "gausian"],
            "--kernel gausian: did you mean gaussian?",
        ),
        (["report", "missing.mercer"], r"missing\.mercer: No such file"),
        (["magic"], "No such command 'magic'"),
        (["--magic"], "No such option"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_errors_are_one_line(arguments, match, irises):
    assert re.search(match, refused(*arguments))


def test_small_and_constant_tables_are_refused(here):
    pd.DataFrame({"a": [1, 2], "y": [1, 2]}).to_csv("few.csv", index=False)
    assert "10 are needed" in refused("fit", "few.csv", "-t", "y")
    pd.DataFrame({"a": range(20), "y": ["x"] * 20}).to_csv("same.csv", index=False)
    assert "nothing to learn" in refused("fit", "same.csv", "-t", "y")
    pd.DataFrame({"a": range(20), "y": [3.5] * 20}).to_csv("same.csv", index=False)
    assert "the target is 3.5 throughout" in refused("fit", "same.csv", "-t", "y")
    days = pd.date_range("2024-01-01", periods=20).strftime("%Y-%m-%d")
    pd.DataFrame({"a": range(20), "y": days}).to_csv("days.csv", index=False)
    assert "no two rows have the same target" in refused("fit", "days.csv", "-t", "y")
    pd.DataFrame({"y": range(20)}).to_csv("alone.csv", index=False)
    assert "no column beside" in refused("fit", "alone.csv", "-t", "y")


def test_what_is_infinite_is_named(here):
    pd.DataFrame({"a": [*range(19), np.inf], "y": range(20)}).to_csv("t.csv", index=False)
    assert "column 'a' of t.csv is infinite in row 19" in refused("fit", "t.csv", "-t", "y")


def test_a_model_no_better_than_a_constant_is_called_so(irises):
    rng = np.random.default_rng(0)
    for name, y in {"number": rng.normal(size=150), "class": rng.choice(["a", "b"], 150)}.items():
        irises[["soil"]].assign(y=y).to_csv(f"{name}.csv", index=False)
        found = run("fit", f"{name}.csv", "-t", "y", "--report", "p.html")
        assert "no better than a constant" in found.stderr
        assert "no better than a constant" in pathlib.Path("p.html").read_text()
    found = run("fit", "iris.csv", "-t", "species", "--report", "p.html")
    assert "no better" not in found.stderr + pathlib.Path("p.html").read_text()


def test_a_constant_among_the_rows_held_out_leaves_no_score(here):
    rng = np.random.default_rng(0)
    y = [0.5, *[0.25] * 39]
    pd.DataFrame({"a": rng.normal(size=40), "b": y, "y": y}).to_csv("t.csv", index=False)
    found = run("fit", "t.csv", "-t", "y", "--max-time", "1", "--report", "p.html")
    assert re.search("R² +unknown ± unknown", found.stdout)
    assert found.stderr.count("\n\n") == 1
    assert "0.25 in all rows held out" in found.stderr
    assert mercer.read_notes("t.mercer")["importances"] is None


def test_a_row_that_is_alone_in_its_class_is_trained_on():
    y = np.array(["a", *"bc" * 10])
    for seed in range(20):
        X_train, X_test, y_train, y_test = fitting.evaluation.split(
            np.arange(21), y, "classification", 0.25, seed
        )
        assert "a" in y_train
        assert sorted([*X_train, *X_test]) == list(range(21))
        assert abs(np.sum(y_test == "b") - np.sum(y_test == "c")) <= 1
        assert np.array_equal(y[X_test], y_test)


def test_scores_of_few_rows_have_errors_of_their_size():
    y = np.array([0.1, 0.2, 0.3])
    assert np.isnan(quality("regression", y[[0, 0, 0]], y))
    found = fitting.evaluation.scored("regression", y, np.array([0.11, 0.19, 0.31]), y)
    assert 0 < found["error"] < 1


def test_scores_of_huge_numbers():
    y = np.array([1.0, 2.0, 3.0, 5.0])
    for unit in (1.0, 1e300):
        found = quality("regression", unit * y, unit * np.array([1.0, 2.0, 3.0, 4.0]))
        assert found == pytest.approx(1 - 1 / 8.75)


def test_days_are_learnt_from(here):
    days = pd.date_range("2024-01-01", periods=120).strftime("%Y-%m-%d")
    pd.DataFrame({"day": days, "y": np.arange(120) ** 2 / 7}).to_csv("t.csv", index=False)
    found = json.loads(run("fit", "t.csv", "-t", "y", "--json").stdout)
    assert found["columns"][0]["holds"] == "2024-01-01 to 2024-04-29"
    assert found["score"]["value"] > 0.99
    assert "R² 1.000" in run("predict", "t.mercer", "t.csv").stderr


def test_short_words_are_seen_letter_by_letter(here):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), rng.integers(2, 5))) for _ in range(200)]
    y = ["yes" if "a" in word else "no" for word in words]
    pd.DataFrame({"word": words, "y": y}).to_csv("t.csv", index=False)
    found = json.loads(run("fit", "t.csv", "-t", "y", "--json").stdout)
    assert found["score"]["value"] == 1.0


def test_a_failing_fit_keeps_the_old_model(irises, monkeypatch):
    run("fit", "iris.csv", "-t", "species", "-q")
    with open("iris.mercer", "rb") as file:
        before = file.read()

    def fail(*arguments):
        raise MemoryError("the Gram matrix does not fit")

    monkeypatch.setattr(models, "train", fail)
    assert "does not fit" in refused("fit", "iris.csv", "-t", "species")
    with open("iris.mercer", "rb") as file:
        assert file.read() == before


def test_rows_without_a_target_are_not_used(irises):
    irises.loc[:9, "species"] = None
    irises.to_csv("holes.csv", index=False)
    found = json.loads(run("fit", "holes.csv", "-t", "species", "--json").stdout)
    assert found["rows"] == 140
    assert found["rows without a target"] == 10


# predict


def test_predict(irises):
    run("fit", "iris.csv", "-t", "species", "-q")
    result = run("predict", "iris.mercer", "iris.csv")
    lines = result.stdout.splitlines()
    assert lines[0] == "prediction"
    assert len(lines) == 151
    share = np.mean([a == b for a, b in zip(lines[1:], irises["species"], strict=True)])
    assert f"accuracy {share:.3f} on the 150 rows" in result.stderr
    model = mercer.load("iris.mercer")
    assert lines[1:] == model.predict(irises.drop(columns="species")).tolist()


def test_a_model_where_the_data_should_be_is_told(irises):
    run("fit", "iris.csv", "-t", "species")
    told = refused("predict", "iris.csv", "iris.mercer")
    assert "the model comes first: mercer predict iris.mercer iris.csv" in told
    assert "it is a model" in refused("predict", "iris.mercer", "iris.mercer")
    assert "it is a model" in refused("fit", "iris.mercer")


def test_arrays_are_taken_in_the_order_of_training(diabetes):
    run("fit", "diabetes.csv", "-t", "target")
    expected = run("predict", "diabetes.mercer", "diabetes.csv").stdout
    np.savez("t.npz", X=diabetes.drop(columns="target").to_numpy(dtype=float))
    result = run("predict", "diabetes.mercer", "t.npz")
    assert result.stdout == expected
    assert result.stderr == "t.npz has no names; its columns are taken in the order of training\n"


def test_graphs_and_tables_are_told_apart(here, diabetes):
    graphs = [K.Graph.from_adjacency(np.ones((k, k)) - np.eye(k)) for k in range(2, 22)]
    model = mercer.KernelRidge(kernel=K.WeisfeilerLehman()).fit(graphs, np.arange(20.0))
    mercer.save(model, "g.mercer", notes={"columns": [{"name": "graphs", "kind": "graph"}]})
    told = refused("predict", "g.mercer", "diabetes.csv")
    assert "diabetes.csv holds a table, and the model was trained on graphs" in told


def test_predictions_in_files_of_all_kinds(irises):
    run("fit", "iris.csv", "-t", "species", "-q")
    for name in ("p.csv", "p.tsv", "p.jsonl", "p.npz"):
        run("predict", "iris.mercer", "iris.csv", "-o", name)
    expected = pd.read_csv("p.csv")["prediction"].tolist()
    assert pd.read_csv("p.tsv", sep="\t")["prediction"].tolist() == expected
    with open("p.jsonl") as file:
        assert [json.loads(line)["prediction"] for line in file] == expected
    assert np.load("p.npz")["prediction"].tolist() == expected
    found = json.loads(run("predict", "iris.mercer", "iris.csv", "--json").stdout)
    assert found == {"prediction": expected}


def test_predict_with_a_model_of_libsvms(here):
    rows = ["1 1:1 2:0.5", "-1 1:-2", "1 1:0.5 3:4"]
    (here / "new.svm").write_text("\n".join(rows) + "\n")
    head = "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\n"
    model = here / "libsvm.model"
    model.write_text(head + "label 1 -1\nnr_sv 1 1\nSV\n1 1:1\n-1 1:-1 2:1\n")
    points = np.array([[1, 0.5, 0], [-2, 0, 0], [0.5, 0, 4]])
    near = np.exp(-0.5 * np.sum((points - [1, 0, 0]) ** 2, axis=1))
    far = np.exp(-0.5 * np.sum((points - [-1, 1, 0]) ** 2, axis=1))
    expected = ["1" if f > 0 else "-1" for f in near - far - 0.1]
    assert run("predict", model, "new.svm").stdout.split() == ["prediction", *expected]
    assert set(expected) == {"1", "-1"}
    piped = run("predict", "-", "new.svm", input=model.read_bytes()).stdout.split()
    assert piped == ["prediction", *expected]
    model.write_text(head)
    result = run("predict", model, "new.svm", status=2)
    assert "LIBSVM" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_predict_takes_columns_in_any_order(irises):
    run("fit", "iris.csv", "-t", "species", "-q")
    expected = run("predict", "iris.mercer", "iris.csv").stdout
    irises.iloc[:, ::-1].drop(columns="species").assign(more=1).to_csv("turned.csv", index=False)
    assert run("predict", "iris.mercer", "turned.csv").stdout == expected
    irises.drop(columns="soil").to_csv("less.csv", index=False)
    assert "lacks the column 'soil'" in refused("predict", "iris.mercer", "less.csv")


def test_targets_that_cannot_be_scored_are_told(diabetes):
    run("fit", "diabetes.csv", "-t", "target", "-q", "--max-time", "1")
    diabetes["target"] = diabetes["target"].astype(object)
    diabetes.loc[3, "target"] = "unknown"
    diabetes.loc[4, "target"] = None
    diabetes.to_csv("some.csv", index=False)
    result = run("predict", "diabetes.mercer", "some.csv", "-o", "p.csv")
    predicted = pd.read_csv("p.csv")["prediction"].drop(index=[3, 4])
    y = diabetes["target"].drop(index=[3, 4]).astype(float)
    r2 = 1 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2)
    told = " ".join(result.stderr.split())
    assert f"R² {r2:.3f} on the {len(y)} rows" in told
    assert "of 1 the target is not a number, such as 'unknown'" in told
    diabetes.assign(target="?").to_csv("none.csv", index=False)
    assert "no R²; of 442 the" in run("predict", "diabetes.mercer", "none.csv").stderr


@pytest.mark.parametrize(
    ("labels", "given", "right"),
    [
        ([0, 1], ["0", "1.0", "word"], 2 / 2),
        ([0, 1], ["0.5", "1", "1"], 2 / 3),
        (["no", "yes"], ["no", "yes", "perhaps"], 2 / 3),
        ([False, True], ["False", "True", "False"], 2 / 3),
    ],
    ids=["numbers", "between", "words", "truth"],
)
def test_labels_are_compared_by_what_they_say(labels, given, right, here):
    data = read_table("t.csv", pd.DataFrame({"y": given}))
    predicted = np.array(labels)[[0, 1, 1]]
    notes = {"task": "classification", "target": "y", "score": {"name": "accuracy"}}
    told = score_of(notes, data, {"prediction": predicted})
    assert told.startswith(f"accuracy {right:.3f} on the")


def test_words_where_numbers_were_are_warned_of(diabetes):
    run("fit", "diabetes.csv", "-t", "target", "-q", "--max-time", "1")
    diabetes["bmi"] = diabetes["bmi"].astype(object)
    diabetes.loc[[3, 4], "bmi"] = "much"
    diabetes.to_csv("words.csv", index=False)
    told = run("predict", "diabetes.mercer", "words.csv").stderr
    assert re.search("'bmi' .* 2 .* 'much'", " ".join(told.split()))


def test_stray_words_among_numbers_are_missing_values_in_training(diabetes):
    frame = diabetes.astype({"bmi": object, "target": object})
    frame.loc[7, "bmi"] = "much"
    frame.loc[[8, 9], "target"] = "lots"
    frame.to_csv("words.csv", index=False)
    result = run("fit", "words.csv", "-t", "target", "--max-time", "1")
    assert "'bmi' holds numbers and 1 of other words, such as 'much'" in result.stderr
    assert "'target' holds numbers and 2 of other words" in result.stderr
    assert "440 rows" in result.stdout
    assert "regression" in result.stdout
    kinds = {c["name"]: c["kind"] for c in mercer.read_notes("words.mercer")["columns"]}
    assert set(kinds.values()) == {"number"}


def test_words_among_few_numbers_are_categories():
    column = pd.Series([*map(str, range(1, 20)), "A"] * 20)
    assert numbers_meant(column) is None
    assert nonnumbers(column) == ["A"] * 20
    assert numbers_meant(pd.Series(range(100))) is None


def test_a_model_of_arrays_takes_tables_of_as_many_columns(diabetes):
    X, y = diabetes.drop(columns="target"), diabetes["target"]
    np.savez("a.npz", X=X.to_numpy(), y=y.to_numpy())
    run("fit", "a.npz", "-q", "--max-time", "1")
    expected = run("predict", "a.mercer", "a.npz").stdout
    X.to_csv("x.csv", index=False)
    assert run("predict", "a.mercer", "x.csv").stdout == expected
    X.assign(y=y).to_csv("xy.csv", index=False)
    assert run("predict", "a.mercer", "xy.csv").stdout == expected
    told = refused("predict", "a.mercer", "diabetes.csv")
    assert "diabetes.csv has 11 columns to predict from, and the model was trained on 10" in told


def test_all_columns_that_are_missing_are_named(irises):
    run("fit", "iris.csv", "-t", "species", "-q", "--max-time", "1")
    irises.drop(columns=["soil", "petal width (cm)"]).to_csv("less.csv", index=False)
    told = refused("predict", "iris.mercer", "less.csv")
    assert "lacks the columns 'petal width (cm)', 'soil'" in told


def test_predict_numbers_from_narrower_libsvm_files(here):
    rng = np.random.default_rng(0)
    lines = [f"{a + b:.3f} 1:{a:.3f} 2:{b:.3f} 3:1" for a, b in rng.normal(size=(40, 2))]
    (here / "t.svm").write_text("\n".join(lines) + "\n")
    (here / "n.svm").write_text("\n".join(line.rpartition(" ")[0] for line in lines) + "\n")
    run("fit", "t.svm", "-q")
    assert len(run("predict", "t.mercer", "n.svm").stdout.splitlines()) == 41


def test_models_saved_from_python(irises):
    X, y = irises.iloc[:, 1:4], irises["species"]
    mercer.save(mercer.KernelRidgeClassifier().fit(X, y), "python.mercer")
    assert len(run("predict", "python.mercer", "iris.csv").stdout.splitlines()) == 151
    assert "KernelRidgeClassifier" in run("report", "python.mercer").stdout
    assert "does not have any" in refused("predict", "python.mercer", "iris.csv", "--probabilities")


# check, kernels, density


def test_check():
    assert "is a kernel" in run("check", "0.5 * RBF(0.1) + Polynomial(2)").stdout
    assert "sum of kernels" in run("check", "0.5 * RBF(0.1) + Polynomial(2)").stdout
    shown = run("check", "Sigmoid(1.0, 1.0)", status=1).stdout
    assert "is not a kernel" in shown
    assert "eigenvalue" in shown
    found = json.loads(run("check", "Sigmoid(1.0, 1.0)", "--json", status=1).stdout)
    assert found["status"] == "indefinite"
    points = np.array(found["counterexample"]["points"])
    assert np.linalg.eigvalsh(K.Sigmoid(1.0, 1.0)(points))[0] < 0
    assert json.loads(run("check", "Linear()", "--json").stdout)["counterexample"] is None
    assert "perhaps" in run("check", "Polynomial(2) - Linear()", status=3).stdout


def test_a_proof_has_a_line_for_each_step(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shown = run("check", "RBF(0.5) * Polynomial(2) + 1").stdout
    assert shown == f"{(K.RBF(0.5) * K.Polynomial(2) + 1).validity.proof}\n"


def test_an_error_in_an_expression_is_named_with_its_place():
    told = refused("check", "Linear() + RFB(0.5)")
    assert told == (
        "mercer: Linear() + RFB(0.5): column 12: unknown kernel 'RFB'; did you mean RBF?\n"
    )
    assert refused("check", "").startswith("mercer: column 1: the text is empty")


def test_kernels():
    shown = run("kernels").stdout
    named = {name for name, cls in K.REGISTRY.items() if cls.__module__.startswith("mercer.")}
    made = {"Sum", "Product", "Power", "Exp", "Normalized", "Rescaled", "Composed", "OnColumns"}
    assert all(name in shown for name in named - made)
    assert "RBF(gamma=1.0, scales=None)" in shown
    assert "gamma" in run("kernels", "RBF").stdout
    listed = json.loads(run("kernels", "--json").stdout)["kernels"]
    assert {row["name"] for row in listed} == named - made


def test_density(irises):
    shown = run("density", "iris.csv", "-c", "petal length (cm)").stdout
    assert "bandwidth" in shown
    assert "isj" in shown
    out = run("density", "iris.csv", "-c", "0", "-c", "1", "-o", "-").stdout.splitlines()
    assert out[0].endswith(",density")
    assert len(out) == 150  # one row has a missing value
    X = irises.iloc[:, :2].dropna().to_numpy()
    expected = mercer.KernelDensity(bandwidth="plugin").fit(X).pdf(X)
    np.testing.assert_allclose([float(line.split(",")[2]) for line in out[1:]], expected)
    found = json.loads(run("density", "iris.csv", "--json", "--save", "d.mercer").stdout)
    assert found["rows"] == 149
    assert isinstance(mercer.load("d.mercer"), mercer.KernelDensity)


def test_densities_of_columns_that_hold_nothing_or_one_value(irises):
    irises["empty"] = None
    irises.to_csv("some.csv", index=False)
    assert len(json.loads(run("density", "some.csv", "--json").stdout)["columns"]) == 4
    assert "0 complete rows" in refused("density", "some.csv", "-c", "empty")
    irises["same"] = 2.5
    irises.to_csv("some.csv", index=False)
    assert "column 'same' of some.csv is 2.5 throughout" in refused("density", "some.csv")
    run("density", "some.csv", "-c", "same", "--bandwidth", "1")


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_densities_are_drawn_where_the_rows_are_in_any_unit(unit, irises):
    x = unit * irises["petal length (cm)"]
    _, _, _, summary = estimate(Data(pd.DataFrame({"x": x})), None, None, "gaussian")
    at, density = np.array(summary["grid"]["axes"]["x"]), np.array(summary["grid"]["density"])
    np.testing.assert_allclose(at[[0, -1]], unit * np.array([0.115, 7.785]))
    assert np.trapezoid(density, at) == pytest.approx(1.0, abs=0.01)


def test_densities_are_of_the_columns_asked_for(irises):
    irises.insert(0, "rownames", range(1, 151))
    irises.insert(1, "grower", irises.pop("soil"))
    irises.to_csv("rows.csv", index=False)
    by_name = run("density", "rows.csv", "-c", "sepal width (cm)", "-o", "-").stdout
    assert run("density", "rows.csv", "-c", "3", "-o", "-").stdout == by_name
    shown = run("density", "rows.csv", "-c", "rownames", "--report", "d.html", "--save", "d.mercer")
    assert "left out" not in shown.stdout
    assert "saved as d.mercer, report in d.html" in shown.stderr
    assert "grower holds 'wet'" in refused("density", "rows.csv", "-c", "1")
    shown = run("density", "rows.csv", "-c", "2", "-c", "3", "--bandwidth", "plugin").stdout
    assert re.search(r"bandwidth +\[\[[\d.]+, -?[\d.]+\], \[-?[\d.]+, [\d.]+\]\] \(plugin\)", shown)


# pages


class Page(HTMLParser):
    """The tags of a page, which must all be closed, and what they point at."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.seen = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check_page(text):
    found = Page(text)
    assert not found.open
    assert "script" not in found.seen
    assert "link" not in found.seen
    assert all(link.startswith("data:image/svg+xml;base64,") for link in found.links)
    return found


def test_the_report_is_one_page_that_needs_nothing_else(irises, diabetes):
    run("fit", "iris.csv", "-t", "species", "--report", "iris.html", "-q")
    run("fit", "diabetes.csv", "-t", "target", "--report", "diabetes.html", "-q")
    run("density", "iris.csv", "-c", "0", "--report", "density.html", "-q")
    for name, plots in (("iris", 3), ("diabetes", 3), ("density", 1)):
        with open(f"{name}.html", encoding="utf-8") as file:
            text = file.read()
        assert check_page(text).seen.count("img") >= plots
    run("report", "iris.mercer", "-o", "again.html")
    with open("again.html") as again, open("iris.html") as first:
        assert again.read() == first.read()
    assert check_page(run("report", "iris.mercer", "-o", "-").stdout)
    run("report", "iris.mercer", "-q")
    assert os.path.exists("iris.html")


def test_what_data_say_is_shown_as_text():
    """A model's notes may come from anyone."""
    evil = "<script>alert(1)</script>\"'&"
    summary = {
        "data": evil,
        "rows": 3,
        "target": evil,
        "task": evil,
        "kernel": evil,
        "proof": evil,
        "columns": [{"name": evil, evil: evil}],
        "tried": [{evil: evil}],
        "advice": [evil],
        "title": evil,
        "words": evil,
        "importances": {evil: 0.1},
        "score": {
            "name": evil,
            "value": 0.5,
            "error": 0.1,
            "rows": 3,
            "baseline": 0.1,
            "baseline name": evil,
        },
        "held out": {"classes": [evil, "b"], "counts": [[1, 2], [3, 4]]},
    }
    text = page(evil, [summary, summary])
    check_page(text)
    assert "<script" not in text


# the whole


def command(*arguments, **named):
    return subprocess.run(
        [sys.executable, "-m", "mercer", *arguments], capture_output=True, **named
    )


def test_pipes(irises):
    """The model goes through a pipe, and so do the data."""
    with open("iris.csv", "rb") as file:
        table = file.read()
    model = command("fit", "-", "--target", "species", "-o", "-", input=table)
    assert model.returncode == 0, model.stderr
    predicted = command("predict", "-", "iris.csv", "-q", input=model.stdout)
    assert predicted.returncode == 0, predicted.stderr
    assert len(predicted.stdout.splitlines()) == 151
    assert predicted.stderr == b""
    assert os.listdir() == ["iris.csv"]
    wrong = command("fit", "-", "--target", "kind", input=table)
    assert wrong.returncode == 2
    assert re.fullmatch(rb"mercer: [^\n]+\n", wrong.stderr)


def test_a_full_disk_is_named(irises, monkeypatch):
    run("fit", "iris.csv", "-t", "species", "-q")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    told = refused("fit", "iris.csv", "-t", "species", "-o", "m.mercer", "--max-time", "1")
    assert told == "mercer: m.mercer: No space left on device\n"
    told = refused("report", "iris.mercer", "-o", "p.html")
    assert told == "mercer: p.html: No space left on device\n"


def test_a_folder_that_may_not_be_written_to_is_told_before_any_work(irises, here, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(models, "train", None)
    told = refused("fit", "iris.csv", "-t", "species")
    assert f"iris.mercer: the folder {here.resolve()} may not" in told


def interrupted(*arguments, **named):
    raise KeyboardInterrupt


def test_an_interrupt_ends_it_without_a_word(diabetes, monkeypatch, capsys):
    monkeypatch.setattr(models, "train", interrupted)
    result = run("fit", "diabetes.csv", "-t", "target", "--report", "p.html", status=130)
    assert result.stdout + result.stderr == ""
    assert os.listdir() == ["diabetes.csv"]
    monkeypatch.setattr(sys.modules["mercer.cli.app"], "app", interrupted)
    with pytest.raises(SystemExit, match="130"):
        main()
    assert capsys.readouterr() == ("", "")


# A module that is interrupted while it is imported.
INTERRUPTED = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # background shells turn it off
os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(
    "module", ["typer", "pandas", "matplotlib"], ids=["starting", "reading", "drawing"]
)
def test_a_signal_ends_it_without_a_word(module, irises, here):
    (here / "stubs").mkdir()
    (here / "stubs" / f"{module}.py").write_text(INTERRUPTED)
    before = sorted(os.listdir())
    arguments = ("fit", "iris.csv", "-t", "species", "--max-time", "1", "--report", "p.html")
    ended = command(*arguments, env={**os.environ, "PYTHONPATH": str(here / "stubs")})
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
    assert sorted(os.listdir()) == before


def test_an_interrupt_in_writing_leaves_whole_files(irises, monkeypatch):
    run("fit", "iris.csv", "-t", "species", "-q", "--max-time", "1", "--report", "p.html")
    held = {name: pathlib.Path(name).read_bytes() for name in os.listdir()}
    monkeypatch.setattr(os, "fsync", interrupted)
    again = ("-q", "--max-time", "1", "--seed", "1", "--report", "p.html")
    run("fit", "iris.csv", "-t", "species", *again, status=130)
    run("report", "iris.mercer", "-o", "p.html", status=130)
    assert {name: pathlib.Path(name).read_bytes() for name in os.listdir()} == held


def test_no_color(irises):
    environment = {**os.environ, "FORCE_COLOR": "1"}
    environment.pop("NO_COLOR")
    coloured = command("fit", "iris.csv", "-t", "species", env=environment)
    assert b"\x1b[1m" in coloured.stdout
    plain = command("fit", "iris.csv", "-t", "species", env={**os.environ, "NO_COLOR": "1"})
    assert b"\x1b" not in plain.stdout + plain.stderr


def test_help_and_version():
    assert "fit" in run().stdout
    assert "density" in run("--help").stdout
    assert "--target" in run("fit", "-h").stdout
    assert mercer.__version__ in run("--version").stdout


def test_tab_completion():
    def complete(words):
        environment = {"_MERCER_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split()) - (not words.endswith(" ")))
        return runner.invoke(app, [], prog_name="mercer", env=environment).output.split()

    assert "fit" in complete("mercer f")
    assert "RBF" in complete("mercer kernels RB")
    assert "fasta" in complete("mercer fit data --format f")


def test_demo(here):
    result = run("demo", "--max-time", "5")
    for word in ("[sum of kernels]", "eigenvalue", "accuracy", "R²", "bandwidth"):
        assert word in result.stdout
    with open("mercer-demo.html", encoding="utf-8") as file:
        assert check_page(file.read()).seen.count("img") >= 5
    assert os.listdir() == ["mercer-demo.html"]


def test_the_commands_of_the_documentation_run(irises):
    docs = pathlib.Path(__file__).parents[2] / "docs" / "command.md"
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", docs.read_text(encoding="utf-8"))
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= 8
    for line in lines:
        if "|" not in line:
            run(*shlex.split(line)[1:], status=1 if "Sigmoid" in line else 0)
    made = {"iris.mercer", "iris.html", "predictions.csv", "density.html", "densities.csv"}
    assert set(os.listdir()) == made | {"iris.csv"}
