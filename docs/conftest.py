"""What pytest does not collect here: the site's settings, and what building it leaves behind."""

collect_ignore = ["conf.py"]
collect_ignore_glob = ["gallery/*", "_build/*", "api/*", "generation/*"]
