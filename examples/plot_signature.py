"""
A virus signature
=================

A file is infected if somewhere in it there is a certain short run of bytes. Nobody tells us which.
We have some files that are infected and some that are not.

The substring kernel gives every string a coordinate that says whether it occurs in the file, and
counts the coordinates two files share. There are far too many coordinates to write down and no need
to: a support vector machine works with the counts. Afterwards we ask it which strings it uses.
"""

# %%
# Files
# -----
# Random bytes over a small alphabet; half the files get the signature planted somewhere.

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, check_kernel
from mercer import kernels as K

rng = np.random.default_rng(0)
signature = b"\xde\xad\xbe"
alphabet = np.frombuffer(b"\x00\x01\x90\xad\xbe\xde\xef\xff", dtype=np.uint8)


def make_file(infected):
    body = rng.choice(alphabet, size=rng.integers(10, 17)).tobytes()
    body = body.replace(signature, b"")
    if not infected:
        return body
    where = rng.integers(0, len(body) - len(signature) + 1)
    return body[:where] + signature + body[where + len(signature) :]


labels = np.array([1, -1] * 200)
files = [make_file(label > 0) for label in labels]
print(files[0].hex(" "))
print(files[1].hex(" "))

# %%
# The kernel
# ----------
# ``Substring()`` counts distinct common substrings. It is an inner product of indicators, so it is
# a kernel; ``min_length=2`` leaves out single bytes, which all files share.

kernel = K.Substring(min_length=2)
print(kernel(files[:4]))
print(check_kernel(kernel, files[:50]))

# %%
# Learning
# --------
# Train on half of the files, look at the other half.

train, test = slice(0, 200), slice(200, 400)
machine = SVC(kernel=kernel, C=10.0).fit(files[train], labels[train])
print(f"{machine.score(files[test], labels[test]):.3f} right on files it has not seen")

# %%
# What it looks for
# -----------------
# The machine's weight on a string v is Σ α_i [v occurs in file i]. Over all strings that occur, the
# heaviest is the signature.


def substrings(data):
    return {data[i:j] for i in range(len(data)) for j in range(i + 2, len(data) + 1)}


weights = {}
for i, a in zip(machine.support_, machine.dual_coef_[0], strict=True):
    for v in substrings(files[i]):
        weights[v] = weights.get(v, 0.0) + a
top = sorted(weights, key=weights.get, reverse=True)[:8]

figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
heights = [weights[v] for v in top]
axes.barh(range(len(top)), heights, color=["#d9822b" if v == signature else "#9db8d2" for v in top])
axes.set_yticks(range(len(top)), [v.hex(" ") for v in top], family="monospace")
axes.invert_yaxis()
axes.set(xlabel="weight", title="the strings that speak most for an infection")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
