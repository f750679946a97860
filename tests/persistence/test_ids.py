"""What is in files has ids and versions, which say nothing of where the code lives."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import attribute_table
import mercer
import model_corpus
from forged_files import CONSTANT, HEADER, forge
from mercer import kernels as K
from mercer.persistence import files, format_1, registry
from mercer.persistence.records import named_in


def test_ids_are_unique_and_each_leads_to_its_thing():
    tables = [registry._public(), registry._places(), registry.METHODS]
    assert sum(map(len, tables)) == len(registry.ids())
    for name in registry.ids() - set(registry.METHODS):
        assert registry.name_of(registry.named(name)) == name


def test_ids_name_no_module():
    """scikit-learn's public names may stand; nothing of ours or private does."""
    for name in registry.ids():
        assert not name.startswith("mercer.")
        assert not any(part.startswith("_") for part in name.split("."))
        assert name.startswith("sklearn.") == (name in registry.SCIKIT_LEARN)
    for module in registry.PARTS:
        assert not any(name.startswith(module) for name in registry.ids())


def test_no_record_of_a_file_names_a_module():
    module = re.compile(r"^(mercer\.|sklearn\.([a-z_]+\.)*_)")
    for name, data, _, _ in model_corpus.read(model_corpus.FOLDER / f"format-{files.VERSION}"):
        for record in json.loads(files.safetensors.load(data)["records"].tobytes()):
            texts = [part for part in record if isinstance(part, str)]
            assert not any(module.match(text) for text in texts), (name, record)
            assert set(named_in(record)) <= registry.ids()


def test_every_id_is_in_the_corpus():
    seen = set()
    for _, data, _, _ in model_corpus.read(model_corpus.FOLDER / f"format-{files.VERSION}"):
        for record in json.loads(files.safetensors.load(data)["records"].tobytes()):
            seen.update(named_in(record))
    assert seen == registry.ids()


def test_names_of_format_1_have_ids_forever():
    assert len(format_1.IDS) == 162
    assert set(format_1.IDS.values()) | set(format_1.METHODS.values()) <= registry.ids()


# Versions.


@pytest.fixture
def second_version(monkeypatch):
    """Constants of a version 2, whose value was called ``number`` in the first."""
    table = {**registry._declared(), "kernel.Constant": [["number"], ["value"]]}
    monkeypatch.setattr(registry, "_declared", lambda: table)
    upgrades = {"kernel.Constant": [lambda state: {"value": state["number"]}]}
    monkeypatch.setattr(registry, "UPGRADES", upgrades)
    registry._attributes.cache_clear()
    yield
    registry._attributes.cache_clear()


def of_version(path, version, *parts):
    header = {**HEADER, "versions": {"kernel.Constant": version}}
    return forge(path, [["object", "kernel.Constant", *parts]], header=header)


def test_earlier_versions_are_upgraded(second_version, tmp_path):
    assert mercer.load(of_version(tmp_path / "it", 1, "number", 7)).value == 7
    assert mercer.load(of_version(tmp_path / "it", 2, "value", 7)).value == 7
    with pytest.raises(ValueError, match=r"kernel\.Constant has no attribute 'value'"):
        mercer.load(of_version(tmp_path / "it", 1, "value", 7))
    with pytest.raises(ValueError, match=r"kernel\.Constant has no attribute 'number'"):
        mercer.load(of_version(tmp_path / "it", 2, "number", 7))
    mercer.save(K.Constant(3), tmp_path / "it")
    assert mercer.load(tmp_path / "it").value == 3


def test_files_of_format_1_hold_first_versions(second_version, tmp_path):
    header = {**HEADER, "version": 1, "class": "mercer.kernels.Constant"}
    records = [["object", "mercer.kernels.Constant", "number", 7]]
    assert mercer.load(forge(tmp_path / "it", records, header=header)).value == 7


def test_later_versions_are_refused_in_words(tmp_path):
    path = of_version(tmp_path / "it", 2, "value", 7)
    with pytest.raises(ValueError, match=r"kernel\.Constant of version 2, .* up to 1; use the me"):
        mercer.load(path)
    assert files.inspect(path)["classes"] == {"kernel.Constant": 1}


@pytest.mark.parametrize("versions", [{}, {"kernel.Constant": 0}, {"kernel.Constant": True}, None])
def test_versions_that_are_none(versions, tmp_path):
    header = {**HEADER, "versions": versions}
    with pytest.raises(ValueError, match=r"no version|no 'versions'"):
        mercer.load(forge(tmp_path / "it", [[*CONSTANT, 1]], header=header))


def test_every_step_between_versions_has_its_upgrade():
    for name in registry.ids():
        assert len(registry.UPGRADES.get(name, [])) == registry.version(name) - 1


# Attributes.


def test_attributes_are_those_of_the_code():
    """Where this fails: docs/development.md, "When a class is saved"."""
    for name in registry.ids():
        if not registry.is_theirs(name):
            assert attribute_table.found(name) == sorted(registry._declared()[name][-1]), name
    assert set(registry._declared()) == registry.ids()


def test_attributes_in_files_of_every_format_are_declared():
    for (name, version), names in attribute_table.in_corpora().items():
        assert names <= registry.attributes(name, version), name


def test_what_users_add_is_refused_when_saved(tmp_path):
    model = mercer.SVC().fit(np.eye(2), [0, 1])
    model.remark = "mine"
    with pytest.raises(TypeError, match=r"SVC cannot be saved: it has 'remark'.*as notes"):
        mercer.save(model, tmp_path / "it")
