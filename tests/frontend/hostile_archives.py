"""Archives of PyTorch that are after something: what each is, made here, and what says that it got
nothing."""

import contextlib
import importlib.util
import io
import json
import os
import pickle
import re
import socket
import stat
import struct
import zipfile

import torch
from torch import nn


class Canaries:
    """A file, a socket and the environment, which nobody touches."""

    def __init__(self, folder):
        self.file, self.secret = str(folder / "canary"), str(folder / "secret")
        with open(self.secret, "w", encoding="ascii") as file:
            file.write("secret" * 20)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)

    @property
    def payload(self):
        """Statements of Python that touch all three."""
        address = self.server.getsockname()
        return (
            f"import os, socket\nopen({self.file!r}, 'w').write('touched')\nos.environ['TC_CANARY'] = 'touched'\n"
            f"os.system('touch {self.file}')\nsocket.create_connection({address!r}, 1)\n"
        )

    def are_untouched(self):
        with contextlib.suppress(BlockingIOError):
            self.server.accept()
            return False
        return not os.path.exists(self.file) and "TC_CANARY" not in os.environ


class Running:
    """A pickle that runs Python where it is read."""

    def __init__(self, statements):
        self.statements = statements

    def __reduce__(self):
        return exec, (self.statements,)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * x.shape[0]


# --- archives of torch.export ---------------------------------------------------------------------


def exported(folder):
    """{path in the archive: bytes} of an honest one, whose size is open."""
    program = torch.export.export(
        Scaled(), (torch.ones(3, 4),), dynamic_shapes=({0: torch.export.Dim("batch", max=64)},)
    )
    path = folder / "honest.pt2"
    torch.export.save(program, str(path))
    with zipfile.ZipFile(path) as file:
        return {entry.filename.partition("/")[2]: file.read(entry) for entry in file.infolist()}


def zipped(files, root="m", **options):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", **options) as file:
        for name, content in files.items():
            file.writestr(f"{root}/{name}" if root else name, content)
    return data.getvalue()


def with_payload(files, folder, change):
    """The archive with the first row of a list of tensors changed."""
    name = f"data/{folder}/model_{folder}_config.json"
    table = json.loads(files[name])
    if not table["config"]:
        table["config"]["added"] = dict(
            json.loads(files["data/weights/model_weights_config.json"])["config"]["linear.weight"]
        )
    change(next(iter(table["config"].values())))
    return {**files, name: json.dumps(table).encode()}


def pickled_tensor(files, folder, payload, path):
    def change(row):
        row.update(use_pickle=True, path_name=path)
        if not path.startswith(("weight", "tensor")):
            row["tensor_meta"] = None

    return {
        **with_payload(files, folder, change),
        f"data/{folder}/{path}": pickle.dumps(Running(payload)),
    }


def with_size(files, expression):
    """The archive with an expression in the place of the size of a symbol."""
    text = files["models/model.json"].decode()
    assert '"expr_str"' in text
    return {
        **files,
        "models/model.json": re.sub(
            r'("expr_str": )"[^"]*"', lambda found: found[1] + json.dumps(expression), text
        ).encode(),
    }


def tower(height):
    text = "Integer(9)"
    for _ in range(height):
        text = f"Pow({text}, Integer(8))"
    return text


SIZES = {
    "a call": lambda payload: f"exec({payload!r})",
    "an import": lambda payload: "__import__('os').system('true')",
    "powers of powers": lambda payload: "9**9**9**9",
    "a tower": lambda payload: tower(40),
    "a large power": lambda payload: "Pow(Integer(9), Integer(999999999))",
    "products that grow": lambda payload: (
        f"Mul({', '.join(['Integer(9999999999999999999)'] * 200)})"
    ),
    "an attribute": lambda payload: "Symbol('s0').__class__.__base__",
    "a lambda": lambda payload: "(lambda: 1)()",
    "a factorial": lambda payload: "factorial(Integer(99999999))",
    "a long number": lambda payload: f"Integer({'9' * 5000})",
    "a precise number": lambda payload: "Float('1.5', precision=999999999)",
    "depth": lambda payload: "Add(" * 500 + "Integer(1)" + ")" * 500,
    "a string": lambda payload: "Symbol('s0', name=__import__('os'))",
    "a name": lambda payload: "__builtins__",
}


