"""
Looking at kernels and machines
===============================

What a kernel sees, why it is one, and what a machine makes of it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_moons

from mercer import SVC, KernelRidgeCV
from mercer import kernels as K
from mercer.plots import (
    DecisionDisplay,
    GramDisplay,
    ProofDisplay,
    RegularizationDisplay,
    SpectrumDisplay,
)

# %%
# A support vector machine: regions, margins (dashed) and support vectors (circled). A larger C
# has fewer support vectors and a border that bends more.
X, y = make_moons(200, noise=0.2, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, C in zip(axes, (0.3, 100.0), strict=True):
    model = SVC(C=C, gamma=1.0).fit(X, y)
    DecisionDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(f"C = {C:g}: {len(model.support_)} support vectors, gap {model.dual_gap_:.1e}")

# %%
# The Gram matrix of digits, sorted by class: bright squares along the diagonal are classes that
# the kernel separates from the others. The eigenvalues to its right fall fast: a few dozen
# directions hold nearly all there is to see.
digits = load_digits()
figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
kernel = K.RBF(0.001)
GramDisplay.from_kernel(kernel, digits.data, digits.target, ax=axes[0])
SpectrumDisplay.from_kernel(kernel, digits.data, ax=axes[1])

# %%
# Why a sum times a product is a kernel, as a tree of rules.
ProofDisplay.from_kernel((K.RBF(0.5) + 0.5 * K.Polynomial(2)) * K.Linear().normalize())

# %%
# The leave-one-out score over regularisers.
rng = np.random.default_rng(0)
t = np.sort(rng.uniform(-3, 3, 150))
noisy = np.sinc(t) + 0.1 * rng.normal(size=150)
model = KernelRidgeCV(alphas=np.logspace(-4, 2, 40), kernel=K.RBF(1.0)).fit(t[:, None], noisy)
RegularizationDisplay.from_estimator(model)
plt.show()
