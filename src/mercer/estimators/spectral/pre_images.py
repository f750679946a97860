"""Points whose images in feature space are near given combinations of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from mercer.arrays import refuse_beyond_memory
from mercer.kernels import Kernel

MAX_STEPS, HALVINGS = 200, 8
# A move this small compared with the spread of the points ends the search.
MOVE = 1e-7
# The relative step of the difference quotient that gives a kernel's slope.
STEP = 1e-4


def refuse_no_images(kernel: Kernel, X: Any, method: str) -> None:
    """Raise an error where combinations of the training points X are no points."""
    if sp.issparse(X):
        raise NotImplementedError(
            "Inverse transform not implemented for sparse matrices; pass X.toarray()"
        )
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
        raise ValueError(
            f"fit_inverse_transform=True averages training points, which "
            f"{type(kernel).__name__}'s are not; set it to False"
        )
    if method == "fixed_point" and kernel.distance != "euclidean":
        raise ValueError(
            f"pre_image='fixed_point' needs a kernel of the Euclidean distance; "
            f"{kernel!r} is none: use pre_image='ridge'"
        )


def ridge_images(kernel: Kernel, components: np.ndarray, X: np.ndarray, alpha: float) -> np.ndarray:
    """Kernel ridge from components (n, k) to points (n, d): coefficients (K + alpha I)^-1 X."""
    refuse_beyond_memory(len(components))
    try:
        K = kernel(components)
    except ValueError as error:
        raise ValueError(
            f"fit_inverse_transform=True applies the kernel to components, and {kernel!r} does "
            f"not take {components.shape[1]} of them ({error}); set it to False, or use a kernel "
            "without a scale for each feature"
        ) from error
    K.flat[:: len(K) + 1] += alpha
    try:
        return scipy.linalg.solve(K, X, assume_a="pos", overwrite_a=True)
    except scipy.linalg.LinAlgError as error:
        raise ValueError(
            f"alpha={alpha} is too small for fit_inverse_transform: the kernel of the "
            "components plus alpha on its diagonal is not positive definite; choose a larger "
            "alpha"
        ) from error


def nearest_images(
    kernel: Kernel, X: np.ndarray, coefficients: np.ndarray, start: np.ndarray
) -> np.ndarray:
    r"""Points z that minimise :math:`\|\varphi(z) - \sum_i c_i \varphi(x_i)\|`, by fixed points.

    For a kernel :math:`k(x, z) = h(\|x - z\|^2)` the gradient vanishes where

    .. math:: z = \frac{\sum_i c_i h'(\|z - x_i\|^2) x_i}{\sum_i c_i h'(\|z - x_i\|^2)},

    and this is iterated. A step that does not bring z nearer is halved.

    Parameters
    ----------
    kernel : Kernel of the distance
    X : (n, d) array
    coefficients : (q, n) array
    start : (q, d) array

    Returns
    -------
    (q, d) array

    References
    ----------
    Mika, Schölkopf, Smola, Müller, Scholz and Rätsch, "Kernel PCA and de-noising in feature
    spaces", NIPS 11 (1998).
    """
    z = np.array(start, dtype=np.float64)
    X = np.asarray(X, dtype=np.float64)
    spread = float(np.sqrt(np.mean((X - X.mean(axis=0)) ** 2))) or 1.0
    value, going = _nearness(kernel, z, X, coefficients), np.arange(len(z))
    for _ in range(MAX_STEPS):
        if len(going) == 0:
            break
        c, here = coefficients[going], z[going]
        weight = c * _slope(kernel, _squared_distances(here, X))
        total = weight.sum(axis=1, keepdims=True)
        sound = np.abs(total[:, 0]) > 1e-12 * np.abs(weight).sum(axis=1)
        target = np.where(sound[:, None], weight @ X / np.where(total == 0, 1, total), here)
        move, better = target - here, np.zeros(len(going), dtype=bool)
        new = here
        for _ in range(HALVINGS):
            trial = np.where(better[:, None], new, here + move)
            reached = _nearness(kernel, trial, X, c)
            better = reached > value[going]
            new = np.where(better[:, None], trial, here)
            if np.all(better):
                break
            move = move / 2
        far = np.linalg.norm(new - here, axis=1) > MOVE * spread * np.sqrt(X.shape[1])
        z[going] = new
        value[going] = _nearness(kernel, new, X, c)
        going = going[better & far]
    return z


def _nearness(kernel: Kernel, z: np.ndarray, X: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Σ_i c_i k(z, x_i): what grows as the image of z, of fixed length, comes nearer."""
    return np.einsum("ij,ij->i", c, kernel(z, X))


def _squared_distances(z: np.ndarray, X: np.ndarray) -> np.ndarray:
    return np.stack([np.sum((X - row) ** 2, axis=1) for row in z])


def _slope(kernel: Kernel, t: np.ndarray) -> np.ndarray:
    """-h'(t) for k(x, z) = h(‖x - z‖²), from the kernel of points on a line."""
    t = np.maximum(t, np.finfo(float).tiny ** 0.5)

    def profile(t: np.ndarray) -> np.ndarray:
        return kernel(np.zeros((1, 1)), np.sqrt(t).reshape(-1, 1)).reshape(t.shape)

    return (profile(t * (1 - STEP)) - profile(t * (1 + STEP))) / (2 * STEP * t)
