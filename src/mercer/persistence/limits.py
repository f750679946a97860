"""Limits on what a file may hold. They are stated in `docs/files.md`, where a test compares them.

`save` keeps them too, so that whatever it writes can be loaded. Each bounds what a file that was
made to harm could cost beyond its own size.
"""

from __future__ import annotations

# Bytes of the header: names, types and shapes of arrays, names of functions, notes.
LARGEST_HEADER = 100_000_000
# Arrays in a file.
MOST_ARRAYS = 1_000_000
# Records in a file, a record being an object, a container or an array.
MOST_RECORDS = 10_000_000
# Characters of one text, which may be a sequence; the first human chromosome has 249 million.
LONGEST_TEXT = 300_000_000
# Characters of a name: of a class, an attribute, an array, a function, a version.
LONGEST_NAME = 1_000
# Digits of a whole number in the records; Python itself refuses to print more than 4,300.
MOST_DIGITS = 1_000
# Values within values: lists, dicts, tuples and objects, and the levels of notes.
DEEPEST = 100_000
DEEPEST_NOTES = 100
# Functions, losses and kernels of the user's.
MOST_FUNCTIONS = 1_000
# A key of a dict or set is hashed through all of its parts, and one part may be there any number of
# times.
LARGEST_KEY = 10_000
# Keys of one hash: a set of many takes time in proportion to their square.
MOST_ALIKE = 16
# A value may be part of several others. Written out, all of them have at most so many parts for
# each in the file, and so many more.
MOST_COPIES, COPIES_OF_FEW = 100, 1_000_000
# What stands for many numbers without holding any: the length of a range, the axes of an array
# without entries (their product, zeros left out), the rows and columns of a sparse matrix.
LONGEST_RANGE = 10_000_000
LARGEST_EMPTY = 2**31 - 1
# Characters of an error message about a file.
LONGEST_MESSAGE = 400
