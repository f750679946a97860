"""mercer check and mercer kernels."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mercer.cli.options import JsonOption, QuietOption
from mercer.cli.output import Output
from mercer.tables.data import suggested


def check(
    expression: Annotated[
        str, typer.Argument(help='A kernel, such as "RBF(0.5) * Polynomial(2) + 1".')
    ],
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Prove that an expression is a valid kernel, or find a counterexample.

    The exit status is 0 for valid, 1 for indefinite, 3 for undecided.
    """
    import mercer.kernels as K

    try:
        kernel = K.parse(expression)
    except K.KernelSyntaxError as error:  # without the caret, which needs a line of its own
        where = f"{expression}: " if expression.strip() else ""
        raise ValueError(where + str(error).splitlines()[0]) from error
    validity = kernel.validity
    found: dict[str, Any] = {
        "kernel": repr(kernel),
        "status": validity.status,
        "domain": str(kernel.domain),
        "proof": validity.proof and str(validity.proof),
        "reason": validity.reason,
        "counterexample": None,
    }
    lines = [str(validity.proof or f"{kernel!r} is {WORDS[validity.status]}")]
    if validity.reason:
        lines.append(str(validity.reason))
    if validity.counterexample is not None:
        shown = validity.counterexample
        found["counterexample"] = {"points": shown.points, "eigenvalue": shown.eigenvalue}
        lines.append(str(shown))
    Output(as_json, quiet).result(found, "\n".join(lines))
    raise typer.Exit(EXIT_STATUS[validity.status])


EXIT_STATUS = {"valid": 0, "indefinite": 1, "unknown": 3}


WORDS = {
    "indefinite": "not a kernel",
    "unknown": "undecided: no proof and no counterexample found",
}


def kernels(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show the documentation of one kernel.",
            autocompletion=lambda incomplete: [n for n in _kernels() if n.startswith(incomplete)],
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the kernels, or show the documentation of one."""
    import inspect

    from rich.table import Table
    from rich.text import Text

    known = _kernels()
    if name is not None:
        if name not in known:
            raise ValueError(f"there is no kernel {name}; {suggested(name, known)}")
        text = inspect.cleandoc(known[name].__doc__ or "")
        Output(as_json).result({"name": name, "text": text}, f"{name}\n\n{text}")
        return
    rows = [
        {
            "name": key,
            "written": f"{key}{str(inspect.signature(cls)).split(' ->')[0]}",
            "is": inspect.cleandoc(cls.__doc__ or "").partition("\n")[0].strip(),
        }
        for key, cls in known.items()
    ]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(_without_types(known[row["name"]]), Text(row["is"]))
    Output(as_json).result({"kernels": rows}, table)


def _kernels() -> dict[str, type]:
    """The kernels that are written by name, in alphabetical order."""
    import mercer.kernels as K

    made = ("Sum", "Product", "Power", "Exp", "Normalized", "Rescaled", "Composed", "OnColumns")
    ours = {key: cls for key, cls in K.REGISTRY.items() if cls.__module__.startswith("mercer.")}
    return {key: ours[key] for key in sorted(ours) if key not in made}


def _without_types(cls: type) -> str:
    import inspect

    parameters = inspect.signature(cls).parameters.values()
    shown = [
        p.name if p.default is inspect.Parameter.empty else f"{p.name}={p.default!r}"
        for p in parameters
    ]
    return f"{cls.__name__}({', '.join(shown)})"
