"""Modules with seeded weights and example inputs for the entries of tests/frontend/network_list.py,
and their export."""

import io

import torch

from tests.torchvision_package import import_torchvision

SEED = 0
VOCABULARY = 128
LENGTH = 16  # of a text
PAST = 8  # places in a cache
MAX_OUTPUTS = 6  # that a network is compared by, caches aside

# What of a configuration of transformers is small; a configuration takes what it does not know as
# it is.
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
# By kind.
KIND_SMALL = {
    "sound": {
        "conv_dim": (32,) * 7,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
    },
    "spectrogram": {
        "feature_projection_input_dim": 80,
        "num_mel_bins": 80,
        "max_source_positions": 50,
        "max_target_positions": 32,
    },
    "video": {"image_size": 32, "patch_size": 8, "num_frames": 4, "tubelet_size": [2, 8, 8]},
    "two texts": {
        "d_ff": 128,
        "d_kv": 16,
        "num_heads": 4,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "attention_window": 16,
    },
}
_GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": 128}
# By name of the configuration.
OWN = {
    # What is drawn at random in a run can't be compared.
    "Vits": {"noise_scale": 0.0, "noise_scale_duration": 0.0},
    **dict.fromkeys(("GPT2", "GPTJ", "CodeGen", "GPTBigCode", "OpenAIGPT", "CTRL"), _GPT),
    "Bert": {},
    "Roberta": {},
    "DistilBert": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
    "GPTJ": _GPT | {"rotary_dim": 8},
    "CodeGen": _GPT | {"rotary_dim": 8},
    "CTRL": _GPT | {"dff": 128},
    "Albert": {"embedding_size": 32},
    "ConvBert": {"embedding_size": 64},
    "Canine": {"num_hash_buckets": 64},
    "Funnel": {"block_sizes": [1, 1], "n_head": 4, "d_head": 16, "d_inner": 128},
    "MobileBert": {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "Nystromformer": {"segment_means_seq_len": 16, "num_landmarks": 4},
    "XLM": {"emb_dim": 64, "n_layers": 2, "n_heads": 4},
    "XLNet": {"n_layer": 2, "n_head": 4, "d_inner": 128},
    "GPTNeo": {
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 8,
    },
    "GPTNeoX": {},
    "OPT": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "Bloom": {"n_head": 4, "n_layer": 2},
    **dict.fromkeys(("Gemma", "Gemma2"), {"head_dim": 16, "num_key_value_heads": 1}),
    **dict.fromkeys(
        (
            "Llama",
            "Mistral",
            "Qwen2",
            "Qwen3",
            "Cohere",
            "Olmo",
            "Olmo2",
            "Granite",
            "Phi3",
            "SmolLM3",
            "Starcoder2",
            "StableLm",
            "Glm",
            "Nemotron",
            "Mixtral",
            "Qwen2Moe",
            "GraniteMoe",
            "Olmoe",
            "Helium",
        ),
        {"num_key_value_heads": 2, "head_dim": 16},
    ),
    "Mpt": {"n_heads": 4, "n_layers": 2, "max_seq_len": 64},
    "XGLM": {"num_layers": 2, "attention_heads": 4, "ffn_dim": 128},
    "Mamba": {"state_size": 8},
    "Mamba2": {"state_size": 16, "num_heads": 8, "head_dim": 16, "n_groups": 1, "chunk_size": 8},
    "Rwkv": {"attention_hidden_size": 64, "context_length": 64},
    "ModernBert": {"local_attention": 8, "global_attn_every_n_layers": 2},
    "BigBird": {"attention_type": "original_full"},
    "BigBirdPegasus": {"attention_type": "original_full"},
    "Longformer": {"attention_window": [8, 8]},
    "Mra": {"max_position_embeddings": 64, "block_per_row": 1},
    "T5Encoder": {"d_ff": 128, "d_kv": 16, "num_heads": 4, "num_layers": 2},
    "LongT5": {"local_radius": 7},
    "Swin": {
        "embed_dim": 32,
        "depths": [1, 1],
        "num_heads": [2, 4],
        "window_size": 4,
        "image_size": 32,
    },
    "Swinv2": {
        "embed_dim": 32,
        "depths": [1, 1],
        "num_heads": [2, 4],
        "window_size": 4,
        "image_size": 32,
    },
    "Qwen2Moe": {
        "num_key_value_heads": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 64,
        "num_experts": 4,
        "num_experts_per_tok": 2,
    },
    "Mixtral": {"num_key_value_heads": 2, "num_local_experts": 4},
    "GraniteMoe": {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
    "Olmoe": {"num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2},
}


def network_of(network):
    """(module, example inputs by name), seeded."""
    torch.manual_seed(SEED)
    make = (
        {
            "picture": _picture,
            "segmentation": _segmentation,
            "detection": _detection,
            "flow": _flow,
            "deformable": _deformable,
            "video": _video,
        }[network.kind]
        if network.package != "transformers"
        else transformers_network
    )
    module, inputs = make(network)
    return module.eval(), inputs


def _classifier(network):
    if network.package == "timm":
        import_torchvision()
        import timm

        try:
            return timm.create_model(
                network.name, pretrained=False, img_size=network.options["size"]
            )
        except TypeError:
            return timm.create_model(network.name, pretrained=False)
    return import_torchvision().models.get_model(
        network.name,
        weights=None,
        **(
            {"weights_backbone": None}
            if network.kind != "picture" and network.kind not in ("video", "flow")
            else {}
        ),
    )


def _picture(network):
    size = network.options["size"]
    module = _classifier(network)
    fixed = getattr(getattr(module, "patch_embed", None), "img_size", None)
    return module, {"x": torch.randn(1, 3, *(fixed or (size, size)))}


class Results(torch.nn.Module):
    """The tensors of what a module returns, in their order."""

    def __init__(self, module, names=None, **fixed):
        super().__init__()
        self.module, self.names, self.fixed = module, names, fixed

    def forward(self, *tensors):
        given = (tensors, {}) if self.names is None else ((), dict(zip(self.names, tensors)))
        return tuple(tensors_of(self.module(*given[0], **given[1], **self.fixed)))[:MAX_OUTPUTS]


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict) or hasattr(value, "to_tuple"):
        for each in list(value.values()) if isinstance(value, dict) else value.to_tuple():
            yield from tensors_of(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_of(each)


def _segmentation(network):
    size = network.options["size"]
    return Results(_classifier(network)), {"x": torch.randn(1, 3, size, size)}


class Detected(torch.nn.Module):
    """What a detector finds in one picture."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        found = self.module([x])
        return tuple(tensors_of(found[1] if isinstance(found, tuple) else found))


def _detection(network):
    size, name = network.options["size"], network.name
    small = {"detections_per_img": 10}
    if "rcnn" in name:
        small = {
            "box_detections_per_img": 10,
            "rpn_pre_nms_top_n_test": 100,
            "rpn_post_nms_top_n_test": 30,
            "box_score_thresh": 0.02,
        }
    elif not name.startswith("ssd"):
        small |= {"topk_candidates": 50, "score_thresh": 0.2}
    if not name.startswith("ssd"):
        small |= {"min_size": size, "max_size": size}
    module = import_torchvision().models.get_model(
        name, weights=None, weights_backbone=None, **small
    )
    for label, parameter in module.named_parameters():
        # Scores that do not all lie within a rounding error, as the first weights' do.
        if any(part in label for part in ("head", "predictor", "rpn")) and parameter.dim() > 1:
            torch.nn.init.kaiming_normal_(parameter)
    return Detected(module), {"x": torch.rand(3, size, size)}


def _flow(network):
    size = network.options["size"]
    module = import_torchvision().models.get_model(network.name, weights=None)

    class Last(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, first, second):
            return self.module(first, second, num_flow_updates=3)[-1]

    return Last(), {
        "first": torch.rand(1, 3, size, size) * 2 - 1,
        "second": torch.rand(1, 3, size, size) * 2 - 1,
    }


def _deformable(network):
    size = network.options["size"]
    convolution = import_torchvision().ops.DeformConv2d(8, 16, 3, padding=1)
    return convolution, {
        "x": torch.randn(1, 8, size, size),
        "offset": torch.randn(1, 18, size, size),
        "mask": torch.rand(1, 9, size, size),
    }


def _video(network):
    size = network.options["size"]
    return _classifier(network), {"x": torch.randn(1, 3, network.options["frames"], size, size)}


def _configuration(network, exporter_attention="eager"):
    import transformers

    from .network_configurations import SPECIAL

    name = network.name
    if name in SPECIAL:
        return SPECIAL[name](transformers)
    made = getattr(transformers, {"T5Encoder": "T5"}.get(name, name) + "Config")
    usual = made()
    # Names that a configuration maps to lists of its own are left.
    small = {
        key: value
        for key, value in SMALL.items()
        if not hasattr(usual, key) or type(getattr(usual, key)) in (int, type(None))
    }
    if name == "XLNet":
        del small["max_position_embeddings"]
    if "size" in network.options:
        small |= {"image_size": network.options["size"], "patch_size": 16}
    return made(**(small | KIND_SMALL.get(network.kind, {}) | OWN.get(name, {})))


def transformers_network(network):
    import transformers

    configuration = _configuration(network)
    if network.options.get("export", ("",))[0] != "dynamo":
        configuration._attn_implementation = network.options.get("attention", "eager")
    from .network_configurations import CLASSES, inputs_of

    model = getattr(transformers, CLASSES.get(network.name, network.name + "Model"))(
        configuration
    ).eval()
    if network.kind == "cache":
        return _with_cache(model)
    inputs = inputs_of(network, configuration)
    fixed = (
        {"use_cache": False}
        if hasattr(configuration, "use_cache") and network.kind not in ("picture",)
        else {}
    )
    return Results(model, tuple(inputs), return_dict=True, **fixed), inputs


def _with_cache(model):
    """A step of a decoder: one token after PAST ones, the cache given and returned."""
    from transformers import DynamicCache

    with torch.no_grad():
        before = model(
            input_ids=torch.randint(3, VOCABULARY, (1, PAST)), use_cache=True
        ).past_key_values
    layers = [(layer.keys, layer.values) for layer in before.layers]

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, *past):
            cache = DynamicCache()
            for number in range(len(past) // 2):
                cache.update(past[2 * number], past[2 * number + 1], number)
            found = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
            return (
                found[0],
                *(
                    each
                    for layer in found.past_key_values.layers
                    for each in (layer.keys, layer.values)
                ),
            )

    inputs = {"input_ids": torch.randint(3, VOCABULARY, (1, 1))}
    for number, (keys, values) in enumerate(layers):
        inputs |= {f"past_keys_{number}": keys.clone(), f"past_values_{number}": values.clone()}
    return Step(), inputs


def exported(module, inputs, exporter, opset=17):
    """The bytes of the ONNX model."""
    names = list(inputs)
    arguments = tuple(inputs.values())
    if exporter == "dynamo":
        program = torch.onnx.export(
            module, arguments, dynamo=True, input_names=names, opset_version=opset, verbose=False
        )
        return program.model_proto.SerializeToString()
    file = io.BytesIO()
    torch.onnx.export(module, arguments, file, dynamo=False, input_names=names, opset_version=opset)
    return file.getvalue()