def of_export(files, payload):
    """{kind: (bytes, what the refusal says)}."""
    evil = pickle.dumps(Running(payload))
    native = b"\x7fELF" + b"\0" * 100
    hidden = files["models/model.json"].replace(b'"expr_str"', b'"\\u0065xpr_str"')
    rows = {
        f"a size that is {name}": (with_size(files, size(payload)), "which is not read")
        for name, size in SIZES.items()
    }
    rows |= {
        "a pickled weight": (
            pickled_tensor(files, "weights", payload, "weight_0"),
            "' as a pickle, which runs where it is read: export the model anew, with plain tensors",
        ),
        "a pickled constant": (
            pickled_tensor(files, "constants", payload, "tensor_0"),
            "' as a pickle, which runs where it is read: export the model anew, with plain tensors",
        ),
        "an opaque constant": (
            pickled_tensor(files, "constants", payload, "opaque_obj_0"),
            "'opaque_obj_0' as a pickle, which runs where it is read",
        ),
        "a custom constant": (
            pickled_tensor(files, "constants", payload, "custom_obj_0"),
            "'custom_obj_0' as a pickle, which runs where it is read",
        ),
        "an opaque constant's file alone": (
            {**files, "data/constants/opaque_obj_7": evil},
            "holds the pickle",
        ),
        "legacy weights": (
            {**files, "data/weights/model.pt": evil},
            "'data/weights/model.pt', which runs where it is read: export the model anew, without objects other than tensors",
        ),
        "legacy constants": (
            {**files, "data/constants/model.pt": evil},
            "holds the pickle 'data/constants/model.pt'",
        ),
        "native code": (
            {**files, "data/aotinductor/model/model.so": native},
            "native code that AOTInductor compiled, which no model needs that tc compiles: write it with torch.export.save",
        ),
        "native code of another name": (
            {**files, "data/aotinductor/x/wrapper.json": b"{}"},
            "native code that AOTInductor compiled",
        ),
        "another runtime's program": (
            {**files, "executorch/model.pte": native},
            "which no model needs",
        ),
        "a further file": ({**files, "setup.py": payload.encode()}, "which no model needs"),
        "a tensor elsewhere": (
            with_payload(
                files, "weights", lambda row: row.update(path_name="../sample_inputs/model.pt")
            ),
            "names the file",
        ),
        "a tensor with a number for a name": (
            with_payload(files, "weights", lambda row: row.update(path_name=1)),
            "names the file",
        ),
        "use_pickle that is a number": (
            with_payload(files, "weights", lambda row: row.update(use_pickle=1)),
            "as a pickle",
        ),
        "no list of tensors": (
            {**files, "data/weights/model_weights_config.json": b"[" * 100000},
            "' is damaged: 'data/weights/model_weights_config.json' is no list of tensors",
        ),
        "escaped names": (
            {**files, "models/model.json": hidden},
            "' writes plain letters as escapes, which torch.export does not: its program is not read",
        ),
        "a second program": (
            {
                **with_size(files, "exec('1')"),
                "models/model.json": files["models/model.json"],
                "models/other.json": with_size(files, "exec('1')")["models/model.json"],
            },
            "which is not read",
        ),
        "a program that is no text": (
            {**files, "models/model.json": b"\xff{}"},
            "is damaged: 'm/models/model.json' is no text",
        ),
        "the older form": (
            {
                "version": b"8.8",
                "serialized_exported_program.json": files["models/model.json"],
                "serialized_state_dict.pt": evil,
                "serialized_constants.pt": evil,
                "serialized_example_inputs.pt": evil,
            },
            "' is of a PyTorch before 2.8, which wrote weights as pickles: export the model anew",
        ),
    }
    return {
        name: (zipped(content, "" if name == "the older form" else "m"), text)
        for name, (content, text) in rows.items()
    }


# --- containers -----------------------------------------------------------------------------------


def _entry(name, mode=0, compression=zipfile.ZIP_STORED):
    entry = zipfile.ZipInfo(name)
    entry.external_attr, entry.compress_type = mode << 16, compression
    return entry


def _with_entry(files, entry, content=b"x"):
    data = io.BytesIO(zipped(files))
    with zipfile.ZipFile(data, "a") as file:
        file.writestr(entry, content)
    return data.getvalue()


def _twice(files, name):
    data = io.BytesIO(zipped(files))
    with zipfile.ZipFile(data, "a") as file:
        entry = _entry(f"m/{name}".replace("models", "modelz"))
        file.writestr(entry, b"{}")
    return data.getvalue().replace(b"modelz", b"models")


def _changed(data, place, form, value):
    data = bytearray(data)
    struct.pack_into(form, data, place, value)
    return bytes(data)


