"""
Kernels you can prove
=====================

A similarity is a kernel if no Gram matrix of it has a negative eigenvalue. One can look at some
data and see none, which proves nothing. Here every kernel brings a proof, or points that refute it.
"""

# %%
# A proof is a tree
# -----------------
# The Gaussian kernel, derived from the dot product alone: scale it, take the exponential, and
# multiply by f(x) f(z).

import matplotlib.pyplot as plt
import numpy as np

from mercer import check_kernel
from mercer import kernels as K

gamma = 0.5
gaussian = K.exp(2 * gamma * K.Linear()).rescale(K.exp(-gamma * K.sqnorm))
print(gaussian.validity.proof)

# %%
# It is the Gaussian, also far from the origin where the factors alone would overflow:

X = np.array([[1000.0, 0.0], [1001.0, 0.5]])
print(gaussian(X)[0, 1], K.RBF(gamma)(X)[0, 1])

# %%
# A refutation is a data set
# --------------------------
# tanh(x·z + 1) is not a kernel, a polynomial with a negative constant is not, and a difference of
# kernels may be or may not.

for k in (
    K.Sigmoid(coef0=1.0),
    K.Polynomial(degree=2, coef0=-1.0),
    2 * K.RBF(1.0) - K.RBF(1.0),
    K.RBF(1.0) - 0.5 * K.RBF(3.0),
    K.RBF(1.0) - 0.01 * K.RBF(0.5),
):
    v = k.validity
    shown = f", eigenvalue {v.counterexample.eigenvalue:.3f}" if v.counterexample else ""
    print(f"{v.status:<11}{k!r}{shown}")

# %%
# The same question can be put about a function or a matrix. On these points a function may be
# refuted, but never proved.

points = np.linspace(0, 3, 7)[:, None]
print(check_kernel(lambda x, z: float(1 - abs(x - z)[0]), points))
print()
print(check_kernel(lambda x, z: float(np.cos(x - z)[0]), points))

# %%
# What it looks like
# ------------------
# Eigenvalues of Gram matrices of the same fifteen points, largest first. Those of a kernel stop at
# zero; those of tanh go on below it.

X = np.random.default_rng(1).normal(size=(15, 2)) * 2
shown = [K.RBF(0.3), K.Laplacian(0.5), K.Sigmoid(gamma=1.0, coef0=1.0)]
figure, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
axes.axhline(0, color="0.6", linewidth=1)
for k, marker, colour in zip(shown, "osD", ("#2b6ca3", "#4f9a5c", "#d9822b"), strict=True):
    eigenvalues = np.linalg.eigvalsh(k(X))[::-1]
    axes.plot(range(1, 16), eigenvalues, marker=marker, color=colour, label=f"{k!r}", linewidth=1)
axes.set(xlabel="rank", ylabel="eigenvalue", yscale="symlog", title="which of these is a kernel?")
axes.legend(fontsize=8)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
