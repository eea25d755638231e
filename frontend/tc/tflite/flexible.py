"""Options of custom operators: maps of names to numbers, as the library FlexBuffers writes them.

A map's values lie one after the other, each in as many bytes; their types follow. In front of them
are the number of values and an offset to the names. Offsets lead backwards.
"""

_INT, _UINT, _FLOAT, _INDIRECT_INT, _INDIRECT_UINT, _MAP, _BOOL = 1, 2, 3, 6, 7, 9, 26
_MAX_OPTIONS = 64
_LONGEST_NAME = 128


class _Broken(Exception):
    """An offset or a size leads outside of the bytes."""


class _Bytes:
    def __init__(self, data):
        self.data = bytes(data)

    def part(self, begin, size):
        if not 0 <= begin <= begin + size <= len(self.data):
            raise _Broken
        return self.data[begin : begin + size]

    def number(self, begin, size, signed=False):
        return int.from_bytes(self.part(begin, size), "little", signed=signed)

    def behind(self, begin, size):
        """Where the offset at `begin` leads."""
        return begin - self.number(begin, size)

    def name(self, begin):
        part = self.data[max(begin, 0) : max(begin, 0) + _LONGEST_NAME]
        if begin < 0 or b"\0" not in part:
            raise _Broken
        return part.partition(b"\0")[0].decode("ascii", "replace")

    def value(self, begin, size, packed):
        kind, indirect = packed >> 2, 1 << (packed & 3)
        if kind in (_INDIRECT_INT, _INDIRECT_UINT):
            return self.number(self.behind(begin, size), indirect, kind == _INDIRECT_INT)
        return self.number(begin, size, kind == _INT) if kind in (_INT, _UINT, _BOOL) else None


def options_of(data):
    """{name: whole number} of the bytes; empty where they are no such map. Values of other kinds
    are left out."""
    source = _Bytes(data)
    try:
        width, packed = source.number(len(data) - 1, 1), source.number(len(data) - 2, 1)
        if packed >> 2 != _MAP or width not in (1, 2, 4, 8):
            return {}
        size, values = 1 << (packed & 3), source.behind(len(data) - 2 - width, width)
        count = source.number(values - size, size)
        names, name_size = (
            source.behind(values - 3 * size, size),
            source.number(values - 2 * size, size),
        )
        if count > _MAX_OPTIONS or name_size not in (1, 2, 4, 8):
            return {}
        found = {}
        for place in range(count):
            name = source.name(source.behind(names + place * name_size, name_size))
            kind = source.number(values + count * size + place, 1)
            value = source.value(values + place * size, size, kind)
            if value is not None:
                found[name] = value
        return found
    except _Broken:
        return {}
