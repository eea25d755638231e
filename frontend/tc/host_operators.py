"""Operators on strings, maps and encoded images, which run on the host on NumPy arrays.

Each function takes a node and its arrays (None for inputs that are left out) and returns a tuple of
arrays."""

import functools
import io
import math

import numpy as np

from .errors import ModelError, ShapeError, UnsupportedError, error_of
from .host_room import MAX_ELEMENTS

# The most characters of a regular expression.
LONGEST_PATTERN = 1 << 16
# Pillow's names of the formats that ImageDecoder takes.
IMAGE_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")


def run(node, values, room=None):
    """Runs a node on the values of its inputs, a dictionary by name, and adds its outputs to it.
    Where a `room` is given, the outputs have to fit in it."""
    arrays = [values[name] if name else None for name in node.inputs]
    if room is not None:
        room.take(node, arrays)
    try:
        results = OPERATORS[node.op_type](node, *arrays)
    except MemoryError as error:
        raise error_of(error) from None
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        shapes = ", ".join(
            "-" if array is None else f"{array.dtype} {list(array.shape)}" for array in arrays
        )
        raise ShapeError(f"{node.who} cannot take inputs of {shapes}: {error}") from None
    values.update({name: result for name, result in zip(node.outputs, results) if name})


def objects(value):
    """An array of Python strings; also from a single string, which NumPy returns for arrays without
    dimensions."""
    return np.asarray(value, object)


def _check_together(node, *arrays):
    """Refuses arrays whose broadcast result would be too large."""
    count = math.prod(np.broadcast_shapes(*(array.shape for array in arrays)))
    if count > MAX_ELEMENTS:
        raise ShapeError(
            f"{node.who} would make {count} elements; at most {MAX_ELEMENTS} are supported on the host"
        )


