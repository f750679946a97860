"""`mercer predict`: a model and data in, predictions out."""

from __future__ import annotations

import io
import json
import pathlib
import re

import numpy as np
import pandas as pd
import pytest

import mercer
from command_line import refused, run
from mercer import kernels as K
from mercer.cli.predicting import predictions, score_of
from mercer.tables.data import Data
from mercer.tables.readers import read


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
    line = "t.npz has no column names; they are assumed to be in the order of training\n"
    assert result.stderr.startswith(line)


def test_graphs_and_tables_are_told_apart(here, diabetes):
    graphs = [K.Graph.from_adjacency(np.ones((k, k)) - np.eye(k)) for k in range(2, 22)]
    model = mercer.KernelRidge(kernel=K.WeisfeilerLehman()).fit(graphs, np.arange(20.0))
    mercer.save(model, "g.mercer", notes={"columns": [{"name": "graphs", "kind": "graph"}]})
    told = refused("predict", "g.mercer", "diabetes.csv")
    assert "diabetes.csv holds a table, but the model was trained on graphs" in told


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
    assert "1 row left out, whose target is not a number, such as 'unknown'" in told
    diabetes.assign(target="none").to_csv("none.csv", index=False)
    assert "no R²; 442 rows left out" in run("predict", "diabetes.mercer", "none.csv").stderr


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
    pd.DataFrame({"y": given}).to_csv("t.csv", index=False)
    predicted = np.array(labels)[[0, 1, 1]]
    notes = {"task": "classification", "target": "y", "score": {"name": "accuracy"}}
    told = score_of(notes, read("t.csv"), {"prediction": predicted})
    assert told.startswith(f"accuracy {right:.3f} on the")


def test_words_where_numbers_were_are_warned_of(diabetes):
    run("fit", "diabetes.csv", "-t", "target", "-q", "--max-time", "1")
    diabetes["bmi"] = diabetes["bmi"].astype(object)
    diabetes.loc[[3, 4], "bmi"] = "much"
    diabetes.to_csv("words.csv", index=False)
    told = run("predict", "diabetes.mercer", "words.csv").stderr
    assert re.search("'bmi' .* 2 .* 'much'", " ".join(told.split()))


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
    assert "diabetes.csv has 11 feature columns; the model was trained on 10" in told


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
    mercer.save(mercer.KernelCentroidClassifier().fit(X, y), "python.mercer")
    assert len(run("predict", "python.mercer", "iris.csv").stdout.splitlines()) == 151
    assert "KernelCentroidClassifier" in run("report", "python.mercer").stdout
    assert "needs a classifier" in refused(
        "predict", "python.mercer", "iris.csv", "--probabilities"
    )


def test_predictions_carry_the_names_of_sequences(here):
    rng = np.random.default_rng(0)
    with open("s.fa", "w") as file:
        for i in range(40):
            sequence = "".join(rng.choice(list("AACGT" if i % 2 else "ACGTT"), size=40))
            file.write(f">gene{i} kind={'ab'[i % 2]}\n{sequence}\n")
    run("fit", "s.fa", "-t", "kind", "-q", "--max-time", "1")
    lines = run("predict", "s.mercer", "s.fa", "--probabilities").stdout.splitlines()
    assert lines[0] == "id,prediction,probability of a,probability of b"
    assert [line.split(",")[0] for line in lines[1:]] == [f"gene{i}" for i in range(40)]
    run("predict", "s.mercer", "s.fa", "-o", "p.npz")
    assert np.load("p.npz")["id"].tolist()[:2] == ["gene0", "gene1"]
    found = json.loads(run("predict", "s.mercer", "s.fa", "--json").stdout)
    assert found["id"][39] == "gene39"


def test_predictions_carry_what_names_the_rows(diabetes):
    rows = [f"p{k}" for k in range(len(diabetes))]
    tables = {
        "column": (diabetes.assign(patient_id=rows).to_csv(index=False), "patient_id"),
        "nameless": (diabetes.set_axis(rows).to_csv(), "name"),
        "before": (diabetes.set_axis(rows).to_csv().removeprefix(","), "name"),
    }
    for name, (text, label) in tables.items():
        pathlib.Path(f"{name}.csv").write_text(text)
        run("fit", f"{name}.csv", "-t", "target", "-q", "--max-time", "1")
        lines = run("predict", f"{name}.mercer", f"{name}.csv").stdout.splitlines()
        assert lines[0] == f"{label},prediction"
        assert [line.split(",")[0] for line in lines[1:]] == rows
        run("predict", f"{name}.mercer", f"{name}.csv", "-o", "p.npz")
        assert np.load("p.npz")[label].tolist() == rows
    diabetes.assign(patient_id=[None, *rows[1:]]).to_csv("gap.csv", index=False)
    assert run("predict", "column.mercer", "gap.csv").stdout.split("\n")[1].startswith(",")
    diabetes.to_csv("none.csv", index=False)
    assert run("predict", "column.mercer", "none.csv").stdout.startswith("prediction\n")


