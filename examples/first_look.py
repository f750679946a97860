"""
A first look
============

Every estimator once, on data sets that come with scikit-learn, compared with the nearest thing
scikit-learn has. Then what a kernel knows about itself, and a picture.

It takes some seconds and writes ``first_look.png``.
"""

# %%
# Data
# ----
# Five small data sets, split in two, features standardised on the training half.

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn import datasets, linear_model, neighbors, svm
from sklearn import kernel_ridge as sk_ridge
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import KernelPCA as SkKernelPCA
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

import mercer
from mercer import kernels as K

started = time.perf_counter()


def load(name):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)
    scaler = StandardScaler().fit(X)
    if name == "diabetes":
        y, y_new = (y - y.mean()) / y.std(), (y_new - y.mean()) / y.std()
    return scaler.transform(X), scaler.transform(X_new), y, y_new


names = ["iris", "wine", "breast_cancer", "digits", "diabetes"]
data = {name: load(name) for name in names}

# %%
# Every estimator
# ---------------
# A row is an estimator of ``mercer``, what scikit-learn has for the same task, and how both do on
# the half they have not seen: accuracy or R² unless the row says otherwise. Where scikit-learn has
# no kernel version of a method, its linear one is given the kernel's features (``Nystroem``). A
# tilde marks another method, or the same with other details, whose score need not agree.

rows = []


