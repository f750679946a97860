"""
A line that no threshold splits
===============================

Take the whole numbers from -10 to 10 and call those with \\|x\\| > 2 positive. On the line no
threshold separates them. Bend the line into the plane by x ↦ (x, x²) and a straight line does.
A kernel does the bending without ever writing the plane down.

This is the opening example of chapter 16 of *Understanding Machine Learning*.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC
from mercer import kernels as K

x = np.arange(-10.0, 11.0)[:, None]
y = np.where(np.abs(x[:, 0]) > 2, 1, -1)


def bend(x):
    return np.hstack([x, x**2])


for kernel in (K.Linear(), K.FromFeatures(bend), K.Polynomial(degree=2)):
    machine = SVC(kernel=kernel, C=1000.0).fit(x, y)
    print(f"{machine.score(x, y):.2f} right with {kernel}")

# %%
# The explicit map and the polynomial kernel are the same idea. The kernel (1 + xz)² is the inner
# product of (1, √2 x, x²), which holds the two coordinates of the plane and a constant.

phi = K.Polynomial(degree=2).feature_map().fit(x)
print(phi.transform([[3.0]]).round(3))

# %%
# With ``C=inf`` the machine looks for the widest margin. In the plane that is a strip between the
# rows x² = 4 and x² = 9, and a few of the points that touch it (ringed) determine it.

machine = SVC(kernel=K.FromFeatures(bend), C=np.inf).fit(x, y)
w = machine.dual_coef_ @ bend(x[machine.support_])
threshold = -machine.intercept_[0] / w[0, 1]
print(f"weights {w.round(3)}, boundary at x² = {threshold:.2f}, margin {machine.margin_:.2f}")

figure, (line, plane) = plt.subplots(
    1, 2, figsize=(10, 4), layout="constrained", width_ratios=(1, 1.2)
)
colours = np.where(y > 0, "#d9822b", "#2b6ca3")
line.scatter(x[:, 0], np.zeros(len(x)), c=colours, s=40, zorder=3)
line.axhline(0, color="0.7", linewidth=1)
line.set(title="on the line", xlabel="x", yticks=[], ylim=(-1, 1))
plane.scatter(x[:, 0], x[:, 0] ** 2, c=colours, s=40, zorder=3)
plane.scatter(*bend(x[machine.support_]).T, s=130, facecolors="none", edgecolors="0.25", zorder=4)
plane.axhspan(threshold - machine.margin_, threshold + machine.margin_, color="0.92")
plane.axhline(threshold, color="0.25", linewidth=1.2)
plane.annotate(
    "margin",
    (5, threshold),
    va="center",
    fontsize=9,
    color="0.25",
    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
)
plane.set(
    title="bent into the plane: (x, x²), near the boundary",
    xlabel="x",
    ylabel="x²",
    ylim=(-3, 40),
    xlim=(-6.8, 6.8),
)
for axes in (line, plane):
    axes.spines[["top", "right"]].set_visible(False)
line.spines["left"].set_visible(False)
plt.show()
