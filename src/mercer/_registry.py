"""What the package's front door registers for lower layers, so that none imports a higher one."""

from collections.abc import Callable
from typing import Any

LOADERS: dict[str, Callable[[], Any]] = {}
