"""
Taking noise off digits
=======================

The classic use of kernel PCA: keep the leading components of a noisy picture, drop the rest, and
look for the picture whose components these are. Where it lies in feature space no picture need
map to; the nearest one is its *pre-image*.
"""

# %%
# Digits with noise
# -----------------
# A thousand noisy digits to learn from, and others to clean, which were not seen before. The kernel
# is wide: its components are the broad ways in which digits differ, and noise has little of them.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from mercer import KernelPCA
from mercer import kernels as K
from mercer.plots import PreImageDisplay, ProjectionDisplay, ScreeDisplay

digits = load_digits()
clean = digits.data / 16
noisy = clean + 0.25 * np.random.default_rng(0).normal(size=clean.shape)
old, new = slice(0, 1000), slice(1000, None)

pca = KernelPCA(
    n_components=32,
    kernel=K.RBF(0.03),
    fit_inverse_transform=True,
    pre_image="fixed_point",
    alpha=0.1,
).fit(noisy[old])

some = [1000 + int(np.argmax(digits.target[new] == label)) for label in range(10)]
PreImageDisplay.from_estimator(pca, noisy[some], shape=(8, 8), truth=clean[some])
plt.show()

# %%
# How near they are to the digits without noise, compared with as many components of plain PCA and
# with the pre-image by regression. Every eigenpair has a residual: an eigenvalue of the Gram
# matrix lies within it of the one found.


def error(cleaned):
    return np.mean((cleaned - clean[new]) ** 2)


plain = PCA(32).fit(noisy[old])
print(f"noisy           {error(noisy[new]):.4f}")
print(f"plain PCA       {error(plain.inverse_transform(plain.transform(noisy[new]))):.4f}")
print(f"fixed points    {error(pca.inverse_transform(pca.transform(noisy[new]))):.4f}")
ridge = KernelPCA(32, kernel=K.RBF(0.03), fit_inverse_transform=True, alpha=0.1).fit(noisy[old])
print(f"by regression   {error(ridge.inverse_transform(ridge.transform(noisy[new]))):.4f}")
print(f"residuals are at most {pca.residuals_.max():.0e}; {pca.result_.method}")

# %%
# What the components are
# -----------------------
# The share of the variance that each has, and the digits along the first two.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
ScreeDisplay.from_estimator(pca, ax=left)
ProjectionDisplay.from_estimator(pca, clean[new], digits.target[new], ax=right)
plt.show()

# %%
# Strangers
# ---------
# What is far from the space of the components is unlike the digits learned from: pictures with
# their pixels shuffled have a larger reconstruction error than any digit.

shuffled = np.random.default_rng(1).permuted(clean[new], axis=1)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for name, pictures, colour in (
    ("digits", clean[new], "#2b6ca3"),
    ("shuffled pixels", shuffled, "#d9822b"),
):
    axes.hist(pca.reconstruction_error(pictures), bins=40, color=colour, alpha=0.7, label=name)
axes.set(xlabel="reconstruction error", ylabel="pictures")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