def from_list(texts, shape):
    """An array of this shape with these strings in row-major order."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)


def _choice(node, name, default, known):
    value = node.attributes.get(name, default)
    if value not in known:
        raise UnsupportedError(
            f"{node.who}: attribute '{name}' is '{value}'; known are {', '.join(known)}"
        )
    return value


def _concat_strings(node, x, y):
    _check_together(node, x, y)
    return (objects(x + y),)


def _split(node, x):
    delimiter, most = node.attributes.get("delimiter") or None, node.attributes.get("maxsplit", -1)
    parts = [text.split(delimiter, most) for text in x.flat]
    counts = np.array([len(each) for each in parts], np.int64).reshape(x.shape)
    widest = int(counts.max(initial=0))
    if widest * x.size > MAX_ELEMENTS:
        raise ShapeError(
            f"{node.who} splits {x.size} strings into up to {widest} parts each; at most {MAX_ELEMENTS} parts in all are supported"
        )
    padded = [text for each in parts for text in each + [""] * (widest - len(each))]
    return from_list(padded, (*x.shape, widest)), counts


def _normalize(node, x):
    if x.ndim == 0 or x.ndim > 2 or (x.ndim == 2 and x.shape[0] != 1):
        raise ShapeError(f"{node.who} takes strings of shape [C] or [1, C], not {list(x.shape)}")
    change = _choice(node, "case_change_action", "NONE", ("NONE", "LOWER", "UPPER"))
    exact = node.attributes.get("is_case_sensitive", 0) != 0
    stopwords = {word if exact else word.lower() for word in node.attributes.get("stopwords", ())}
    kept = [text for text in x.flat if (text if exact else text.lower()) not in stopwords] or [""]
    if change != "NONE":
        kept = [text.lower() if change == "LOWER" else text.upper() for text in kept]
    return (from_list(kept, (1,) * (x.ndim - 1) + (len(kept),)),)


@functools.lru_cache(64)
def _pattern(pattern, who):
    try:
        import re2
    except ImportError:
        raise UnsupportedError(
            f"{who} needs the regular expressions of the package google-re2, which take linear time for any "
            "pattern: pip install 'tc-compiler[strings]'"
        ) from None
    if len(pattern) > LONGEST_PATTERN:
        raise UnsupportedError(
            f"{who} has a pattern of {len(pattern)} characters; at most {LONGEST_PATTERN} are supported"
        )
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        why = why.decode(errors="replace") if isinstance(why, bytes) else why
        raise ModelError(
            f"{who}: attribute 'pattern' is no regular expression of RE2: {why}"
        ) from None


def _match(node, x):
    if "pattern" not in node.attributes:
        raise ModelError(f"{node.who} lacks attribute 'pattern'")
    compiled = _pattern(node.attributes["pattern"], node.who)
    return (
        np.array([compiled.fullmatch(text) is not None for text in x.flat], bool).reshape(x.shape),
    )


def _equal(node, x, y):
    _check_together(node, x, y)
    return (np.asarray(np.equal(x, y), bool),)


def _where(node, condition, x, y):
    _check_together(node, condition, x, y)
    return (objects(np.where(condition, x, y)),)


def _attribute(node, *names):
    for name in names:
        if name in node.attributes:
            return np.ravel(node.attributes[name]).tolist()
    raise ModelError(f"{node.who} lacks attribute '{names[0]}'")


def _label_encoder(node, x):
    keys = _attribute(node, "keys_strings", "keys_int64s", "keys_floats", "keys_tensor")
    values = _attribute(node, "values_strings", "values_int64s", "values_floats", "values_tensor")
    if len(keys) != len(values):
        raise ModelError(
            f"{node.who} has {len(keys)} keys and {len(values)} values; each key needs one value"
        )
    if keys and isinstance(keys[0], str) != (x.dtype == object):
        raise ModelError(
            f"{node.who} has {'strings' if x.dtype != object else 'numbers'} as keys and takes {'numbers' if x.dtype != object else 'strings'}"
        )
    given = node.attributes
    if "values_tensor" in given and not any(
        f"values_{kind}" in given for kind in ("strings", "int64s", "floats")
    ):
        dtype = given["values_tensor"].dtype
        default = "_Unused" if dtype == object else -0.0 if dtype.kind == "f" else -1
        default = _attribute(node, "default_tensor")[0] if "default_tensor" in given else default
    else:
        dtype, default = next(
            (np.dtype(dtype), given.get(name, default))
            for values_name, dtype, name, default in (
                ("values_strings", object, "default_string", "_Unused"),
                ("values_int64s", np.int64, "default_int64", -1),
                ("values_floats", np.float32, "default_float", -0.0),
            )
            if values_name in given
        )
    # Where keys are equal, the last one counts.
    known = {_label(key): value for key, value in zip(keys, values)}
    found = [known.get(_label(each), default) for each in x.ravel().tolist()]
    return (
        from_list(found, x.shape) if dtype == object else np.array(found, dtype).reshape(x.shape),
    )


def _label(value):
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _one_hot(node, x):
    categories = _attribute(node, "cats_strings")
    places = {category: index for index, category in enumerate(categories)}
    found = [places.get(text) for text in x.flat]
    if None in found and not node.attributes.get("zeros", 1):
        raise ShapeError(f"{node.who} has no category '{list(x.flat)[found.index(None)]}'")
    result = np.zeros((len(found), len(categories)), np.float32)
    for row, place in enumerate(found):
        if place is not None:
            result[row, place] = 1
    return (result.reshape(*x.shape, len(categories)),)


def _zip_map(node, x):
    labels = _attribute(node, "classlabels_strings", "classlabels_int64s")
    if x.ndim not in (1, 2) or x.shape[-1] != len(labels):
        raise ShapeError(
            f"{node.who} has {len(labels)} labels, and its input has shape {list(x.shape)}; [rows, {len(labels)}] is needed"
        )
    return ([dict(zip(labels, row)) for row in x.reshape(-1, len(labels)).tolist()],)


def _extract_features(node, x, places):
    return (objects(np.atleast_2d(x).take(np.ravel(places), -1)),)


def _number(node, text, dtype):
    try:
        if "_" in text:
            raise ValueError
        if dtype.kind in "iu":
            try:
                return int(text)
            except ValueError:
                return int(float(text))
        return float(text)
    except (ValueError, OverflowError):
        raise ShapeError(
            f"{node.who} takes '{text[:64]}', which is no number of type {dtype}"
        ) from None


def _cast(node, x):
    dtype = node.result_type
    if dtype is None:
        return (
            x if x.dtype == object else from_list([_text(each) for each in x.ravel()], x.shape),
        )
    try:
        numbers = [_number(node, text, dtype) for text in x.flat]
        return (np.array(numbers, dtype).reshape(x.shape),)
    except OverflowError as error:
        raise ShapeError(f"{node.who} takes a number that {dtype} has not: {error}") from None


def _text(number):
    """The shortest text that reads back as the number."""
    if isinstance(number, np.floating):
        if np.isnan(number):
            return "NaN"
        if np.isinf(number):
            return "INF" if number > 0 else "-INF"
        text = str(number)
        return text[:-2] if text.endswith(".0") else text
    return str(int(number)) if isinstance(number, (np.integer, np.bool_)) else str(number)


def _decode_image(node, stream):
    """An array [height, width, channels] of bytes; an empty one for what is not an image, as the
    operator's definition says."""
    try:
        import PIL.Image
    except ImportError:
        raise UnsupportedError(
            f"{node.who} decodes images, which the package Pillow does: pip install pillow"
        ) from None
    if stream.dtype != np.uint8 or stream.ndim != 1:
        raise ShapeError(
            f"{node.who} takes the bytes of a file as uint8 of shape [length], not {stream.dtype} of shape {list(stream.shape)}"
        )
    form = _choice(node, "pixel_format", "RGB", ("RGB", "BGR", "Grayscale"))
    try:
        with PIL.Image.open(io.BytesIO(stream.tobytes()), formats=IMAGE_FORMATS) as image:
            if image.width * image.height * 3 > MAX_ELEMENTS:
                raise ShapeError(
                    f"{node.who} is given an image of {image.width} x {image.height} pixels; at most {MAX_ELEMENTS // 3} are supported"
                )
            pixels = np.asarray(image.convert("L" if form == "Grayscale" else "RGB"))
    except (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError):
        return (np.zeros((0, 0, 1 if form == "Grayscale" else 3), np.uint8),)
    if form == "Grayscale":
        return (pixels[:, :, np.newaxis],)
    return (np.ascontiguousarray(pixels[:, :, ::-1] if form == "BGR" else pixels),)


