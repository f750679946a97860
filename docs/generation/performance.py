"""The performance page, from the tables that ``benchmarks/README.md`` keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
from generation.pictures import save
from matplotlib.ticker import FuncFormatter

BLUE, ORANGE, GREY = "#1f77b4", "#d95f02", "#999999"
README = Path(__file__).parents[2] / "benchmarks" / "README.md"


@dataclass(frozen=True)
class Run:
    """One heading of the results, and what is below it."""

    date: str
    script: str
    where: str
    text: str


@dataclass(frozen=True)
class Ratio:
    """How many times the speed of a peer's mercer's is, at a task."""

    script: str
    task: str
    peer: str
    value: float


@dataclass(frozen=True)
class Growth:
    """Seconds against the number of points."""

    name: str
    points: list[float]
    seconds: list[float]


def runs(readme: str) -> list[Run]:
    """The runs, newest first as they stand."""
    results = readme.split("\n## Results\n", 1)[1]
    found = re.findall(
        r"(?ms)^### (\d{4}-\d\d-\d\d), `([\w.]+)([^`]*)`, ([^\n]*)\n(.*?)(?=^### |\Z)", results
    )
    return [Run(date, name, where, text) for date, name, _, where, text in found]


# How each script prints what it measured.
NUMBER = r"([\d.]+)"
TASK = r"^(?P<task>[^\n:]+)"
RATIO = r"(?P<ratio>[\d.]+)"
LINES = [
    # logistic, 2 classes, ...: mercer 0.610 s, Nystroem + LogisticRegression 0.648 s, ratio 1.1
    TASK + r": mercer [^\n]*?, (?P<peer>[A-Z][^\n,]*?) [\d.]+ s, ratio " + RATIO,
    # 50 alphas, n = 2000: ..., GridSearchCV with 5 folds 24.93 s, ratio 21.9
    r"^(?P<task>\d+ alphas[^\n:]*):[^\n]*, (?P<peer>GridSearchCV)[^\n]*, ratio " + RATIO,
    # KernelCCA, n = 2000, d = 3: mercer 0.33 s (...), cca-zoo 2.61 s: 8.0 x
    TASK + r": mercer [^\n]*?, (?P<peer>[A-Za-z][\w +-]*?) [\d.]+ s(?:: |, )" + RATIO + " x",
    # NadarayaWatsonRegressor, ...: mercer 14 ms, ...; statsmodels 0.87 s, 0.10186843: 61 x
    TASK + r": mercer [^\n]*; (?P<peer>statsmodels) [^\n]*: " + RATIO + " x",
    # nystrom, 200000 x 10, 1000 centres, pivoted: 3.04 s, ratio 6.01
    r"^(?P<task>nystrom, [^\n:]*): [\d.]+ s, ratio " + RATIO,
    # WeisfeilerLehman(5), ENZYMES    13.1   302.7   23.0x  0.0e+00
    r"^(?P<task>[A-Z][^\n]*?) {2,}[\d.]+ +[\d.]+ +" + RATIO + "x",
]
# A line that names the task, then indented ones with a peer each.
UNDER = [
    # exact, 20,000 at 20,000, d = 2: mercer 0.259 s (...) / 10.0 x scipy (2.60 s)
    (r"(?P<ratio>[\d.]+) x (?P<peer>[\w-]+) \(", ": mercer "),
    # 1,000,000 points on a grid of 1,024: mercer 3.6 ms / KDEpy 4.9 ms, ...: 1.37 x, 1.14 x
    (r"(?P<peer>KDEpy) [^\n]*: (?P<ratio>[\d.]+) x", ": mercer "),
    # exact fit, ...: / mercer: 2.51 s, ratio 2.44, ...
    (r"mercer(?P<how>[^\n:]*): [\d.]+ s, ratio (?P<ratio>[\d.]+)", ":"),
]
# Those that are not estimators of scikit-learn's.
OTHERS = ("GraKeL", "strkernels", "statsmodels", "KeOps", "SciPy", "cca-zoo", "NumPy", "oneDAL")
OTHERS += ("KDEpy",)
PEERS = {
    "numpy": "NumPy",
    "keops": "KeOps",
    "scipy": "SciPy",
    "randomized": "scikit-learn, randomised",
    "dense": "scikit-learn, dense",
}


def ratios(run: Run) -> list[Ratio]:
    """Every comparison with a peer that the run printed."""
    found = {}
    for task, peer, value in _stated(run):
        key = (" ".join(task.split()), PEERS.get(peer, peer))
        found.setdefault(key, Ratio(run.script, *key, value))
    return list(found.values())


def _stated(run: Run) -> Iterator[tuple[str, str, float]]:
    if run.script == "svm.py":
        yield from _svm_table(run.text)
        return
    if run.script == "sweep.py":
        for name, n, fit, predict in _sweep(run.text):
            yield f"fit, {name}, n = {n:,}", "scikit-learn", fit
            yield f"predict, {name}, n = {n:,}", "scikit-learn", predict
        return
    if run.script == "matvec.py":
        for line in run.text.splitlines():
            name = re.split(r" {2,}", line)[0]
            for peer, value in re.findall(r"(numpy|keops) +([\d.]+)x", line):
                yield name, peer, float(value)
        return
    default = next((peer for peer in ("GraKeL", "strkernels") if peer in run.where), "scikit-learn")
    for pattern in LINES:
        for match in re.finditer(pattern, run.text, re.MULTILINE):
            named = match.groupdict()
            yield named["task"], named.get("peer") or default, float(named["ratio"])
    task = ""
    for line in run.text.splitlines():
        if line and not line.startswith(" "):
            task = line
            continue
        for pattern, mark in UNDER:
            match = re.match(rf" +{pattern}", line)
            if match and mark in task:
                named = match.groupdict()
                how = named.get("how", "")
                yield task.split(":")[0] + how, named.get("peer", default), float(named["ratio"])


def _sweep(text: str) -> list[tuple[str, int, float, float]]:
    """Use, number of points, and ratios of fit and predict, from the lines of ``sweep.py``."""
    pattern = r"(?m)^(\S.*?) +n = +([\d,]+) +fit .*? ([\d.]+)x +predict .*? ([\d.]+)x$"
    return [
        (name, int(n.replace(",", "")), float(fit), float(predict))
        for name, n, fit, predict in re.findall(pattern, text)
    ]


def _svm_table(text: str) -> Iterator[tuple[str, str, float]]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) != 10 or not re.fullmatch(NUMBER, cells[2]):
            continue
        name, dtype = cells[:2]
        for verb, at in (("fit", 2), ("predict", 6)):
            ours, sklearn, onedal = map(float, cells[at : at + 3])
            yield f"{verb}, {name}, {dtype}", "scikit-learn", sklearn / ours
            yield f"{verb}, {name}, {dtype}", "oneDAL", onedal / ours


def growths(run: Run) -> list[Growth]:
    """Lines such as ``cholesky: slope 2.29, ...; 1000: 0.02 s, 2000: 0.10 s``."""
    found = []
    for name, rest in re.findall(r"(?m)^([^\n:]+): slope [^;\n]*; ([^\n]*)$", run.text):
        pairs = re.findall(r"(\d+): ([\d.]+) s", rest)
        found.append(Growth(name, [float(n) for n, _ in pairs], [float(s) for _, s in pairs]))
    return found


def figures(readme: str) -> list[tuple[str, str]]:
    """Three figures for the front page, each with what it is; a ValueError where one is gone."""
    svm = _row(readme, r"^\| a9a, (\d+)×\d+ \| float64 \| (\d+) \| (\d+) \| (\d+) \|")
    product = _row(readme, r"^RBF float32 d=10 n=\d+ .*?numpy +([\d.]+)x .*?keops +([\d.]+)x")
    graphs = _row(
        readme, r"^WeisfeilerLehman\(5\), ([\d,]+ molecules) +([\d.]+) +([\d.]+) +([\d.]+)x"
    )
    n, ours, theirs, onedal = map(float, svm)
    return [
        (
            f"{ours / 1e3:.1f} s",
            f"to fit an SVM to {n:,.0f} points; scikit-learn takes {theirs / 1e3:.0f} s, oneDAL "
            f"{onedal / 1e3:.1f} s",
        ),
        (
            f"{float(product[1]):.0f}×",
            "the speed of KeOps, and "
            f"{float(product[0]):.0f}× that of tiled NumPy, at products with a Gaussian kernel "
            "matrix on the same processor",
        ),
        (
            f"{float(graphs[3]):.0f}×",
            f"the speed of GraKeL at the Weisfeiler–Lehman kernel of {graphs[0]}; the same matrix "
            "to the last bit",
        ),
    ]


def _row(readme: str, pattern: str) -> tuple[str, ...]:
    match = re.search(pattern, readme, re.MULTILINE)
    if match is None:
        raise ValueError(f"benchmarks/README.md has no line like {pattern}")
    return match.groups()


# The page.


def write(folder: Path) -> None:
    """The page's parts and its pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    readme = README.read_text(encoding="utf-8")
    found = runs(readme)
    every = {run: ratios(run) for run in found}
    draw_ratios([ratio for part in every.values() for ratio in part], folder / "ratios.svg")
    draw_growth([growth for run in found for growth in growths(run)], folder / "growth.svg")
    draw_sweep(next(_sweep(r.text) for r in found if r.script == "sweep.py"), folder / "sweep.svg")
    (folder / "performance.md").write_text(tables(every), encoding="utf-8")
    (folder / "lost.md").write_text(lost(every), encoding="utf-8")
    results = readme.split("\n## Results\n", 1)[1]
    results = results[results.index("\n### 2") :]
    (folder / "results.md").write_text(results, encoding="utf-8")
    cards = "".join(
        f'<div class="figure-card"><span>{value}</span>{text}</div>'
        for value, text in figures(readme)
    )
    html = f'```{{raw}} html\n<div class="figure-cards">{cards}</div>\n```\n'
    (folder / "figures.md").write_text(html, encoding="utf-8")