def compare(ours, theirs, data_name, label, measure=None, what=""):
    X, X_new, y, y_new = data[data_name]
    if measure is None:
        what = "R²" if data_name == "diabetes" else "accuracy"

        def measure(model):
            return model.fit(X, y).score(X_new, y_new)

    score = measure(ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iterations that did not settle
        their_score = measure(theirs)
    name = type(ours).__name__
    rows.append(
        (name, data_name, what, score, label if label == name else f"~ {label}", their_score)
    )


def features(gamma, data_name):
    n = len(data[data_name][0])
    return Nystroem(gamma=gamma, n_components=n, random_state=0)


compare(mercer.SVC(C=5.0), svm.SVC(C=5.0), "digits", "SVC")
compare(mercer.NuSVC(nu=0.1), svm.NuSVC(nu=0.1), "wine", "NuSVC")
compare(
    mercer.KernelMachineClassifier("logistic", alpha=0.1, gamma=0.03),
    make_pipeline(features(0.03, "wine"), linear_model.LogisticRegression(C=10.0, max_iter=1000)),
    "wine",
    "Nystroem + LogisticRegression",
)
compare(
    mercer.KernelRidgeClassifier(alpha=0.1, gamma=0.01),
    make_pipeline(features(0.01, "digits"), linear_model.RidgeClassifier(alpha=0.1)),
    "digits",
    "Nystroem + RidgeClassifier",
)
compare(
    mercer.KernelPerceptron(gamma=0.03, average=True, random_state=0),
    make_pipeline(features(0.03, "breast_cancer"), linear_model.Perceptron(random_state=0)),
    "breast_cancer",
    "Nystroem + Perceptron",
)
compare(
    mercer.KernelSGDClassifier(gamma=0.03, alpha=0.01, random_state=0),
    make_pipeline(
        features(0.03, "breast_cancer"), linear_model.SGDClassifier(alpha=0.01, random_state=0)
    ),
    "breast_cancer",
    "Nystroem + SGDClassifier",
)
compare(
    mercer.KernelCentroidClassifier(gamma=0.03),
    neighbors.NearestCentroid(),
    "digits",
    "NearestCentroid",
)
compare(
    mercer.NadarayaWatsonClassifier(),
    neighbors.KNeighborsClassifier(weights="distance"),
    "iris",
    "KNeighborsClassifier",
)
compare(mercer.SVR(gamma=0.02), svm.SVR(gamma=0.02), "diabetes", "SVR")
compare(mercer.NuSVR(gamma=0.02), svm.NuSVR(gamma=0.02), "diabetes", "NuSVR")
compare(
    mercer.KernelRidge(alpha=1.0, kernel="rbf", gamma=0.02),
    sk_ridge.KernelRidge(alpha=1.0, kernel="rbf", gamma=0.02),
    "diabetes",
    "KernelRidge",
)
alphas = np.logspace(-2, 2, 9)
compare(
    mercer.KernelRidgeCV(alphas, kernel="rbf", gamma=0.02),
    GridSearchCV(sk_ridge.KernelRidge(kernel="rbf", gamma=0.02), {"alpha": alphas}),
    "diabetes",
    "GridSearchCV of KernelRidge",
)
compare(
    mercer.KernelMachineRegressor("huber", alpha=1.0, gamma=0.02),
    make_pipeline(
        features(0.02, "diabetes"), linear_model.HuberRegressor(alpha=0.5, max_iter=1000)
    ),
    "diabetes",
    "Nystroem + HuberRegressor",
)
compare(
    mercer.NadarayaWatsonRegressor(),
    neighbors.KNeighborsRegressor(weights="distance"),
    "diabetes",
    "KNeighborsRegressor",
)

# %%
# The others have scores of their own. Local linear regression sees one feature (body mass), the
# one-class machine learns what benign tumours look like and ranks the rest, kernel PCA is judged by
# the nearest neighbour in ten components, and CCA by how well the left and the right half of a
# digit correlate.


def on_body_mass(model):
    X, X_new, y, y_new = data["diabetes"]
    return model.fit(X[:, [2]], y).score(X_new[:, [2]], y_new)


def novelty(model):
    X, X_new, y, y_new = data["breast_cancer"]
    return roc_auc_score(y_new, model.fit(X[y == 1]).decision_function(X_new))


def in_components(model):
    X, X_new, y, y_new = data["digits"]
    nearest = neighbors.KNeighborsClassifier(1).fit(model.fit_transform(X), y)
    return nearest.score(model.transform(X_new), y_new)


def between_halves(model):
    X, X_new, _, _ = data["digits"]
    left = np.arange(64) % 8 < 4
    u, v = model.fit(X[:, left], X[:, ~left]).transform(X_new[:, left], X_new[:, ~left])
    return np.corrcoef(u[:, 0], v[:, 0])[0, 1]


def log_likelihood(model):
    X, X_new, _, _ = data["wine"]
    return model.fit(X).score(X_new) / len(X_new)


compare(
    mercer.LocalLinearRegressor(),
    make_pipeline(SplineTransformer(), linear_model.LinearRegression()),
    "diabetes",
    "SplineTransformer + LinearRegression",
    on_body_mass,
    "R², one feature",
)
compare(
    mercer.OneClassSVM(nu=0.1),
    svm.OneClassSVM(nu=0.1),
    "breast_cancer",
    "OneClassSVM",
    novelty,
    "area under ROC",
)
compare(
    mercer.KernelPCA(10, kernel="rbf", gamma=0.01),
    SkKernelPCA(10, kernel="rbf", gamma=0.01),
    "digits",
    "KernelPCA",
    in_components,
    "1-NN accuracy",
)
compare(
    mercer.KernelCCA(1, kernel="rbf", gamma=0.005, regularization=0.01),
    CCA(1),
    "digits",
    "CCA (linear)",
    between_halves,
    "correlation",
)
compare(
    mercer.KernelDensity(bandwidth="scott"),
    neighbors.KernelDensity(bandwidth="scott"),
    "wine",
    "KernelDensity, one width for all features",
    log_likelihood,
    "mean log p(x)",
)

print(f"{'mercer':<25}{'data':<15}{'score':<17}{'mercer':>8}{'sklearn':>9}  with (~ not the same)")
print("-" * 108)
for name, data_name, what, ours, label, theirs in rows:
    print(f"{name:<25}{data_name:<15}{what:<17}{ours:8.3f}{theirs:9.3f}  {label}")

# %%
# What a kernel knows about itself
# --------------------------------
# Kernels combine, and a combination carries the proof that it is one.

k = 0.5 * K.RBF(gamma=2.0) + K.Polynomial(degree=2).normalize()
print()
print(k.validity.proof)

# %%
# The hyperbolic tangent is in many libraries. Two points show that it is not a kernel.

tanh = K.Sigmoid(gamma=1.0, coef0=1.0)
print(f"\n{tanh} is {tanh.validity.status}: {tanh.validity.reason}.")
print(tanh.validity.counterexample)

# %%
# A picture
# ---------
# A support vector machine with its margins, a density, and a smoother with its spread.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
figure.get_layout_engine().set(wspace=0.06)
blue, orange, green, grey = "#2b6ca3", "#d9822b", "#4f9a5c", "#444444"

# Two features of two species of iris: the boundary f = 0, the margins f = ±1, who supports them.
X, y = datasets.load_iris(return_X_y=True)
X, y = X[y > 0][:, [2, 3]], np.where(y[y > 0] == 2, 1, -1)
machine = mercer.SVC(kernel=K.RBF(gamma=0.7), C=20.0).fit(X, y)
across, up = np.meshgrid(np.linspace(2.7, 7.2, 200), np.linspace(0.8, 2.7, 200))
f = machine.decision_function(np.c_[across.ravel(), up.ravel()]).reshape(across.shape)
left.contourf(across, up, f, levels=[-np.inf, 0, np.inf], colors=[blue, orange], alpha=0.12)
lines = left.contour(
    across, up, f, levels=[-1, 0, 1], colors=grey, linestyles=["--", "-", "--"], linewidths=1.2
)
left.clabel(lines, fmt={-1: "−1", 0: "0", 1: "+1"}, fontsize=8)
for label, colour, species in ((-1, blue, "versicolor"), (1, orange, "virginica")):
    left.scatter(*X[y == label].T, s=20, color=colour, label=species, zorder=3)
left.scatter(
    *X[machine.support_].T,
    s=80,
    facecolors="none",
    edgecolors=grey,
    label="support vectors",
    linewidths=1.1,
    zorder=4,
)
left.set(
    xlabel="petal length (cm)",
    ylabel="petal width (cm)",
    title=f"SVC: {len(machine.support_)} of {len(X)} points hold the margin",
    ylim=(0.8, 3.0),  # room for the legend above the contours
)
left.legend(loc="upper center", ncols=3, fontsize=8, columnspacing=1.0, handletextpad=0.3)

# Three wines in two features: a Parzen density.
X, y = datasets.load_wine(return_X_y=True)
X = X[:, [6, 9]]
density = mercer.KernelDensity(bandwidth="scott").fit(X)
across, up = np.meshgrid(np.linspace(-0.2, 5.4, 160), np.linspace(0, 14, 160))
p = density.pdf(np.c_[across.ravel(), up.ravel()]).reshape(across.shape)
middle.contourf(across, up, p, levels=np.linspace(0.004, 1.5 * p.max(), 15), cmap="Greys")
middle.contour(across, up, p, levels=np.linspace(0.004, p.max(), 10), colors=grey, linewidths=0.7)
for wine, marker, colour in zip(range(3), "osD", (blue, orange, green), strict=True):
    middle.scatter(
        *X[y == wine].T, s=18, marker=marker, color=colour, label=f"cultivar {wine + 1}", zorder=3
    )
middle.set(xlabel="flavanoids", ylabel="colour intensity", title="KernelDensity of 178 wines")
middle.legend(loc="upper right", fontsize=8)

# How crinkly a tumour's outline is, by its size: a local linear fit and one standard deviation.
X, y = datasets.load_breast_cancer(return_X_y=True)
x, t = X[:, [0]], 100 * X[:, 9]
smoother = mercer.LocalLinearRegressor().fit(x, t)
grid = np.linspace(x.min(), x.max(), 300)[:, None]
mean, spread = smoother.predict(grid, return_std=True)
right.fill_between(grid[:, 0], mean - spread, mean + spread, color=grey, alpha=0.15, linewidth=0)
for kind, colour, tumour in ((1, blue, "benign"), (0, orange, "malignant")):
    right.scatter(x[y == kind, 0], t[y == kind], s=9, color=colour, label=tumour, alpha=0.6)
right.plot(grid[:, 0], mean, color=grey, linewidth=2, label="mean ± one std")
right.set(
    xlabel="mean radius",
    ylabel="mean fractal dimension (%)",
    title="LocalLinearRegressor of 569 tumours",
)
right.legend(loc="upper right", fontsize=8)
for axes in (left, middle, right):
    axes.spines[["top", "right"]].set_visible(False)
    axes.title.set_fontsize(11)
figure.savefig("first_look.png", dpi=150)

print(f"\nWrote first_look.png after {time.perf_counter() - started:.0f} s.")
