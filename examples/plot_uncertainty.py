"""
How uncertain is a prediction?
==============================

A Gaussian process gives each prediction a standard deviation and learns the parameters of its
kernel, and the noise, by the evidence. Intervals from leave-one-out residuals assume no model of
the errors.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GaussianProcessRegressor, KernelRidgeCV
from mercer import kernels as K
from mercer.plots import EvidenceDisplay, RegressionDisplay

rng = np.random.default_rng(0)
x = np.sort(np.append(rng.uniform(0, 4, 40), rng.uniform(7, 10, 20)))[:, None]
y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 0] + 0.25 * rng.normal(size=60)

# %%
# The band is for new targets. It widens where there are no points, and each thin curve is a
# function that the data allow.

model = GaussianProcessRegressor(1.0 * K.RBF(0.5), normalize_y=True).fit(x, y)
display = RegressionDisplay.from_estimator(model, n_samples=4)
display.ax_.set_title("Gaussian process")

# %%
# The evidence over the width of the kernel and the noise. Wide functions with much noise explain
# the data too, but not as well.

EvidenceDisplay.from_estimator(model, names=("right__gamma", "noise"), span=30)

# %%
# For errors that are not normal, here of a different size on each side, intervals of jackknife+
# contain about nine tenths of new targets all the same.

skewed = np.sin(2 * x[:, 0]) + 0.3 * x[:, 0] + rng.exponential(0.5, size=60)
ridge = KernelRidgeCV(np.logspace(-3, 1, 9), kernel=K.RBF(0.5)).fit(x, skewed)
new = np.linspace(0, 10, 200)[:, None]
lower, upper = ridge.predict_interval(new, coverage=0.9)

_, ax = plt.subplots(layout="constrained")
ax.plot(x, skewed, ".", color="#888888")
ax.plot(new, ridge.predict(new), color="#2b6ca3")
ax.fill_between(new[:, 0], lower, upper, alpha=0.25, linewidth=0, label="90 % of new targets")
ax.legend(frameon=False)
ax.set_title("Jackknife+")
plt.show()