def lost(every: dict[Run, list[Ratio]]) -> str:
    """What mercer is slower at, in words."""
    found = [ratio for part in every.values() for ratio in part]
    behind = sorted((r for r in found if r.value < 1), key=lambda r: r.value)
    shown = "; ".join(f"{_cell(r.task)} ({r.peer}, {_times(r.value)})" for r in behind)
    return f"Of {len(found)} comparisons {len(behind)} are lost: {shown}.\n"


def tables(every: dict[Run, list[Ratio]]) -> str:
    """For each run its machine, and how often the speed of each peer."""
    lines = []
    for run, found in every.items():
        if not found:
            continue
        lines += [f"### `{run.script}`\n", f"{run.date}, {run.where}.\n"]
        lines += [*_table(found), ""]
    return "\n".join(lines)


def _table(found: list[Ratio]) -> list[str]:
    """A column for each peer, or where they are many a row for each comparison."""
    peers = list(dict.fromkeys(ratio.peer for ratio in found))
    if len(peers) > 3:
        rows = [f"| {_cell(r.task)} | {r.peer} | {_times(r.value)} |" for r in found]
        return ["| task | peer | times its speed |", "|---|---|---|", *rows]
    tasks: dict[str, dict[str, float]] = {}
    for ratio in found:
        tasks.setdefault(ratio.task, {})[ratio.peer] = ratio.value
    rows = [
        f"| {_cell(task)} | "
        + " | ".join(_times(values[peer]) if peer in values else "" for peer in peers)
        + " |"
        for task, values in tasks.items()
    ]
    head = f"| times the speed of | {' | '.join(peers)} |"
    return [head, "|---|" + "---|" * len(peers), *rows]


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