def test_days_are_classes_as_they_are_written(here):
    x = np.tile([0.0, 1.0], 40) + np.random.default_rng(0).normal(size=80) / 9
    days = np.tile(["2024-01-01", "2024-01-02 08:30"], 40)
    pd.DataFrame({"x": x, "day": days}).to_csv("t.csv", index=False)
    run("fit", "t.csv", "-t", "day", "-q", "--max-time", "1")
    result = run("predict", "t.mercer", "t.csv")
    assert result.stdout.splitlines()[:3] == ["prediction", "2024-01-01", "2024-01-02 08:30:00"]
    assert "accuracy 1.000 on the 80 rows with a target" in result.stderr


def test_numbers_with_decimals_are_classes_if_asked(here):
    x = np.tile([0.0, 1.0, 2.0], 30) + np.random.default_rng(0).normal(size=90) / 9
    pd.DataFrame({"x": x, "dose": np.tile([0.5, 1.0, 2.0], 30)}).to_csv("t.csv", index=False)
    run("fit", "t.csv", "-t", "dose", "--task", "classification", "-q", "--max-time", "1")
    result = run("predict", "t.mercer", "t.csv")
    assert result.stdout.split()[:4] == ["prediction", "0.5", "1.0", "2.0"]
    assert "accuracy 1.000 on the 90 rows with a target" in result.stderr
    pd.DataFrame({"x": x[:80], "y": np.tile([1e300, 2e300], 40)}).to_csv("t.csv", index=False)
    run("fit", "t.csv", "-t", "y", "-q", "--max-time", "1", "--force")
    predicted = run("predict", "t.mercer", "t.csv").stdout.split()[1:]
    assert set(map(float, predicted)) <= {1e300, 2e300}


def test_rows_that_were_trained_on_are_recognised(irises, diabetes):
    for name, target in (("iris", "species"), ("diabetes", "target")):
        run("fit", f"{name}.csv", "-t", target, "-q")
        result = run("predict", f"{name}.mercer", f"{name}.csv", "--novelty")
        out, notes = pd.read_csv(io.StringIO(result.stdout)), mercer.read_notes(f"{name}.mercer")
        trained = out["trained on"] == "yes"
        n, least = len(out), notes["trained on"]
        assert least <= trained.sum() <= least + 2  # equal rows are not told apart
        assert f"{trained.sum()} of {n} rows were trained on" in result.stderr
        assert f"on the {n - trained.sum()} of them not trained on" in result.stderr
        assert (out.loc[trained, "novelty"] < 0.01).mean() > 0.99
    data = pd.read_csv("diabetes.csv")
    held = data[~trained.to_numpy()].drop(columns="target")
    held.to_csv("new.csv", index=False)
    assert "trained on" not in run("predict", "diabetes.mercer", "new.csv").stderr


def test_rows_unlike_the_training_rows_are_flagged(irises):
    run("fit", "iris.csv", "-t", "species", "-q")
    new = irises.drop(columns="species").iloc[[0, 60, 100, 120]].copy()
    new.loc[60, "soil"] = "sand"
    new.loc[100, "petal width (cm)"] = 25.0
    new.loc[120] = None
    new.to_csv("new.csv", index=False)
    result = run("predict", "iris.mercer", "new.csv", "--novelty")
    out = pd.read_csv(io.StringIO(result.stdout), keep_default_na=False)
    assert out["unlike training"].tolist() == [
        "",
        "soil=sand is new",
        "petal width (cm)=25.0 is above 2.5",
        "every column is missing",
    ]
    assert "3 rows unlike the training rows, such as soil=sand is new" in result.stderr
    assert float(out["novelty"][2]) == 1.0 > float(out["novelty"][0])
    assert list(pd.read_csv(io.StringIO(run("predict", "iris.mercer", "new.csv").stdout))) == [
        "prediction"
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"columns": ["a"]},
        {"columns": [{"name": 1, "kind": "number"}]},
        {"score": 0.9},
        {"target": [1]},
    ],
    ids=repr,
)
def test_notes_of_another_form(change, here, diabetes):
    """The user's own are no matter; those that should be of `mercer fit` are refused."""
    X, y = diabetes.drop(columns="target").to_numpy(dtype=float), diabetes["target"]
    np.savez("t.npz", X=X)
    model = mercer.KernelRidge().fit(X, y)
    mercer.save(model, "own.mercer", notes=change)
    assert len(run("predict", "own.mercer", "t.npz").stdout.splitlines()) == len(X) + 1
    mercer.save(model, "forged.mercer", notes={"kind": "fit", **change})
    for words in (("predict", "forged.mercer", "t.npz"), ("report", "forged.mercer")):
        assert "not those that mercer fit writes" in refused(*words)


def test_reports_of_forged_notes_are_refused_in_a_sentence(here):
    model = mercer.KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0])
    for forged in ({"grid": {"axes": 3}}, {"held out": {"true": ["a"], "predicted": [[]]}}):
        mercer.save(model, "forged.mercer", notes={"kind": "fit", **forged})
        told = refused("report", "forged.mercer")
        assert "the notes of forged.mercer are not those that mercer fit writes" in told


def test_very_many_columns_are_matched_by_name_in_linear_time():
    """Each name was compared with all others before: minutes for so many."""
    names = [f"c{k}" for k in range(30_000)]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(4, len(names))), columns=names)
    model = mercer.KernelRidge().fit(X, np.arange(4.0))
    notes = {"columns": [{"name": name, "kind": "number"} for name in names]}
    found = predictions(model, notes, Data(X[names[::-1]]))
    np.testing.assert_array_equal(found["prediction"], model.predict(X))
