"""Configurations of transformers that are small in ways of their own, the models' classes, and
their example inputs."""

import torch

from .network_makers import LENGTH, SMALL, VOCABULARY

TEXT = {
    key: SMALL[key]
    for key in (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
    )
}
SEEN = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 64,
    "patch_size": 16,
}


def _two(name, text=TEXT, seen=SEEN, **more):
    """A configuration of a picture and a text."""
    return lambda library: getattr(library, name + "Config")(
        text_config=dict(text), vision_config=dict(seen), projection_dim=64, **more
    )


def _plain(name, **options):
    return lambda library: getattr(library, name + "Config")(**options)


def _resnet(library):
    return library.ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 64, 64],
        depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )


_DETR = {
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "num_queries": 20,
}


def _detector(name, **options):
    return lambda library: getattr(library, name + "Config")(
        **(_DETR | {"backbone_config": _resnet(library)} | options)
    )


def _real_time(name, **options):
    return lambda library: getattr(library, name + "Config")(
        d_model=64,
        encoder_hidden_dim=64,
        encoder_in_channels=[32, 64, 64],
        decoder_in_channels=[64, 64, 64],
        decoder_layers=2,
        num_queries=20,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        decoder_ffn_dim=128,
        encoder_ffn_dim=128,
        anchor_image_size=None,
        eval_size=None,
        num_denoising=0,
        **options,
    )


SPECIAL = {
    **{
        name: _two(name)
        for name in (
            "CLIP",
            "ChineseCLIP",
            "AltCLIP",
            "XCLIP",
            "Siglip",
            "Flava",
            "Owlv2",
            "OwlViT",
            "CLIPSeg",
            "GroupViT",
            "Blip",
        )
    },
    "Detr": _detector("Detr"),
    "TableTransformer": _detector("TableTransformer"),
    "ConditionalDetr": _detector("ConditionalDetr"),
    "DeformableDetr": _detector("DeformableDetr", num_feature_levels=3),
    "DabDetr": _detector("DabDetr", hidden_size=64),
    "RTDetr": _real_time("RTDetr"),
    "RTDetrV2": _real_time("RTDetrV2"),
    "DFine": _real_time("DFine"),
    "Yolos": _plain("Yolos", **{**SEEN, "image_size": [64, 64], "num_detection_tokens": 10}),
    "Swin2SR": _plain(
        "Swin2SR", image_size=32, embed_dim=32, depths=[1, 1], num_heads=[2, 2], window_size=4
    ),
    "DPT": _plain(
        "DPT",
        **SEEN,
        backbone_out_indices=[0, 0, 1, 1],
        neck_hidden_sizes=[16, 32, 32, 32],
        fusion_hidden_size=32,
        is_hybrid=False,
    ),
}
CLASSES = {
    "UperNet": "UperNetForSemanticSegmentation",
    "DepthAnything": "DepthAnythingForDepthEstimation",
    "ZoeDepth": "ZoeDepthForDepthEstimation",
    "SuperPoint": "SuperPointForKeypointDetection",
    "VitPose": "VitPoseForPoseEstimation",
    "DPT": "DPTForDepthEstimation",
    "GLPN": "GLPNForDepthEstimation",
    "Segformer": "SegformerForSemanticSegmentation",
    "Yolos": "YolosForObjectDetection",
    "Detr": "DetrForObjectDetection",
    "TableTransformer": "TableTransformerForObjectDetection",
    "ConditionalDetr": "ConditionalDetrForObjectDetection",
    "DeformableDetr": "DeformableDetrForObjectDetection",
    "DabDetr": "DabDetrForObjectDetection",
    "RTDetr": "RTDetrForObjectDetection",
    "RTDetrV2": "RTDetrV2ForObjectDetection",
    "DFine": "DFineForObjectDetection",
    "Swin2SR": "Swin2SRForImageSuperResolution",
    "CLIPSeg": "CLIPSegForImageSegmentation",
    "T5Encoder": "T5EncoderModel",
    "FastSpeech2Conformer": "FastSpeech2ConformerModel",
    "UnivNet": "UnivNetModel",
    "Owlv2": "Owlv2ForObjectDetection",
    "OwlViT": "OwlViTForObjectDetection",
}


def _tokens(batch=2, length=LENGTH):
    return torch.randint(3, VOCABULARY, (batch, length))


def inputs_of(network, configuration):
    """Example inputs by name."""
    return _INPUTS[network.kind](network, configuration)


def _masked(network, configuration):
    mask = torch.ones(2, LENGTH, dtype=torch.int64)
    mask[1, LENGTH // 2 :] = 0
    return {"input_ids": _tokens(), "attention_mask": mask}


def _picture(network, configuration):
    size = (
        getattr(configuration, "image_size", None)
        if network.name in ("Swin", "Swinv2") or "size" in network.options
        else 64
    )
    size = network.options.get("picture", size)
    return {"pixel_values": torch.randn(1, 3, size, size)}


def _both(network, configuration):
    if network.name == "Align":
        return {"input_ids": _tokens(1), "pixel_values": torch.randn(1, 3, 64, 64)}
    if network.name == "XCLIP":
        return {"input_ids": _tokens(1), "pixel_values": torch.randn(1, 8, 3, 64, 64)}
    return {"input_ids": _tokens(1), "pixel_values": torch.randn(1, 3, 64, 64)}


def _spectrogram(network, configuration):
    if network.name == "Moonshine":
        return {"input_values": torch.randn(1, 4000), "decoder_input_ids": _tokens(1, 4)}
    if network.name == "AST":
        return {
            "input_values": torch.randn(1, configuration.max_length, configuration.num_mel_bins)
        }
    if network.name == "Clap":
        return {"input_ids": _tokens(1), "input_features": torch.randn(1, 1, 64, 64)}
    shape = (1, 80, 100) if network.name == "Whisper" else (1, 100, 80)
    inputs = {"input_features": torch.randn(shape)}
    return (
        inputs if network.name == "Wav2Vec2Bert" else inputs | {"decoder_input_ids": _tokens(1, 4)}
    )


def _series(network, configuration):
    if network.name.startswith("Patch"):
        return {
            "past_values": torch.randn(
                2, configuration.context_length, configuration.num_input_channels
            )
        }
    length = configuration.context_length + max(configuration.lags_sequence)
    features = configuration.num_time_features
    return {
        "past_values": torch.rand(2, length),
        "past_time_features": torch.rand(2, length, features),
        "past_observed_mask": torch.ones(2, length),
        "future_values": torch.rand(2, configuration.prediction_length),
        "future_time_features": torch.rand(2, configuration.prediction_length, features),
    }


_INPUTS = {
    "text": lambda network, configuration: {"input_ids": _tokens()},
    "masked text": _masked,
    "two texts": lambda network, configuration: {
        "input_ids": _tokens(),
        "decoder_input_ids": _tokens(2, 8),
    },
    "picture": _picture,
    "video": lambda network, configuration: {"pixel_values": torch.randn(1, 4, 3, 32, 32)},
    "picture and text": _both,
    "sound": lambda network, configuration: {
        "input_values": torch.randn(
            (1, 1, 4000) if network.name in ("Encodec", "Dac", "Mimi") else (1, 4000)
        )
    },
    "spectrogram": _spectrogram,
    "series": _series,
    "speech from text": lambda network, configuration: {"input_ids": _tokens(1)},
}
