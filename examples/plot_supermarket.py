"""
A supermarket with a million products
=====================================

A manager wants to know which customers have a baby, from their shopping carts. Some handful of
products gives it away, but which? (Exercise 5 of chapter 16 of *Understanding Machine Learning*.)

A cart is a set, and the kernel \\|A ∩ B\\| is an inner product of vectors with one coordinate for
each product. What a machine needs grows with the number of items in a cart, not with the number of
products, so a million of them cost nothing.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import LinearSVC

from mercer import SVC
from mercer import kernels as K

n_products, n_customers, cart_size = 1_000_000, 1200, 20
rng = np.random.default_rng(0)
baby_products = set(rng.choice(n_products, size=5, replace=False).tolist())


def shop(has_baby):
    """A cart: popular products mostly, some from the far end of the shelf, perhaps baby things."""
    popular = (n_products * rng.random(cart_size) ** 8).astype(int)
    cart = set(popular.tolist()) - baby_products
    if has_baby:
        cart |= set(rng.choice(sorted(baby_products), size=rng.integers(1, 3)).tolist())
    return cart


labels = np.where(rng.random(n_customers) < 0.5, 1, -1)
carts = [shop(label > 0) for label in labels]
print(f"{len(set().union(*carts)):,} of {n_products:,} products were ever bought")

# %%
# The explicit map has a column for each product that occurs, and is stored sparsely.

phi = K.SetIntersection().feature_map().fit(carts)
features = phi.transform(carts)
print(f"{features.shape[1]:,} features, {features.nnz / len(carts):.0f} of them in a cart")

# %%
# How many customers must be asked? Each machine learns from the first m and is judged on the last
# 400.

sizes = [10, 20, 40, 80, 160, 320, 640]
scores = []
start = time.perf_counter()
for m in sizes:
    machine = SVC(kernel=K.SetIntersection(), C=10.0).fit(carts[:m], labels[:m])
    scores.append(machine.score(carts[-400:], labels[-400:]))
print(f"{len(sizes)} machines in {time.perf_counter() - start:.1f} s")

# %%
# The weight of a product in the last machine is Σ α_i over the carts that hold it.

weights = features[machine.support_].T @ machine.dual_coef_[0]
names = phi.get_feature_names_out()
best = np.argsort(-weights)[:8]
giveaway = {str(product) for product in baby_products}

# %%
# Many more customers? The sparse map goes straight into scikit-learn's linear SVM. Its time
# grows with the number of items bought in all.

start = time.perf_counter()
crowd = np.where(rng.random(20_000) < 0.5, 1, -1)
crowd_features = phi.fit_transform([shop(label > 0) for label in crowd])
linear = LinearSVC(C=10.0).fit(crowd_features[:-400], crowd[:-400])
score = linear.score(crowd_features[-400:], crowd[-400:])
print(
    f"{len(crowd):,} customers, {crowd_features.shape[1]:,} products seen, accuracy {score:.3f}, "
    f"{time.perf_counter() - start:.1f} s"
)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(sizes, scores, marker="o", color="#2b6ca3")
left.set(xscale="log", xticks=sizes, xlabel="customers asked", ylabel="accuracy on 400 others")
left.set_xticks(sizes, sizes)
left.minorticks_off()
left.set_title("a few hundred carts are enough")
right.barh(
    range(8), weights[best], color=["#d9822b" if names[j] in giveaway else "#9db8d2" for j in best]
)
right.set_yticks(range(8), [f"product {int(names[j]):,}" for j in best])
right.invert_yaxis()
right.set(xlabel="weight", title="the heaviest products (orange: baby things)")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
