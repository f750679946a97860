"""
What is a series made of?
=========================

A search adds one part at a time to the kernel of a Gaussian process, as long as the evidence grows.
Each part has a posterior of its own, and a description.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import StructureSearch
from mercer.plots import PartsDisplay

rng = np.random.default_rng(0)
t = np.arange(156)
date = pd.date_range("2010-01-01", periods=156, freq="MS")
visitors = 40 + 0.2 * t + (4 + 0.05 * t) * np.sin(2 * np.pi * t / 12) + 2 * rng.normal(size=156)

# %%
# Learn from ten years.

table = pd.DataFrame({"date": date})
search = StructureSearch(max_time=20).fit(table[:120], visitors[:120])
print(search.describe())

# %%
# The parts, with bands of 95 %.

PartsDisplay.from_estimator(search)

# %%
# Three more years, which the search has not seen.

mean, std = search.predict(table, return_std=True)
_, ax = plt.subplots(layout="constrained")
ax.plot(date, visitors, ".", color="#888888", label="data")
ax.plot(date, mean, color="#2b6ca3", linewidth=1)
ax.fill_between(date, mean - 2 * std, mean + 2 * std, alpha=0.25, linewidth=0)
ax.axvline(date[120], color="#888888", linestyle="--", linewidth=0.8, label="forecast from here")
ax.legend(frameon=False)
plt.show()
