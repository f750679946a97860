"""Files that were written once are read by every later version."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import mercer
import model_corpus

FORMATS = sorted(path.name for path in model_corpus.FOLDER.iterdir())


def outputs_of(data, query, path):
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mercer.load(path, functions=model_corpus.FUNCTIONS)
        return model_corpus.outputs(model, query)


def refuse_others(found, expected, error=1e-12):
    """Numbers are the same but for rounding, by which processors differ; all else is equal."""
    if isinstance(found, np.ndarray) and found.dtype.kind == "f":
        b = model_corpus.decoded(expected)
        assert (found.dtype, found.shape) == (b.dtype, b.shape)
        largest = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        np.testing.assert_allclose(found, b, rtol=0, atol=error * largest)
    elif isinstance(found, list):
        for a, b in zip(found, expected["list"], strict=True):
            refuse_others(a, b, error)
    else:
        assert json.loads(json.dumps(model_corpus.encoded(found))) == expected


@pytest.mark.parametrize("written", FORMATS)
def test_models_of_every_format_predict_as_they_did(written, tmp_path):
    for name, data, query, expected in model_corpus.read(model_corpus.FOLDER / written):
        single = getattr(query, "dtype", None) == np.float32
        try:
            found = outputs_of(data, query, tmp_path / "it")
            refuse_others(found, expected, 1e-5 if single else 1e-12)
        except Exception as error:
            raise AssertionError(f"{written}: {name}") from error