def _times(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def draw_ratios(found: list[Ratio], path: Path) -> None:
    """A dot for every comparison, a row for every peer."""
    peers: dict[str, list[float]] = {}
    for ratio in found:
        group = ratio.peer if ratio.peer in OTHERS else "scikit-learn"
        peers.setdefault(group, []).append(ratio.value)
    order = sorted(peers, key=lambda peer: median(peers[peer]))
    figure, axes = plt.subplots(figsize=(7.5, 0.6 + 0.28 * len(order)), layout="constrained")
    for row, peer in enumerate(order):
        values = peers[peer]
        colours = [BLUE if value >= 1 else ORANGE for value in values]
        axes.scatter(values, [row] * len(values), s=22, c=colours, alpha=0.6, linewidths=0)
    axes.axvline(1.0, color=GREY, lw=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
    axes.set_yticks(range(len(order)), order, fontsize=8)
    axes.set_xlabel("speed of mercer over that of the peer, same task, same machine")
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def draw_sweep(rows: list[tuple[str, int, float, float]], path: Path) -> None:
    """A row for every use, a dot for every number of points."""
    names = list(dict.fromkeys(name for name, *_ in rows))[::-1]
    sizes = sorted({n for _, n, *_ in rows})
    colours = plt.get_cmap("viridis")(
        [0.1 + 0.75 * k / (len(sizes) - 1) for k in range(len(sizes))]
    )
    height = 1.2 + 0.22 * len(names)
    figure, axes = plt.subplots(1, 2, figsize=(9, height), sharey=True, layout="constrained")
    for side, (axis, title) in enumerate(zip(axes, ("fit", "predict"), strict=True)):
        for n, colour in zip(sizes, colours, strict=True):
            here = [(row[2 + side], names.index(row[0])) for row in rows if row[1] == n]
            axis.scatter(*zip(*here, strict=True), color=colour, s=18, label=f"n = {n:,}")
        axis.axvline(1.0, color=GREY, lw=1)
        axis.set(xscale="log", title=title, xlabel="speed of mercer over scikit-learn's")
        axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
        axis.grid(axis="y", alpha=0.2)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), names, fontsize=7)
    axes[1].legend(fontsize=8, frameon=False)
    save(figure, path)


def draw_growth(found: list[Growth], path: Path) -> None:
    """Seconds against points, both logarithmic."""
    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for growth in found:
        axes.plot(growth.points, growth.seconds, "o-", ms=4, label=growth.name)
    axes.set(xscale="log", yscale="log", xlabel="points", ylabel="seconds")
    for value, style in ((1, ":"), (2, "--")):
        low, high = 2e3, 1e5
        ends = [4e-3, 4e-3 * (high / low) ** value]
        axes.plot([low, high], ends, style, color=GREY, lw=1, label=f"slope {value}")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
