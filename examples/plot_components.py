"""
Kernel PCA and kernel CCA
=========================

Principal components in a feature space unbend data that a straight axis cannot describe. Canonical
correlations find what two views of the same things have in common; with kernels, beware: without
regularisation they find a perfect correlation between anything and anything.
"""

# %%
# Rings
# -----
# Two rings. Ordinary PCA can only turn them; two components of a Gaussian kernel pull them apart.

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelCCA, KernelPCA
from mercer import kernels as K
from mercer.plots import CanonicalDisplay

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, size=300)
ring = np.repeat([0, 1], 150)
X = np.c_[np.cos(angle), np.sin(angle)] * np.where(ring, 3.0, 1.0)[:, None]
X += 0.12 * rng.normal(size=X.shape)

pca = KernelPCA(n_components=2, kernel=K.RBF(gamma=0.3))
Z = pca.fit_transform(X)
print("shares of the variance in feature space:", pca.explained_variance_ratio_.round(3))

figure, (before, after) = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
colours = np.where(ring, "#d9822b", "#2b6ca3")
before.scatter(*X.T, s=10, c=colours)
before.set(title="two rings", aspect="equal")
after.scatter(Z[:, 0], Z[:, 1], s=10, c=colours)
after.set(title="two components of an RBF kernel", xlabel="component 1", ylabel="component 2")
for axes in (before, after):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# A perfect correlation, for nothing
# ----------------------------------
# Two views that have nothing to do with each other: independent noise. The Gram matrix of a
# Gaussian kernel is invertible, so *some* function of the first view matches *some* function of the
# second at every training point. Unregularised kernel CCA finds it; it means nothing, and the fit
# says that it is on thin ice.

noise, other_noise = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
old, new = slice(0, 100), slice(100, 200)
free = KernelCCA(n_components=1, kernel=K.RBF(1.0), regularization=0.0)
free.fit(noise[old], other_noise[old])
print(f"noise, unregularised: {free.canonical_correlations_[0]:.3f} on the training points,")
print(f"                      {free.score(noise[new], other_noise[new]):+.3f} on new ones")

# %%
# Something real: one view knows the cosine of a hidden angle, the other the angle itself. Sweep the
# regulariser and look at new points.

t = rng.uniform(-3, 3, size=(200, 1))
u = np.hstack([np.cos(t), rng.normal(size=(200, 1))])
v = t + 0.2 * rng.normal(size=(200, 1))
penalties = np.logspace(-8, 1, 19)


def sweep(a, b):
    trained, found = [], []
    for penalty in penalties:
        cca = KernelCCA(n_components=1, kernel=K.RBF(1.0), regularization=float(penalty))
        cca.fit(a[old], b[old])
        trained.append(cca.score(a[old], b[old]))
        found.append(cca.score(a[new], b[new]))
    return trained, found


figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for axes, (a, b), title in zip(
    panels,
    ((noise, other_noise), (u, v)),
    ("unrelated views", "views that share an angle"),
    strict=True,
):
    trained, found = sweep(a, b)
    axes.plot(penalties, trained, color="#9db8d2", marker=".", label="training points")
    axes.plot(penalties, found, color="#d9822b", marker=".", label="new points")
    axes.axhline(0, color="0.7", linewidth=0.8)
    axes.set(xscale="log", xlabel="regularization", title=title, ylim=(-0.2, 1.05))
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("correlation of the first variates")
panels[1].legend(loc="lower left", fontsize=9)
plt.show()

# %%
# A permutation test distinguishes the two cases without new points: shuffle one view and see how
# often chance does as well. ``regularization="loo"`` chooses the penalty by leave-one-out; the test
# makes the same allowance to every shuffle, so that its p-values stay exact.

figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for axes, name, a, b in zip(
    panels, ("unrelated", "sharing an angle"), (noise, u), (other_noise, v), strict=True
):
    cca = KernelCCA(n_components=1, kernel=K.RBF(1.0), regularization="loo").fit(a[old], b[old])
    test = cca.permutation_test(99, random_state=0)
    print(f"{name:<17} regularization {cca.regularization_:<8g} p = {test.pvalue:.2f}")
    CanonicalDisplay.from_estimator(cca, a[new], b[new], ax=axes)
    axes.set_title(f"{name}: p = {test.pvalue:.2f}\nnew points: {axes.get_title()}")
plt.show()
