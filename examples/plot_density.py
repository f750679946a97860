"""
Densities and smoothers
=======================

Parzen's density asks how much to smooth. A rule that knows one normal law blurs two modes into one;
rules that look at the data do not. The same kernels, put around points with a target, give a
regression with its band, and the density of the target at each place.
"""

# %%
# Two modes
# ---------
# Waits between eruptions, say: a short one or a long one. Silverman's rule takes the spread of both
# for that of one, and smooths twice as much as is good; Improved Sheather-Jones sees through it.

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelDensity, LocalLinearRegressor
from mercer.plots import BandwidthDisplay, DensityDisplay, RegressionDisplay

rng = np.random.default_rng(0)
long = rng.random(300) < 0.64
eruption = np.where(long, rng.normal(4.3, 0.4, 300), rng.normal(2.0, 0.25, 300))
wait = np.where(long, rng.normal(80, 6, 300), rng.normal(54, 6, 300))

figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axes, rule in zip(panels, ("silverman", "isj"), strict=True):
    kde = KernelDensity(bandwidth=rule).fit(eruption[:, None])
    DensityDisplay.from_estimator(kde, ax=axes)
    axes.set(title=f"{rule}: h = {kde.bandwidth_:.2f}", xlabel="minutes")
plt.show()

# %%
# In the plane
# ------------
# A full matrix from the plug-in rule, which turns with the data. The contours hold 95, 80, 60, 40,
# 20 and 5 per cent of the mass. After an eruption of two minutes the wait has one mode left.

X = np.column_stack([eruption, wait])
kde = KernelDensity(bandwidth="plugin").fit(X)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
DensityDisplay.from_estimator(kde, ax=left)
left.set(xlabel="minutes", ylabel="wait")
DensityDisplay.from_estimator(kde.conditional({0: 2.0}), ax=right)
right.set(xlabel="wait, after an eruption of two minutes")
plt.show()

# %%
# A regression with its band
# --------------------------
# Local lines with the bandwidth that leave-one-out finds best, and what it saw on the way. Noise
# that grows along x widens the band; quantiles of the target follow it.

x = rng.uniform(0, 6, size=(250, 1))
y = np.sin(x[:, 0]) + 0.15 * (0.3 + x[:, 0]) * rng.normal(size=250)
model = LocalLinearRegressor().fit(x, y)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
RegressionDisplay.from_estimator(model, ax=left)
places = np.linspace(0, 6, 120)[:, None]
low, high = model.conditional_quantile(places, [0.1, 0.9]).T
left.plot(places, low, ":", places, high, ":", color="#d9822b")
left.set_title("mean with its band, and quantiles of y")
BandwidthDisplay.from_estimator(model, ax=right)
plt.show()
