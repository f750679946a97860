"""What pytest does not collect here: the site's settings, and what building it leaves behind."""

import pathlib
import sys

# What pages are made from is a package next to them.
sys.path.insert(0, str(pathlib.Path(__file__).parent))

collect_ignore = ["conf.py"]
collect_ignore_glob = ["gallery/*", "_build/*", "api/*", "generation/*"]
