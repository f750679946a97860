"""The NumPy twin of krylov.hpp: block Lanczos on a stored matrix."""

from __future__ import annotations

import numpy as np

LOST = 1e-13  # directions this small compared with what K makes of unit vectors are rounding


def krylov_steps(
    K: np.ndarray,
    basis: np.ndarray,
    T: np.ndarray,
    size: int,
    width: int,
    steps: int,
    centred: bool,
    threads: int = 1,
) -> tuple[int, np.ndarray]:
    """Block Lanczos with full orthogonalisation, on a basis that is extended in place.

    Parameters
    ----------
    K : (n, n) symmetric array
    basis : (room, n) array
        Its first ``size`` rows are orthonormal; K is yet to be multiplied with the last ``width``.
    T : (room, room) array
        basis K basisᵀ, as far as it is known.
    steps : int
        Each multiplies K with the last block, and adds a block to the basis.
    centred : bool
        Whether K stands for itself with the means of its rows and columns subtracted.

    Returns
    -------
    taken : int
        Fewer than ``steps`` where a block has directions that are rounding.
    rest : (width, width) array
        K Qᵀ = basisᵀ T + Q'ᵀ rest for the last block Q that was multiplied and the next one, Q'.

    Examples
    --------
    >>> K, basis, T = np.diag([3.0, 2.0, 1.0]), np.zeros((3, 3)), np.zeros((3, 3))
    >>> basis[0] = 3**-0.5
    >>> krylov_steps(K, basis, T, 1, 1, 2, centred=False)[0]
    2
    >>> np.round(basis[:2] @ K @ basis[:2].T - T[:2, :2], 12) + 0.0
    array([[0., 0.],
           [0., 0.]])
    """
    rest = np.zeros((width, width))
    for taken in range(steps):
        last, next = slice(size - width, size), slice(size, size + width)
        Q = basis[last]
        images = (K @ (Q - Q.mean(axis=1, keepdims=True)).T).T if centred else (K @ Q.T).T
        if centred:
            images = images - images.mean(axis=1, keepdims=True)
        norms = np.linalg.norm(images, axis=1)
        T[:size, last] = 0
        rest[:] = 0
        for c, w in enumerate(images):
            for _ in range(3):
                inside, among = basis[:size] @ w, basis[size : size + c] @ w
                w = w - inside @ basis[:size] - among @ basis[size : size + c]
                T[:size, size - width + c] += inside
                rest[:c, c] += among
            rest[c, c] = np.linalg.norm(w)
            if not rest[c, c] > LOST * norms[c]:
                return taken, rest
            basis[size + c] = w / rest[c, c]
        T[last, : size - width] = T[: size - width, last].T
        T[last, last] = (T[last, last] + T[last, last].T) / 2
        size = next.stop
    return steps, rest