def containers(files):
    """{kind: (bytes, what the refusal says)} of archives whose container is not what it looks
    like."""
    # Sample inputs are an archive in the archive.
    files = {
        name: content
        for name, content in files.items()
        if not name.startswith("data/sample_inputs")
    }
    plain = zipped(files)
    folder = plain.index(b"PK\x01\x02")
    third = [found.start() for found in re.finditer(b"PK\x01\x02", plain)][2]
    offset = struct.unpack_from("<I", plain, third + 42)[0]
    damaged = bytearray(plain)
    damaged[plain.index(b"graph_module")] ^= 1
    link, device = stat.S_IFLNK | 0o777, stat.S_IFCHR | 0o666
    return {
        "two files of one name": (
            _twice(files, "models/model.json"),
            "with two files 'm/models/model.json': which one is read depends on who reads",
        ),
        "two archives in one": (
            _with_entry(files, _entry("n/models/model.json")),
            "holds several archives in one (m, n): which one is read depends on who reads",
        ),
        "a link": (
            _with_entry(files, _entry("m/data/weights/weight_9", link), b"/etc/passwd"),
            "which is a link or a device",
        ),
        "a device": (
            _with_entry(files, _entry("m/data/weights/weight_9", device)),
            "which is a link or a device",
        ),
        "a path upwards": (_with_entry(files, _entry("m/../../up")), "lies outside of it"),
        "an absolute path": (_with_entry(files, _entry("/etc/up")), "lies outside of it"),
        "a path upwards by backslashes": (
            _with_entry(files, _entry("m\\..\\..\\up")),
            "lies outside of it",
        ),
        "a name with an escape code": (
            _with_entry(files, _entry("m/\x1b[2Jx")),
            "lies outside of it",
        ),
        "a file of another compression": (
            _with_entry(files, _entry("m/extra/x", 0, zipfile.ZIP_LZMA)),
            "in a way that PyTorch does not write",
        ),
        "a file that unfolds": (
            _with_entry(files, _entry("m/extra/x", 0, zipfile.ZIP_DEFLATED), b" " * (300 << 20)),
            "unfold to 3",
        ),
        "an encrypted file": (_changed(plain, folder + 8, "<H", 1), "which is encrypted"),
        "a file longer than it is": (
            _changed(plain, third + 24, "<I", 1 << 31),
            "is a damaged archive",
        ),
        "a file of two lengths": (
            _changed(plain, offset + 22, "<I", 5),
            "' is a damaged archive: what its folder tells of '",
        ),
        "a file with another name inside": (
            _changed(plain, offset + 32, "<B", 0x7A),
            "damaged archive",
        ),
        "a file that lies in another": (
            _changed(plain, third + 42, "<I", 0),
            "is a damaged archive",
        ),
        "a file beyond the end": (
            _changed(plain, third + 42, "<I", 1 << 30),
            "is a damaged archive",
        ),
        "a sum that is wrong": (bytes(damaged), "is a damaged archive"),
        "half of an archive": (plain[: len(plain) // 2], "is a damaged archive"),
        "no folder": (plain[:folder], "is a damaged archive"),
        "torch.package": (
            zipped(
                {
                    ".data/extern_modules": b"os\n",
                    ".data/python_version": b"3.11",
                    "model/model.pkl": b"\x80\x02N.",
                    "data.pkl": b"",
                    "evil.py": b"import os",
                }
            ),
            "' is an archive of torch.package: modules of Python and pickles that would run. Build the module in Python and give that to tc.compile with "
            "inputs=, or write it with torch.export.save",
        ),
        "what torch.save writes": (
            zipped({"data.pkl": pickle.dumps(Running("1"), 2), "version": b"3"}),
            "is a pickle that torch.save wrote",
        ),
        "a bare pickle": (pickle.dumps(Running("1"), 2), "is a pickle that torch.save wrote"),
    }


# --- TorchScript ----------------------------------------------------------------------------------

_TEMPLATE = """
import torch
class Made(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(4))
    @torch.jit.export
    def __getstate__(self):
        return self.w, self.training
    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]):
        self.w, self.training = state[0], state[1]
{body}
    def forward(self, x):
        return x + self.w
"""
SCRIPTS = {
    "reads a file": [
        'self.w = torch.from_file("SECRET", False, 40, dtype=torch.uint8).to(torch.float32)'
    ],
    "writes a file": [
        'self.w = torch.from_file("CANARY", True, 40, dtype=torch.uint8).to(torch.float32)'
    ],
    "never ends": ["i = 0", "while i >= 0:", "    i = (i + 1) % 1000"],
    "fills the memory": [
        "a = [torch.ones(1 << 20)]",
        "for i in range(1 << 20):",
        "    a.append(torch.ones(1 << 22))",
        "self.w = a[-1]",
    ],
    "doubles a list": [
        "a = [1]",
        "for i in range(60):",
        "    a = a + a",
        "self.w = state[0] + len(a)",
    ],
    "doubles a string": [
        'a = "abcdefgh"',
        "for i in range(60):",
        "    a = a + a",
        "self.w = state[0] + len(a)",
    ],
    "prints for ever": ["for i in range(1 << 60):", '    print("more and more of this text")'],
    "allocates at once": ["self.w = torch.ones([1 << 15, 1 << 15])"],
    "raises": ['raise RuntimeError("\\x1b[2J and two\\nlines")'],
    "waits for itself": ["t = torch.jit.fork(_waiting, state[0])", "self.w = torch.jit.wait(t)"],
}


def script(name, folder, canaries):
    """An archive that does this where it is opened."""
    lines = [
        line.replace("SECRET", canaries.secret).replace("CANARY", canaries.file)
        for line in SCRIPTS[name]
    ]
    source = folder / f"made_{name.replace(' ', '_')}.py"
    waiting = "\n\ndef _waiting(x: torch.Tensor):\n    i = 0\n    while i >= 0:\n        i = (i + 1) % 1000\n    return x\n"
    source.write_text(
        _TEMPLATE.format(body="\n".join("        " + line for line in lines)).replace(
            "import torch\n", "import torch\n" + waiting, 1
        )
    )
    spec = importlib.util.spec_from_file_location(source.stem, source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = folder / f"{source.stem}.pt"
    torch.jit.script(module.Made()).save(str(path))
    return path
