"""Models in files that hold numbers and words, and no code.

A file is in the safetensors format: arrays as they are, a header in JSON with the version of the
format, and a checksum of everything. What is loaded is data for classes that are listed in
`registry`; a file cannot name another.
"""

from mercer.persistence.files import load, read_notes, save

__all__ = ["load", "read_notes", "save"]
