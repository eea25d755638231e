"""Small seeded models of transformers, one for each architecture that GGUF files have, and what
they make of tokens."""

import importlib

import numpy as np

VOCABULARY = 41  # as gguf_files.TOKENS has
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
FACTORS = {"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [1.5, 2.5, 3.5, 4.5]}


def scaled(kind, factor=None, original=None, attention=None):
    """What adds the fields of a scaling of positions to a writer."""

    def add(writer):
        import gguf

        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        if factor:
            writer.add_rope_scaling_factor(factor)
        if original:
            writer.add_rope_scaling_orig_ctx_len(original)
        if attention:
            writer.add_rope_scaling_attn_factors(attention)

    return add


def window(size, *others):
    def add(writer):
        writer.add_sliding_window(size)
        for other in others:
            other(writer)

    return add


def caps(writer):
    writer.add_attn_logit_softcapping(50.0)
    writer.add_final_logit_softcapping(30.0)


def base(value):
    return lambda writer: writer.add_rope_freq_base(value)


def experts(hidden=None, shared=None, normed=None):
    def add(writer):
        writer.add_expert_count(EXPERTS["num_experts"])
        writer.add_expert_used_count(EXPERTS["num_experts_per_tok"])
        if hidden:
            writer.add_expert_feed_forward_length(hidden)
        if shared:
            writer.add_expert_shared_feed_forward_length(shared)
        if normed is not None:
            writer.add_expert_weights_norm(normed)

    return add


EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 48}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, **FACTORS}
LONG_ATTENTION = float(np.sqrt(1 + np.log(4) / np.log(16)))
GEMMA = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 4}

# name: (architecture, module of transformers, class of it, its configuration, further fields)
MODELS = {
    "llama": ("llama", "llama", "Llama", {"head_dim": 8}, None),
    "llama with biases, tied": (
        "llama",
        "llama",
        "Llama",
        {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
        None,
    ),
    "llama, stretched": (
        "llama",
        "llama",
        "Llama",
        {"rope_parameters": LINEAR},
        scaled("linear", 2.0),
    ),
    "llama 3.1": ("llama", "llama", "Llama", {"rope_parameters": LLAMA3}, base(500000.0)),
    "smollm3": ("smollm3", "smollm3", "SmolLM3", {"num_hidden_layers": 5}, base(2000000.0)),
    "qwen2": ("qwen2", "qwen2", "Qwen2", {}, None),
    "qwen2, yarn": ("qwen2", "qwen2", "Qwen2", {"rope_parameters": YARN}, scaled("yarn", 4.0, 16)),
    "qwen3": ("qwen3", "qwen3", "Qwen3", {"head_dim": 16}, None),
    "mixtral": (
        "llama",
        "mixtral",
        "Mixtral",
        {"num_local_experts": 6, "num_experts_per_tok": 3, "rope_parameters": PLAIN},
        experts(),
    ),
    "qwen2moe": (
        "qwen2moe",
        "qwen2_moe",
        "Qwen2Moe",
        {**EXPERTS, "shared_expert_intermediate_size": 56},
        experts(48, 56),
    ),
    "qwen3moe": (
        "qwen3moe",
        "qwen3_moe",
        "Qwen3Moe",
        {**EXPERTS, "head_dim": 16, "norm_topk_prob": True},
        experts(48),
    ),
    "qwen3moe, shares of all": (
        "qwen3moe",
        "qwen3_moe",
        "Qwen3Moe",
        {**EXPERTS, "head_dim": 16, "norm_topk_prob": False},
        experts(48, normed=False),
    ),
    "gemma": ("gemma", "gemma", "Gemma", {"head_dim": 8}, None),
    "gemma2": ("gemma2", "gemma2", "Gemma2", GEMMA, window(4, caps)),
    "gemma3": (
        "gemma3",
        "gemma3",
        "Gemma3",
        {**GEMMA, "num_hidden_layers": 7},
        window(4, base(1000000.0)),
    ),
    "phi3": ("phi3", "phi3", "Phi3", {"sliding_window": 5}, window(5)),
    "phi3, long": (
        "phi3",
        "phi3",
        "Phi3",
        {"original_max_position_embeddings": 16, "rope_parameters": LONG},
        scaled("longrope", None, 16, LONG_ATTENTION),
    ),
}


def made(name, seed=0, **sizes):
    """(model of transformers in float64, its configuration); `sizes` take the place of small
    ones."""
    import torch

    _, package, kind, more, _ = MODELS[name]
    module = importlib.import_module(f"transformers.models.{package}")
    make = getattr(module, kind + ("TextConfig" if kind == "Gemma3" else "Config"))
    configuration = make(**{**COMMON, **more, **sizes})
    configuration._attn_implementation = "eager"  # which has windows and caps
    configuration._experts_implementation = "eager"  # which has float64
    torch.manual_seed(seed)
    model = getattr(module, kind + "ForCausalLM")(configuration).eval()
    with torch.no_grad():
        for tensor in model.parameters():  # norms and biases are ones and zeros otherwise
            spread, middle = (0.3, 0.0) if tensor.ndim > 1 else (0.2, 0.5)
            tensor.copy_(torch.randn(tensor.shape) * spread + middle)
    return model.double(), configuration


def factor_tensors(name):
    """The tensors with factors of rotary frequencies that a file of the model has."""
    parameters = MODELS[name][3].get("rope_parameters", {})
    if parameters.get("rope_type") == "longrope":
        return [
            (f"rope_factors_{kind}.weight", np.array(parameters[f"{kind}_factor"], np.float32))
            for kind in ("long", "short")
        ]
    if parameters.get("rope_type") != "llama3":
        return []
    turns = parameters["rope_theta"] ** -(np.arange(0, 8, 2) / 8)
    length, original = 2 * np.pi / turns, parameters["original_max_position_embeddings"]
    low, high = original / parameters["low_freq_factor"], original / parameters["high_freq_factor"]
    least, most = parameters["low_freq_factor"], parameters["high_freq_factor"]
    smooth = (original / length - least) / (most - least)
    # As llama.cpp's conversion has it.
    between = 1 / ((1 - smooth) / parameters["factor"] + smooth)
    factors = np.where(length > low, parameters["factor"], between)
    return [("rope_freqs.weight", np.where(length < high, 1, factors).astype(np.float32))]


def logits_of(model, ids):
    import torch

    with torch.no_grad():
        return model(torch.tensor(ids)).logits.numpy()
