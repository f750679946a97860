"""
Text and numbers in one table
=============================

A table often has a column of text and columns of numbers. ``kernel.on(columns)`` says which
columns a kernel reads, and kernels on different columns add up and multiply like any others. There
is no vectorising step, and grid search reaches every parameter.
"""

# %%
# Pieces of DNA with two measurements each. A piece is active if it has the motif ``TATA`` and was
# measured in a warm, not too acid solution: neither the text nor the numbers alone tell.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_val_score

from mercer import SVC
from mercer import kernels as K

rng = np.random.default_rng(0)
n = 240


def piece(has_motif):
    letters = "".join(rng.choice(list("ACGT"), size=24)).replace("TATA", "TACA")
    where = rng.integers(0, 20)
    return letters[:where] + "TATA" + letters[where + 4 :] if has_motif else letters


motif = rng.random(n) < 0.6
table = pd.DataFrame(
    {
        "dna": [piece(m) for m in motif],
        "temperature": rng.uniform(10, 50, size=n),
        "acidity": rng.uniform(4, 9, size=n),
    }
)
active = motif & (table["temperature"] > 25) & (table["acidity"] > 5.5)
print(table.head(3).to_string())

# %%
# The text alone, the numbers alone, their sum (which adds what each has to say), their product
# (which asks for both to be alike), and all together. ``scales`` divides each number by what counts
# as near.

words = K.Spectrum(k=4).on("dna").normalize()
numbers = K.RBF(gamma=0.5, scales=[10.0, 1.0]).on(["temperature", "acidity"])
kernels = {
    "text": words,
    "numbers": numbers,
    "sum": words + numbers,
    "product": words * numbers,
    "all": words + numbers + words * numbers,
}
scores = {
    name: cross_val_score(SVC(kernel=k, C=10.0), table, active, cv=5) for name, k in kernels.items()
}
for name, found in scores.items():
    print(f"{name:<8} {found.mean():.3f} ± {found.std():.3f}")

# %%
# The combination carries its proof, as all do.

print(kernels["sum"].validity.proof)

# %%
# Parameters deep inside have names: ``left`` and ``right`` of a sum or product, ``kernel`` of
# everything that wraps one.

search = GridSearchCV(
    SVC(kernel=words * numbers, C=10.0),
    {"kernel__left__kernel__kernel__k": [3, 4, 5], "kernel__right__kernel__gamma": [0.1, 0.5, 2.0]},
    cv=5,
).fit(table, active)
print(search.best_params_, f"{search.best_score_:.3f}")

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
axes.boxplot(
    list(scores.values()),
    orientation="horizontal",
    tick_labels=list(scores),
    widths=0.5,
    medianprops={"color": "#d9822b", "linewidth": 2},
)
axes.axvline(max(active.mean(), 1 - active.mean()), color="0.6", linestyle=":", linewidth=1)
axes.invert_yaxis()
axes.set(xlabel="accuracy in five folds (dotted: always the larger class)")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
