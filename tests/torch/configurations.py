"""Constructors of models of PyTorch's families, small where their size can be chosen."""

import importlib.util

import torch

from tests.torchvision_package import import_torchvision

# The side of the input of each constructor, small where its architecture allows it. Those of more
# than 150 million parameters and those of PyTorch's quantised tensors are left out.
TORCHVISION = {
    **{
        name: 64
        for name in (
            "alexnet",
            "squeezenet1_0",
            "squeezenet1_1",
            "mobilenet_v2",
            "mobilenet_v3_large",
            "mobilenet_v3_small",
            "mnasnet0_5",
            "mnasnet0_75",
            "mnasnet1_0",
            "mnasnet1_3",
            "shufflenet_v2_x0_5",
            "shufflenet_v2_x1_0",
            "shufflenet_v2_x1_5",
            "shufflenet_v2_x2_0",
            "resnet18",
            "resnet34",
            "resnet50",
            "resnext50_32x4d",
            "wide_resnet50_2",
            "vgg11",
            "vgg13",
            "vgg16",
            "vgg11_bn",
            "vgg13_bn",
            "regnet_x_400mf",
            "regnet_x_800mf",
            "regnet_x_1_6gf",
            "regnet_x_3_2gf",
            "regnet_y_400mf",
            "regnet_y_800mf",
            "regnet_y_1_6gf",
            "regnet_y_3_2gf",
            "efficientnet_b0",
            "efficientnet_b1",
            "efficientnet_b2",
            "efficientnet_v2_s",
            "convnext_tiny",
            "convnext_small",
            "convnext_base",
            "vit_b_16",
            "vit_b_32",
            "swin_t",
            "swin_s",
            "swin_v2_t",
            "swin_v2_s",
            "densenet121",
            "lraspp_mobilenet_v3_large",
            "deeplabv3_mobilenet_v3_large",
            "fcn_resnet50",
            "deeplabv3_resnet50",
        )
    },
    "googlenet": 96,
    "r3d_18": 32,
    "mc3_18": 32,
    "r2plus1d_18": 32,
    "swin3d_t": 64,
    "raft_small": 128,
    **{
        name: 96
        for name in (
            "fasterrcnn_mobilenet_v3_large_320_fpn",
            "fasterrcnn_mobilenet_v3_large_fpn",
            "fasterrcnn_resnet50_fpn",
            "fasterrcnn_resnet50_fpn_v2",
            "fcos_resnet50_fpn",
            "keypointrcnn_resnet50_fpn",
            "maskrcnn_resnet50_fpn",
            "maskrcnn_resnet50_fpn_v2",
            "retinanet_resnet50_fpn",
            "retinanet_resnet50_fpn_v2",
        )
    },
    "ssd300_vgg16": 300,
    "ssdlite320_mobilenet_v3_large": 320,
    "inception_v3": 96,
    "maxvit_t": 224,
    "s3d": 224,
    "mvit_v2_s": 224,
    "swin3d_s": 64,
    "raft_large": 128,
    **{
        name: 64
        for name in (
            "vgg16_bn",
            "vgg19",
            "vgg19_bn",
            "regnet_x_8gf",
            "regnet_y_8gf",
            "resnet101",
            "efficientnet_b3",
            "efficientnet_b4",
            "efficientnet_v2_m",
            "densenet161",
            "densenet169",
            "densenet201",
        )
    },
}
_FRAMES = {
    "r3d_18": 4,
    "mc3_18": 4,
    "r2plus1d_18": 4,
    "s3d": 16,
    "mvit_v1_b": 16,
    "mvit_v2_s": 16,
    "swin3d_t": 4,
    "swin3d_s": 4,
}
_WITH_BACKBONE = (
    "fcn",
    "deeplabv3",
    "lraspp",
    "ssd",
    "fasterrcnn",
    "fcos",
    "keypointrcnn",
    "maskrcnn",
    "retinanet",
)
# Detectors whose boxes PyTorch itself does not find again in float64 with plain seeded weights
# (tests/torch/families.py, `spread`), and the parts and layers that are normalised instead, with
# the least number of places.
SPREAD = {
    **dict.fromkeys(
        ("ssd300_vgg16", "ssdlite320_mobilenet_v3_large"),
        (("",), (torch.nn.Conv2d, torch.nn.BatchNorm2d), 4),
    ),
    **dict.fromkeys(
        ("maskrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn_v2"),
        (("rpn", "roi_heads"), (torch.nn.Conv2d, torch.nn.Linear), 16),
    ),
}
_DETECTORS = ("ssd", "fasterrcnn", "fcos", "keypointrcnn", "maskrcnn", "retinanet")


