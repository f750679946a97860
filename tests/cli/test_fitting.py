"""`mercer fit`: tables, sequences, graphs and arrays in, models and what is known of them out."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pandas as pd

import mercer
from command_line import refused, run
from mercer.cli import models


def test_fit_classes(irises):
    result = run("fit", "iris.csv", "--target", "species", "-o", "iris.mercer")
    lines = result.stdout
    for word in (
        "150 rows",
        "classification of species",
        "accuracy",
        "95% interval",
        "baseline",
        "kernel",
    ):
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


def test_quiet_says_nothing(irises):
    result = run("fit", "iris.csv", "-t", "species", "-q")
    assert result.stdout == result.stderr == ""
    assert os.path.exists("iris.mercer")


def test_columns_can_be_left_out(irises):
    run("fit", "iris.csv", "-t", "species", "--ignore", "soil", "--ignore", "petal width (cm)")
    notes = mercer.read_notes("iris.mercer")
    assert len(notes["columns"]) == 3
    assert notes["left out"]["soil"] == "excluded by --ignore"
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


def test_refit_fits_the_chosen_kernel_to_all_rows(irises, diabetes):
    """The score is that of the model before, and all else describes the model that is saved."""
    for name, target in (("iris", "species"), ("diabetes", "target")):
        n = len(irises if name == "iris" else diabetes)
        once = ("fit", f"{name}.csv", "-t", target, "--json")
        first = json.loads(run(*once, "-o", f"{name}1.mercer").stdout)
        found = json.loads(run(*once, "--refit").stdout)
        assert (found["trained on"], found["refitted on"]) == (first["trained on"], n)
        assert found["trained on"] + found["tested on"] == n
        for key in ("kernel", "proof", "score", "model"):
            assert found[key] == first[key]
        assert (found["size"]["value"], first["size"]["value"]) == (n, first["trained on"])
        before, after = mercer.load(f"{name}1.mercer"), mercer.load(f"{name}.mercer")
        assert repr(before.kernel_) == repr(after.kernel_) == found["kernel"]
    text = run("fit", "iris.csv", "-t", "species", "--refit").stdout
    assert "the chosen kernel was fitted to all 150 rows; the score is that of the model" in text


def test_rare_classes_are_found_by_a_threshold(here):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    y = np.where(x[:, 0] + rng.normal(size=600) > 2.2, "Yes", "No")
    pd.DataFrame(x, columns=list("abc")).assign(y=y).to_csv("t.csv", index=False)
    assert 0.03 < np.mean(y == "Yes") < 0.1
    found = json.loads(run("fit", "t.csv", "-t", "y", "--json").stdout)
    assert found["score"]["name"] == "balanced accuracy"
    assert found["score"]["value"] > 0.7 > 0.5 == found["score"]["baseline"]
    assert found["threshold"]["class"] == "Yes"
    assert {s["name"] for s in found["scores"]} >= {"AUC", "log loss", "F1", "accuracy"}
    recall = {row["class"]: row["recall"] for row in found["by class"]}
    assert recall["Yes"] > 0.5
    out = pd.read_csv(io.StringIO(run("predict", "t.mercer", "t.csv", "--probabilities").stdout))
    above = out["probability of Yes"] >= found["threshold"]["value"]
    assert ((out["prediction"] == "Yes") == above).all()
    assert 0.03 < above.mean() < 0.4
    result = run("fit", "t.csv", "-t", "y", "--metric", "accuracy")
    assert "choose the threshold with --metric f1" in result.stderr
    weighted = ("--metric", "auc", "--class-weight", "Yes=10")
    found = json.loads(run("fit", "t.csv", "-t", "y", "--json", *weighted).stdout)
    assert found["score"]["name"] == "AUC"
    assert {row["class"]: row["recall"] for row in found["by class"]}["Yes"] > 0.5


def test_metrics_and_weights_that_do_not_fit_are_refused(irises, diabetes):
    one = ("fit", "iris.csv", "-t", "species")
    assert "has the metrics accuracy, " in refused(*one, "--metric", "rmse")
    assert "there is no such class; there are setosa" in refused(*one, "--class-weight", "rose=2")
    for wrong in ("5", "setosa=", "setosa=-1", "setosa=inf"):
        assert "expected balanced" in refused(*one, "--class-weight", wrong)
    other = ("fit", "diabetes.csv", "-t", "target")
    assert "no classes" in refused(*other, "--class-weight", "balanced")
    assert "expected at least 2 folds" in refused(*other, "--cv", "1")
    assert "--refit" in refused(*other, "--cv", "3", "--refit")


def test_errors_are_reported_in_the_unit_of_the_target(diabetes):
    found = run("fit", "diabetes.csv", "-t", "target", "--metric", "mae")
    notes = mercer.read_notes("diabetes.mercer")
    assert notes["score"]["name"] == "MAE"
    assert 30 < notes["score"]["value"] < notes["score"]["baseline"]
    assert "R²" in found.stdout


def test_cross_validation_scores_every_row(irises):
    result = run("fit", "iris.csv", "-t", "species", "--cv", "3", "--max-time", "8")
    assert "150 rows of iris.csv (3-fold cross-validation)" in result.stdout
    notes = mercer.read_notes("iris.mercer")
    assert notes["score"]["rows"] == notes["tested on"] == notes["trained on"] == 150
    assert notes["score"]["value"] > 0.9
    assert notes["size"]["value"] == 150


def test_groups_stay_on_one_side_of_the_split(here):
    """Rows of a storm are alike: a model that has seen some of them knows the others."""
    rng = np.random.default_rng(0)
    storm = np.repeat(np.arange(30), 10)
    x = np.repeat(rng.normal(size=(30, 2)), 10, axis=0) + 0.01 * rng.normal(size=(300, 2))
    y = np.repeat(rng.normal(size=30), 10)
    table = pd.DataFrame(x, columns=["a", "b"]).assign(storm=storm, y=y)
    table.to_csv("t.csv", index=False)
    found = {}
    for name, options in {"rows": (), "groups": ("--group", "storm")}.items():
        told = run("fit", "t.csv", "-t", "y", "--ignore", "storm", *options, "--json").stdout
        found[name] = json.loads(told)
    assert found["rows"]["score"]["value"] > 0.9
    assert found["groups"]["score"]["value"] < 0.2
    assert found["groups"]["left out"]["storm"] == "excluded by --ignore"
    assert found["groups"]["tested on"] % 10 == 0
    run("fit", "t.csv", "-t", "y", "--group", "storm", "--max-time", "1")
    assert mercer.read_notes("t.mercer")["left out"]["storm"] == "it groups the rows (--group)"
    assert "no such column" in refused("fit", "t.csv", "-t", "y", "--group", "wind")


def test_the_latest_rows_are_tested_on(here):
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=200).strftime("%Y-%m-%d")
    table = pd.DataFrame({"day": days, "x": rng.normal(size=200)}).assign(y=np.arange(200) / 3)
    table.sample(frac=1, random_state=0).to_csv("t.csv", index=False)
    run("fit", "t.csv", "-t", "y", "--time", "day", "--max-time", "1")
    notes = mercer.read_notes("t.mercer")
    assert min(notes["held out"]["true"]) == 150 / 3
    assert "held out" in run("report", "t.mercer").stdout
    assert "cannot be combined" in refused("fit", "t.csv", "--time", "day", "--group", "x")


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

    monkeypatch.setattr(models.Trainer, "train", fail)
    assert "does not fit" in refused("fit", "iris.csv", "-t", "species")
    with open("iris.mercer", "rb") as file:
        assert file.read() == before


def test_rows_without_a_target_are_not_used(irises):
    irises.loc[:9, "species"] = None
    irises.to_csv("holes.csv", index=False)
    found = json.loads(run("fit", "holes.csv", "-t", "species", "--json").stdout)
    assert found["rows"] == 140
    assert found["rows without a target"] == 10


def test_stray_words_among_numbers_are_missing_values_in_training(diabetes):
    frame = diabetes.astype({"bmi": object, "target": object})
    frame.loc[7, "bmi"] = "much"
    frame.loc[[8, 9], "target"] = "lots"
    frame.to_csv("words.csv", index=False)
    result = run("fit", "words.csv", "-t", "target", "--max-time", "1")
    assert "'bmi' holds numbers and 1 other value, such as 'much'" in result.stderr
    assert "'target' holds numbers and 2 other values" in result.stderr
    assert "440 rows" in result.stdout
    assert "regression" in result.stdout
    kinds = {c["name"]: c["kind"] for c in mercer.read_notes("words.mercer")["columns"]}
    assert set(kinds.values()) == {"number"}


def test_numbers_with_a_unit_are_told_of(diabetes):
    diabetes.assign(bmi=[f"{x} kg" for x in diabetes["bmi"]]).to_csv("t.csv", index=False)
    told = run("fit", "t.csv", "-t", "target", "--max-time", "1").stderr
    assert "column 'bmi' holds text such as '32.1 kg', which is not read as a number; if it" in told


def test_days_with_slashes_are_told_of(diabetes):
    days = pd.date_range("2024-01-01", periods=len(diabetes))
    diabetes.assign(day=days.strftime("%m/%d/%Y")).to_csv("t.csv", index=False)
    told = run("fit", "t.csv", "-t", "target", "--max-time", "1").stderr
    assert "'day' holds dates such as '01/01/2024', which are read as text; write them as" in told


def test_columns_that_identify_rows_are_not_learnt_from(here):
    """Ids follow the classes, and a model of them would be right on every held-out row."""
    rng = np.random.default_rng(0)
    y = rng.choice(["case", "ctrl"], 60)
    ids = [f"{name}_{i:04d}" for i, name in enumerate(y)]
    mail = [f"{name}.{i}@example.org" for i, name in enumerate(y)]
    table = pd.DataFrame({"id": ids, "contact": mail, "x": rng.normal(size=60), "y": y})
    table.to_csv("t.csv", index=False)
    result = run("fit", "t.csv", "-t", "y", "--max-time", "1")
    assert "id: it names the rows" in result.stdout
    assert "contact: it holds e-mail addresses" in result.stdout
    notes = mercer.read_notes("t.mercer")
    assert [column["name"] for column in notes["columns"]] == ["x"]
    assert notes["score"]["value"] < 0.9
    assert run("predict", "t.mercer", "t.csv").stdout.startswith("id,contact,prediction\n")
    run("fit", "t.csv", "-t", "y", "--max-time", "1", "--keep", "id")
    notes = mercer.read_notes("t.mercer")
    assert [column["name"] for column in notes["columns"]] == ["id", "x"]
    assert "no such column" in refused("fit", "t.csv", "-t", "y", "--keep", "ids")


def test_possible_leaks_are_named(diabetes):
    diabetes.assign(copy=3 * diabetes["target"] + 1).to_csv("t.csv", index=False)
    told = run("fit", "t.csv", "-t", "target", "--max-time", "1").stderr
    assert "column 'copy' alone predicts the target (R² 0.999), a possible leak" in told
    assert "column 'bmi'" not in told
