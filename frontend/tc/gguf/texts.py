"""A list of texts in a file. A vocabulary has 50,000 of them and more, which as objects of Python
take several times as much memory as in the file."""

from array import array
from collections.abc import Sequence


class Texts(Sequence):
    """The texts of a list, each decoded when it is read."""

    def __init__(self, data):
        self._data, self._begins, self._ends = data, array("Q"), array("Q")

    def add(self, begin, end):
        """Adds the text that these bytes of the file are."""
        self._begins.append(begin)
        self._ends.append(end)

    def __len__(self):
        return len(self._begins)

    def __getitem__(self, index):
        return self._text(self._begins[index], self._ends[index])

    def __iter__(self):
        return map(self._text, self._begins, self._ends)

    def __repr__(self):
        return f"<{len(self)} texts>"

    def _text(self, begin, end):
        return str(self._data[begin:end], "utf-8", "replace")
