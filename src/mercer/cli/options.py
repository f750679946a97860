"""Arguments and options that several commands take."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from mercer.tables.formats import READERS


class TaskName(StrEnum):
    classification = "classification"
    regression = "regression"


class MetricName(StrEnum):
    accuracy = "accuracy"
    balanced_accuracy = "balanced_accuracy"
    f1 = "f1"
    auc = "auc"
    log_loss = "log_loss"
    r2 = "r2"
    rmse = "rmse"
    mae = "mae"


DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, a folder of graphs, or - for stdin.")
]


FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(READERS),
        help="Format of DATA; inferred from the file name by default.",
        autocompletion=lambda incomplete: [n for n in READERS if n.startswith(incomplete)],
    ),
]


MaxGibOption = Annotated[
    float,
    typer.Option("--max-gib", min=0.0, help="Largest unpacked size of a compressed file, in GiB."),
]


EncodingOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Encoding of text that is not UTF-8, such as cp1251."),
]


HeaderOption = Annotated[
    bool, typer.Option("--header/--no-header", help="Whether the first line holds column names.")
]


JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


ReportOption = Annotated[
    str | None, typer.Option("--report", metavar="PAGE", help="Write an HTML page with plots.")
]