def torchvision_model(name):
    options, size = {"weights": None}, TORCHVISION[name]
    if name.startswith(_WITH_BACKBONE):
        options["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        options.update(init_weights=True, aux_logits=True)
    if name.startswith("vit_"):
        options["image_size"] = size
    if name.startswith(_DETECTORS):
        # Few classes, so that scores of seeded weights pass the thresholds, and few candidates.
        options.update({"num_classes": 2} if name.startswith("keypoint") else {"num_classes": 5})
        options.update(
            {"rpn_pre_nms_top_n_test": 200, "rpn_post_nms_top_n_test": 100}
            if "rcnn" in name
            else {"topk_candidates": 100}
        )
        # A mask moves by a whole place where a corner of its box lies at a boundary: of few boxes
        # none does.
        options.update({"box_detections_per_img": 10} if name.startswith("maskrcnn") else {})
        options.update({} if name.startswith("ssd") else {"min_size": size, "max_size": size})
    module = import_torchvision().models.get_model(name, **options)
    if name in _FRAMES:
        return module, (torch.randn(1, 3, _FRAMES[name], size, size),), {}
    if name.startswith("raft"):
        return (
            module,
            (torch.randn(1, 3, size, size), torch.randn(1, 3, size, size)),
            {"num_flow_updates": 2},
        )
    if name.startswith(_DETECTORS):
        return module, ([torch.rand(3, size, size)],), {}
    return module, (torch.randn(1, 3, size, size),), {}


# A small network of each family; those of more than about 23 million parameters, and those that
# torchvision has, are left out.
TIMM = (
    "cait_xxs24_224",
    "coat_lite_tiny",
    "convit_tiny",
    "convnext_atto",
    "convnextv2_atto",
    "crossvit_tiny_240",
    "deit_tiny_patch16_224",
    "dla34",
    "edgenext_xx_small",
    "efficientformer_l1",
    "efficientnet_lite0",
    "efficientvit_b0",
    "efficientvit_m0",
    "eva02_tiny_patch14_224",
    "fasternet_t0",
    "fastvit_t8",
    "fbnetc_100",
    "gcresnet33ts",
    "gernet_s",
    "ghostnet_100",
    "gmlp_s16_224",
    "hardcorenas_a",
    "haloregnetz_b",
    "hgnet_tiny",
    "hrnet_w18_small",
    "lcnet_050",
    "legacy_seresnet18",
    "levit_128s",
    "maxvit_pico_rw_256",
    "mixer_s32_224",
    "mixnet_s",
    "mnasnet_small",
    "mobilenetv2_050",
    "mobilenetv3_small_050",
    "mobilenetv4_conv_small",
    "mobileone_s0",
    "mobilevit_xxs",
    "mobilevitv2_050",
    "nest_tiny",
    "pit_ti_224",
    "poolformer_s12",
    "pvt_v2_b0",
    "regnetx_002",
    "regnety_002",
    "regnetz_005",
    "repghostnet_050",
    "repvgg_a0",
    "resmlp_12_224",
    "resnest14d",
    "resnet10t",
    "rexnet_100",
    "sebotnet33ts_256",
    "semnasnet_050",
    "seresnext26d_32x4d",
    "shvit_s1",
    "skresnet18",
    "spnasnet_100",
    "tinynet_e",
    "tiny_vit_5m_224",
    "visformer_tiny",
    "vit_tiny_patch16_224",
    "vovnet39a",
    "xcit_nano_12_p16_224",
)


def timm_model(name):
    import_torchvision()
    import timm

    module = timm.create_model(name, pretrained=False)
    size = module.default_cfg["input_size"]
    # Blocks of attention with halos divide the side of their own size alone.
    fixed = (
        module.default_cfg.get("fixed_input_size")
        or min(size[1:]) <= 128
        or name.startswith("halo")
    )
    return module, (torch.randn(1, *size) if fixed else torch.randn(1, size[0], 128, 128),), {}


_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}
_VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
# Class of the model, its configuration, and the kind of its inputs.
TRANSFORMERS = {
    "BertModel": (_SMALL, "tokens"),
    "RobertaModel": ({**_SMALL, "pad_token_id": 1}, "tokens"),
    "ElectraModel": ({**_SMALL, "embedding_size": 32}, "tokens"),
    "DistilBertModel": (
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 100},
        "tokens",
    ),
    "AlbertModel": ({**_SMALL, "embedding_size": 16}, "tokens"),
    "MPNetModel": (_SMALL, "tokens"),
    "CamembertModel": (_SMALL, "tokens"),
    "XLMRobertaModel": (_SMALL, "tokens"),
    "DebertaV2Model": (_SMALL, "tokens"),
    "FNetModel": (_SMALL, "ids"),
    "SqueezeBertModel": ({**_SMALL, "embedding_size": 32}, "tokens"),
    "RoFormerModel": (_SMALL, "tokens"),
    "ConvBertModel": ({**_SMALL, "embedding_size": 32}, "tokens"),
    "FunnelModel": (
        {
            "vocab_size": 100,
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 64,
            "block_sizes": [1, 1],
            "num_decoder_layers": 1,
        },
        "tokens",
    ),
    "ModernBertModel": ({**_SMALL, "pad_token_id": 0, "reference_compile": False}, "tokens"),
    "GPT2LMHeadModel": ({"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100}, "causal"),
    "GPTNeoForCausalLM": (
        {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "vocab_size": 100,
        },
        "causal",
    ),
    "LlamaForCausalLM": ({**_SMALL, "num_key_value_heads": 2}, "causal"),
    "MistralForCausalLM": ({**_SMALL, "num_key_value_heads": 2}, "causal"),
    "Qwen2ForCausalLM": ({**_SMALL, "num_key_value_heads": 2}, "causal"),
    "Qwen3ForCausalLM": ({**_SMALL, "num_key_value_heads": 2, "head_dim": 8}, "causal"),
    "GemmaForCausalLM": ({**_SMALL, "num_key_value_heads": 2, "head_dim": 8}, "causal"),
    "Gemma2ForCausalLM": ({**_SMALL, "num_key_value_heads": 2, "head_dim": 8}, "causal"),
    "PhiForCausalLM": (_SMALL, "causal"),
    "Phi3ForCausalLM": ({**_SMALL, "pad_token_id": 0}, "causal"),
    "OPTForCausalLM": (
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 64,
            "vocab_size": 100,
            "word_embed_proj_dim": 32,
        },
        "causal",
    ),
    "GPTNeoXForCausalLM": (_SMALL, "causal"),
    "FalconForCausalLM": (
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100},
        "causal",
    ),
    "BloomForCausalLM": (
        {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100},
        "causal",
    ),
    "StableLmForCausalLM": ({**_SMALL, "num_key_value_heads": 4}, "causal"),
    "Starcoder2ForCausalLM": (_SMALL, "causal"),
    "OlmoForCausalLM": ({**_SMALL, "pad_token_id": 1}, "causal"),
    "T5ForConditionalGeneration": (
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100},
        "seq2seq",
    ),
    "BartForConditionalGeneration": (
        {
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "vocab_size": 100,
        },
        "seq2seq",
    ),
    "MarianMTModel": (
        {
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "vocab_size": 100,
            "pad_token_id": 1,
        },
        "seq2seq",
    ),
    "ViTModel": (_VISION, "image"),
    "DeiTModel": (_VISION, "image"),
    "BeitModel": (_VISION, "image"),
    "Dinov2Model": ({**_VISION, "mlp_ratio": 2}, "image"),
    "SwinModel": (
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
        "image",
    ),
    "SegformerModel": (
        {
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 4],
        },
        "image64",
    ),
    "ConvNextModel": ({"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}, "image64"),
    "ResNetModel": ({"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}, "image64"),
    "WhisperModel": (
        {
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "vocab_size": 100,
            "max_source_positions": 50,
            "num_mel_bins": 16,
            "pad_token_id": 1,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        "mel",
    ),
    "Wav2Vec2Model": (
        {
            **_SMALL,
            "conv_dim": [16, 16],
            "conv_stride": [5, 2],
            "conv_kernel": [10, 3],
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
        "wave",
    ),
    "HubertModel": (
        {
            **_SMALL,
            "conv_dim": [16, 16],
            "conv_stride": [5, 2],
            "conv_kernel": [10, 3],
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
        "wave",
    ),
}


def transformers_model(name):
    if importlib.util.find_spec("torchvision"):
        import_torchvision()
    import transformers

    settings, kind = TRANSFORMERS[name]
    owner = getattr(transformers, name)
    module = owner(owner.config_class(**settings))
    tokens = torch.randint(3, 100, (1, 12))
    inputs = {
        "ids": {"input_ids": tokens},
        "tokens": {"input_ids": tokens, "attention_mask": torch.ones(1, 12, dtype=torch.int64)},
        "causal": {"input_ids": tokens},
        "seq2seq": {"input_ids": tokens, "decoder_input_ids": tokens[:, :5]},
        "image": {"pixel_values": torch.randn(1, 3, 32, 32)},
        "image64": {"pixel_values": torch.randn(1, 3, 64, 64)},
        "mel": {"input_features": torch.randn(1, 16, 100), "decoder_input_ids": tokens[:, :5]},
        "wave": {"input_values": torch.randn(1, 400)},
    }
    return module, (), inputs[kind]
