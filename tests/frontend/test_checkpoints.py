"""Language models in folders of transformers, beside transformers."""

import json
import shutil
import struct

import numpy as np
import pytest

import tc

pytest.importorskip(
    "gguf", reason="language models are read by the package gguf, which is not installed"
)
pytest.importorskip("transformers", reason="the reference is transformers, which is not installed")
import torch  # noqa: E402
from tc.language import generating  # noqa: E402

from . import gguf_models  # noqa: E402
from .gguf_files import TOKENS  # noqa: E402

IDS = [[3, 14, 15, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2]]


def written(folder, name, dtype=torch.float32, **options):
    """(folder with a small model, the model in float64 of what was written)"""
    model, _ = gguf_models.made(name)
    model = model.to(dtype)
    model.save_pretrained(folder, **options)
    reference, _ = gguf_models.made(name)  # whose frequencies are not rounded
    reference.load_state_dict({key: each.double() for key, each in model.state_dict().items()})
    return folder, reference


def add_tokenizer(folder):
    """A tokenizer with a token for each text of TOKENS."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate(TOKENS)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def logits_of(module, ids):
    """The logits of all tokens, read with empty caches."""
    count = len(ids[0])
    caches = {
        port.name: np.zeros(
            [{"batch": 1, "capacity": 32}.get(size, size) for size in port.shape], np.float32
        )
        for port in module.inputs[2:]
    }
    return module(input_ids=np.array(ids), length=np.zeros(1, np.int64), **caches)[0][:, :count]


# Models with each scaling of positions, norms behind, fused products and shared embeddings.
PLAIN = (
    "llama with biases, tied",
    "mixtral",
    "qwen2moe",
    "llama 3.1",
    "qwen2, yarn",
    "gemma3",
    "phi3, long",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in PLAIN else pytest.mark.full)
        for name in gguf_models.MODELS
    ],
)
def test_logits_are_those_of_transformers(tmp_path, name):
    folder, model = written(tmp_path / "model", name)
    module = tc.compile(folder, shapes={"batch": 1}, log=False)
    wanted = gguf_models.logits_of(model, IDS)
    error = abs(logits_of(module, IDS) - wanted).max() / abs(wanted).max()
    print(f"{name}: {error:.1e} of the largest logit")
    assert error < 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_16_bits_are_kept_as_they_are(tmp_path, dtype):
    folder, model = written(tmp_path / "model", "gemma3", dtype)
    module = tc.compile(folder, shapes={"batch": 1}, log=False)
    wanted = gguf_models.logits_of(model, IDS)
    assert abs(logits_of(module, IDS) - wanted).max() < 1e-5 * abs(wanted).max()
    assert module.memory.constants < 0.75 * sum(4 * each.numel() for each in model.parameters())


def test_weights_in_several_files(tmp_path):
    folder, model = written(tmp_path / "model", "qwen3", max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    module = tc.compile(folder, shapes={"batch": 1}, log=False)
    wanted = gguf_models.logits_of(model, IDS)
    assert abs(logits_of(module, IDS) - wanted).max() < 1e-5 * abs(wanted).max()


def test_texts(tmp_path, capsys):
    folder, model = written(tmp_path / "model", "qwen3")
    add_tokenizer(folder)
    language = generating.language_for(folder, 1)
    ids = language.tokenizer.encode("hello")
    assert language.tokenizer.decode(ids) == "hello"
    for _ in range(8):
        ids.append(int(gguf_models.logits_of(model, [ids])[0, -1].argmax()))
    text = tc.generate(folder, "hello", 8, threads=1)
    assert text == language.tokenizer.decode(ids[-8:]) and text
    module = tc.compile(folder, log=False)
    assert tc.generate(module, "hello", 8) == text
    from tc.cli import main

    assert main(["generate", str(folder), "--prompt", "hello", "--max-tokens", "8"]) == 0
    assert text in capsys.readouterr().out
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    chat = tc.compile(folder, log=False)
    assert tc.generate(chat, [{"role": "user", "content": "hello"}], 8) == text


# --- what is refused ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder, _ = written(tmp_path_factory.mktemp("whole") / "model", "qwen3")
    return folder


def changed(**values):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


def with_header(change):
    """Changes the header of the weights, JSON."""

    def apply(folder):
        path = folder / "model.safetensors"
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        change(header)
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])

    return apply


def cut(count):
    def apply(folder):
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:count])

    return apply


REFUSED = {
    "another kind of model": (
        changed(model_type="poem"),
        "model: the model_type 'poem' is not known; known are gemma, gemma2, gemma3, ",
    ),
    "another activation": (
        changed(hidden_act="relu"),
        "model: 'hidden_act' is 'relu' in config.json, and models of qwen3 have silu",
    ),
    "a window": (
        changed(sliding_window=4, use_sliding_window=True),
        "model: 'sliding_window' is 4 in config.json, and windows are not known of such models",
    ),
    "layers without experts": (
        changed(mlp_only_layers=[1]),
        "model: 'mlp_only_layers' is [1] in config.json, and layers that are no experts are not "
        "known of such models",
    ),
    "an unknown scaling": (
        changed(rope_parameters={"rope_type": "poem", "rope_theta": 10000.0}),
        "model: rotary positions are scaled by 'poem' in config.json; known are linear, yarn, ",
    ),
    "a size that is none": (
        changed(head_dim=-1),
        "'config.json' of model: 'head_dim' is -1, and a whole number above 0 is needed; fetch ",
    ),
    "more layers": (
        changed(num_hidden_layers=3),
        "'model' is a damaged folder of a model: it has no tensor 'blk.2.attn_norm.weight'; ",
    ),
    "a configuration that is no JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        "'config.json' is no configuration of a model: it is damaged; fetch the folder again",
    ),
    "a configuration that is a list": (
        lambda folder: (folder / "config.json").write_text("[]"),
        "'config.json' is no configuration of a model: it is list and no object of JSON",
    ),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        "'model' has no model.safetensors and no model.safetensors.index.json: weights in other files are not read; save the model with safe_serialization=True",
    ),
    "an index of other folders": (
        lambda folder: (
            (folder / "model.safetensors").unlink(),
            (folder / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": {"a": "../../secret"}})
            ),
        ),
        "'model.safetensors.index.json' names more than 4096 files, or some of other folders",
    ),
    "an index of numbers": (
        lambda folder: (
            (folder / "model.safetensors").unlink(),
            (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": 3}}'),
        ),
        "'model.safetensors.index.json' names no files; fetch the folder again",
    ),
    "an empty file": (cut(0), "'model.safetensors' is a damaged safetensors file: it has 0 bytes"),
    "a cut header": (
        cut(100),
        "'model.safetensors' is a damaged safetensors file: its header has ",
    ),
    "cut weights": (
        cut(-100),
        "'model.safetensors' is a damaged safetensors file: the place of tensor 'model.",
    ),
    "a type of four bits": (
        with_header(lambda header: header["model.norm.weight"].update(dtype="F4")),
        "tensor 'model.norm.weight' of 'model.safetensors' has the type F4; known are F64, F32, ",
    ),
    "a place before the file": (
        with_header(lambda header: header["model.norm.weight"].update(data_offsets=[-4, 0])),
        "'model.safetensors' is a damaged safetensors file: the entry of tensor 'model.norm.weight'",
    ),
    "a huge shape": (
        with_header(lambda header: header["model.norm.weight"].update(shape=[1 << 40, 1 << 40])),
        "'model.safetensors' is a damaged safetensors file: the place of tensor 'model.norm.weight'",
    ),
    "another shape": (
        with_header(lambda header: header["model.norm.weight"].update(shape=[2, 16])),
        "'model' is a damaged folder of a model: the tensor 'output_norm.weight' has the shape ",
    ),
    "a tensor of another network": (
        with_header(
            lambda header: header.update(
                {"model.layers.0.poem.weight": header["model.norm.weight"]}
            )
        ),
        "model has 1 tensors of which the architecture 'qwen3' knows nothing: 'model.layers.0.poem",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_folders_that_are_refused(tmp_path, whole, what):
    change, said = REFUSED[what]
    folder = tmp_path / "model"
    shutil.copytree(whole, folder)
    change(folder)
    with pytest.raises(tc.Error) as error:
        tc.compile(folder, log=False)
    assert str(error.value).startswith(said)


def test_tokenizers_that_are_refused(tmp_path, whole):
    folder = tmp_path / "model"
    shutil.copytree(whole, folder)
    with pytest.raises(tc.ModelError, match="^'model' has no tokenizer.json; save the model's "):
        tc.generate(folder, "hello")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(tc.ModelError, match="^'tokenizer.json' of model cannot be read "):
        tc.generate(folder, "hello")


def test_experts_that_are_missing_or_differ(tmp_path):
    from safetensors.torch import load_file, save_file

    folder, _ = written(tmp_path / "model", "qwen3moe")
    path, name = folder / "model.safetensors", "model.layers.1.mlp.experts.2.up_proj.weight"
    whole = load_file(path)
    for damaged in (
        {key: each for key, each in whole.items() if key != name},
        {**whole, name: whole[name].half()},
    ):
        save_file(damaged, path)
        with pytest.raises(tc.ModelError) as raised:
            tc.check(folder)
        assert str(raised.value) == (
            "'model' is damaged: experts of 'blk.1.ffn_up_exps.weight' are missing, there twice, "
            "or of several shapes; fetch the folder again"
        )
