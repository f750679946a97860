"""scikit-learn's mixins, with scores that also take tensors, wherever those are."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin, RegressorMixin

from mercer.arrays import DROP, refuse_masked, to_cpu


class Classifier(ClassifierMixin):
    """A classifier, whose labels may be anywhere."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: the fraction of correctly predicted labels.

        Parameters
        ----------
        X : as for `predict`
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score  # slow to import

        _refuse_masked_targets(y, sample_weight)

        found: Any = self
        return float(
            accuracy_score(to_cpu(y), to_cpu(found.predict(X)), sample_weight=to_cpu(sample_weight))
        )


class Regressor(RegressorMixin):
    """A regression, whose predictions may be anywhere."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R².

        Parameters
        ----------
        X : as for `predict`
        y : array-like of shape (m,) or (m, n_targets)
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        float
        """
        from sklearn.metrics import r2_score  # slow to import

        _refuse_masked_targets(y, sample_weight)

        found: Any = self
        return float(
            r2_score(to_cpu(y), to_cpu(found.predict(X)), sample_weight=to_cpu(sample_weight))
        )


def _refuse_masked_targets(y: Any, sample_weight: Any) -> None:
    refuse_masked(y, "y", DROP)
    refuse_masked(sample_weight, "sample_weight", DROP)
