"""Fits over Dask collections, and predictions that map over their blocks.

Nothing here solves anything: the sums that the solvers take over blocks of points are taken where
the points are, and merged in a fixed order.
"""

try:
    from mercer.distributed.checkpoints import checkpoint
    from mercer.distributed.densities import log_density
    from mercer.distributed.fits import fitter
    from mercer.distributed.mapping import map_blocks
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}; mercer.distributed needs Dask: pip install 'mercer[dask]'", name=error.name
    ) from error

__all__ = ["checkpoint", "fitter", "log_density", "map_blocks"]