def _axes(node, axes):
    return tuple(
        int(axis) for axis in (node.attributes.get("axes", ()) if axes is None else np.ravel(axes))
    )


def _reshape(node, x, shape):
    keep = node.attributes.get("allowzero", 0) == 0
    sizes = [
        x.shape[i] if size == 0 and keep else int(size) for i, size in enumerate(np.ravel(shape))
    ]
    return (x.reshape(sizes),)


def _flatten(node, x):
    axis = node.attributes.get("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return (x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])),)


def _squeeze(node, x, axes=None):
    given = _axes(node, axes)
    return (x.squeeze(given or None),)


def _transpose(node, x):
    return (x.transpose(node.attributes.get("perm")),)


OPERATORS = {
    "StringConcat": _concat_strings,
    "StringSplit": _split,
    "StringNormalizer": _normalize,
    "RegexFullMatch": _match,
    "Equal": _equal,
    "LabelEncoder": _label_encoder,
    "OneHotEncoder": _one_hot,
    "Cast": _cast,
    "ZipMap": _zip_map,
    "ImageDecoder": _decode_image,
    "ArrayFeatureExtractor": _extract_features,
    "Concat": lambda node, *arrays: (np.concatenate(arrays, _attribute(node, "axis")[0]),),
    "Flatten": _flatten,
    "Gather": lambda node, x, indices: (objects(x.take(indices, node.attributes.get("axis", 0))),),
    "Identity": lambda node, x: (x,),
    "Reshape": _reshape,
    "Shape": lambda node, x: (
        np.array(x.shape[node.attributes.get("start", 0) : node.attributes.get("end")], np.int64),
    ),
    "Size": lambda node, x: (np.array(x.size, np.int64),),
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": lambda node, x, axes=None: (np.expand_dims(x, _axes(node, axes)),),
    "Where": _where,
}
