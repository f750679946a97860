"""Models in files that hold numbers and words, and no code.

A file is in the safetensors format: arrays as they are, a header in JSON with the version of the
format, and a checksum of everything. What is loaded is data for classes that are listed in
`registry`; a file cannot name another. Support vector machines are also read and written as LIBSVM
does.
"""

from mercer.persistence.files import load, read_notes, save
from mercer.persistence.libsvm import read_libsvm, write_libsvm

__all__ = ["load", "read_libsvm", "read_notes", "save", "write_libsvm"]
