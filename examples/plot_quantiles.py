"""
Quantiles that do not cross
===========================

A line through the middle of the data says nothing about their spread. Quantiles do: nine out of
ten new points should lie below the 0.9 quantile, one out of ten below the 0.1 quantile. Each is a
kernel machine with the pinball loss. Fitted one by one they may cross, which no distribution
allows; fitted together they cannot.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelMachineRegressor
from mercer import kernels as K

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 6, size=120))[:, None]
y = np.sin(x[:, 0]) + (0.1 + 0.15 * x[:, 0]) * rng.standard_t(4, size=120)
grid = np.linspace(-0.5, 6.5, 400)[:, None]
levels = [0.1, 0.25, 0.5, 0.75, 0.9]


def machine(quantile):
    return KernelMachineRegressor("quantile", quantile=quantile, kernel=K.RBF(1.0), alpha=0.01)


alone = np.column_stack([machine(level).fit(x, y).predict(grid) for level in levels])
together = machine(levels).fit(x, y)
print(together.result_.message)

# %%
# One by one, quantiles cross in places. Together, their order is a condition of the fit at the
# training points; at other points predictions are sorted, which never raises their loss.

band = together.predict(grid)
for name, curves in (("one by one", alone), ("together", band)):
    crossing = np.mean(np.any(np.diff(curves, axis=1) < 0, axis=1))
    print(f"{name}: out of order at {crossing:.0%} of the places")

figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax, title, curves in zip(axes, ("one by one", "together"), (alone, band), strict=True):
    ax.plot(x, y, ".", color="0.6", markersize=4)
    for level, curve in zip(levels, curves.T, strict=True):
        ax.plot(grid, curve, color=plt.colormaps["viridis"](level), label=f"{level:g}")
    crossed = np.any(np.diff(curves, axis=1) < 0, axis=1)
    ax.vlines(grid[crossed, 0], -4, -3.8, color="tab:red", linewidth=1)
    ax.set(title=title, xlabel="x", ylim=(-4, 4))
axes[0].set_ylabel("y; red ticks where curves are out of order")
figure.legend(*axes[1].get_legend_handles_labels(), title="level", loc="outside right")
plt.show()

# %%
# A good set of quantiles is not only in order. On new points, the share below each should be its
# level.

new = rng.uniform(0, 6, size=(20_000, 1))
truth = np.sin(new[:, 0]) + (0.1 + 0.15 * new[:, 0]) * rng.standard_t(4, size=20_000)
for level, curve in zip(levels, together.predict(new).T, strict=True):
    print(f"level {level:g}: {np.mean(truth <= curve):.3f} of new points below")
