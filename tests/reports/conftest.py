"""A folder for each test, and tables in it."""

from command_fixtures import *  # noqa: F403
