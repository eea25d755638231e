"""The networks of the table of exports: package, name, kind of input, and what is not the default.
tests/frontend/network_makers.py makes them.

Pictures and configurations are small, so that one costs seconds; weights are seeded. An entry's
exporter and opset go round EXPORTS by its place in the list, unless it names them."""

from dataclasses import dataclass, field

EXPORTS = (
    ("script", 17),
    ("dynamo", 18),
    ("script", 20),
    ("script", 18),
    ("dynamo", 23),
    ("script", 19),
    ("dynamo", 21),
    ("script", 17),
    ("dynamo", 20),
    ("script", 20),
)


@dataclass(frozen=True)
class Network:
    package: str
    name: str
    kind: str
    options: dict = field(default_factory=dict, hash=False)

    @property
    def label(self):
        """Its name in the table and on the command line."""
        return f"{self.package} {self.name}" + (
            "" if self.kind in ("picture", "text") else f" ({self.kind})"
        )


def _pictures(package, size, names, **options):
    return [Network(package, name, "picture", {"size": size, **options}) for name in names.split()]


def _models(kind, names, **options):
    return [Network("transformers", name, kind, options) for name in names.split()]


TORCHVISION = [
    *_pictures(
        "torchvision",
        64,
        """convnext_tiny densenet121 densenet169 efficientnet_b0 efficientnet_b1 efficientnet_v2_s googlenet
        mnasnet0_5 mnasnet1_0 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_400mf regnet_x_1_6gf regnet_y_400mf
        regnet_y_800mf resnet18 resnet34 resnet50 resnet101 resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0 squeezenet1_0
        squeezenet1_1 vgg11 vgg13_bn vgg16 wide_resnet50_2""",
    ),
    *_pictures("torchvision", 96, "inception_v3"),
    *_pictures("torchvision", 224, "alexnet"),
    *_pictures("torchvision", 224, "vit_b_32 swin_t swin_v2_t maxvit_t"),
    *(
        Network("torchvision", name, "segmentation", {"size": 64})
        for name in (
            "fcn_resnet50",
            "deeplabv3_resnet50",
            "deeplabv3_mobilenet_v3_large",
            "lraspp_mobilenet_v3_large",
        )
    ),
    *(
        Network("torchvision", name, "detection", {"size": 128, "export": ("script", opset)})
        for name, opset in (
            ("fasterrcnn_mobilenet_v3_large_320_fpn", 17),
            ("fasterrcnn_mobilenet_v3_large_fpn", 18),
            ("fasterrcnn_resnet50_fpn", 17),
            ("fasterrcnn_resnet50_fpn_v2", 20),
            ("fcos_resnet50_fpn", 17),
            ("maskrcnn_resnet50_fpn", 17),
            ("maskrcnn_resnet50_fpn_v2", 19),
            ("retinanet_resnet50_fpn", 17),
            ("retinanet_resnet50_fpn_v2", 18),
            ("keypointrcnn_resnet50_fpn", 17),
        )
    ),
    *(
        Network("torchvision", name, "detection", {"size": size, "export": ("script", 17)})
        for name, size in (("ssd300_vgg16", 300), ("ssdlite320_mobilenet_v3_large", 320))
    ),
    *(
        Network("torchvision", name, "video", {"size": size, "frames": frames})
        for name, size, frames in (
            ("r3d_18", 32, 8),
            ("mc3_18", 32, 8),
            ("r2plus1d_18", 32, 8),
            ("s3d", 64, 16),
            ("mvit_v2_s", 224, 16),
            ("swin3d_t", 64, 8),
        )
    ),
    Network("torchvision", "raft_small", "flow", {"size": 128}),
    Network("torchvision", "raft_large", "flow", {"size": 128}),
    Network("torchvision", "DeformConv2d", "deformable", {"size": 16, "export": ("script", 19)}),
]

TIMM = [
    *_pictures(
        "timm",
        64,
        """resnet10t resnet26d resnetrs50 resnetv2_50 resnetaa50 seresnet18 skresnet18 ecaresnet26t ese_vovnet19b_dw
        efficientnet_lite0 tf_efficientnetv2_b0 efficientnet_b0_gn ghostnet_050 ghostnetv2_100 hardcorenas_a lcnet_050 mixnet_s mobileone_s0
        repvgg_a0 tinynet_e semnasnet_050 fbnetc_100 spnasnet_100 nf_resnet26 nf_regnet_b0 mobilenetv4_conv_small
        mobilenetv4_hybrid_medium mobilenetv3_rw mobilenet_edgetpu_v2_xs dla34 dla46_c dpn48b cspresnet50 cspdarknet53 cs3darknet_s
        darknet53 densenet121 gernet_s rexnet_100 regnetx_002 regnety_002 regnetz_b16 res2net50_14w_8s res2next50 resnest14d
        resnest26d selecsls42b hrnet_w18_small hgnetv2_b0 hgnet_tiny xception41 legacy_xception repghostnet_050 repvit_m0_9 fasternet_t0
        starnet_s1 inception_next_atto convnext_atto convnextv2_atto edgenext_xx_small efficientvit_b0 tresnet_m vgg11_bn visformer_tiny
        mambaout_femto bat_resnext26ts botnet26t_256 halonet26t lambda_resnet26t sebotnet33ts_256 eca_botnext26ts_256
        lamhalobotnet50ts_256 caformer_s18 convformer_s18 poolformer_s12 poolformerv2_s12 pvt_v2_b0 rdnet_tiny swiftformer_xs shvit_s1
        efficientformerv2_s0 fastvit_t8 nextvit_small lcnet_100 focalnet_tiny_srf""",
    ),
    *_pictures("timm", 96, "inception_v4 inception_resnet_v2 convmixer_1024_20_ks9_p14"),
    *_pictures(
        "timm",
        224,
        """beit_base_patch16_224 cait_xxs24_224 coat_tiny coat_lite_tiny convit_tiny crossvit_tiny_240 davit_tiny
        deit_tiny_patch16_224 deit_tiny_distilled_patch16_224 eva02_tiny_patch14_224 efficientformer_l1 efficientvit_m0 gcvit_xxtiny hiera_tiny_224 levit_128s
        gmixer_12_224 mixer_s32_224 gmlp_ti16_224 resmlp_12_224 mobilevit_xxs mobilevitv2_050 mvitv2_tiny nest_tiny pit_ti_224
        sequencer2d_s swin_tiny_patch4_window7_224 swin_s3_tiny_224 tiny_vit_5m_224 tnt_s_legacy_patch16_224 twins_svt_small
        twins_pcpvt_small vit_tiny_patch16_224 vit_relpos_small_patch16_224 vitamin_small_224 volo_d1_224 xcit_nano_12_p16_224
        flexivit_small samvit_base_patch16_224 maxvit_rmlp_pico_rw_256 coatnet_pico_rw_224 vit_medium_patch16_rope_reg1_gap_256""",
    ),
    *_pictures("timm", 256, "swinv2_tiny_window8_256 swinv2_cr_tiny_ns_224"),
]

TEXTS = [
    *_models(
        "text",
        """Bert Roberta Electra MPNet Albert Camembert Ernie ConvBert DistilBert Deberta DebertaV2 FNet Funnel IBert LayoutLM MegatronBert
        MobileBert Nystromformer RemBert RoFormer SqueezeBert Splinter XLMRoberta XLM XLNet Data2VecText Canine ModernBert
        Esm BigBird Longformer Yoso Mra NomicBert""",
    ),
    *_models("masked text", "Bert Roberta DistilBert Deberta XLNet MPNet T5Encoder ModernBert"),
    *_models(
        "text",
        """GPT2 GPTNeo GPTNeoX GPTJ OPT Bloom Llama Mistral Qwen2 Qwen3 Gemma Gemma2 Phi Phi3 Falcon StableLm Cohere Olmo Olmo2
        Granite SmolLM3 Starcoder2 CodeGen GPTBigCode Mpt Persimmon Mamba Mamba2 CTRL XGLM BioGpt Glm Nemotron
        Qwen2Moe GraniteMoe Olmoe OpenAIGPT Rwkv Helium ModernBertDecoder""",
    ),
    *_models(
        "cache",
        "GPT2 GPTNeoX OPT Llama Mistral Qwen2 Qwen3 Gemma Gemma2 Phi3 StableLm Cohere Olmo2 Granite Falcon Bloom",
    ),
    *_models(
        "two texts",
        "T5 MT5 Bart MBart Pegasus Marian M2M100 Blenderbot BlenderbotSmall LED ProphetNet LongT5 PLBart BigBirdPegasus",
    ),
]
SEEN = [
    *_models(
        "picture",
        "ViT DeiT Beit Dinov2 Dinov2WithRegisters DINOv3ViT ViTMSN ViTMAE IJepa Pvt VitDet",
        size=64,
    ),
    *_models(
        "picture",
        """Swin Swinv2 ConvNext ConvNextV2 MobileViT MobileViTV2 Segformer PoolFormer PvtV2 Levit Cvt FocalNet Hiera RegNet ResNet
        MobileNetV1 MobileNetV2 EfficientNet Bit GLPN SwiftFormer TextNet Dinat""",
    ),
    *_models(
        "picture",
        "Yolos Detr TableTransformer ConditionalDetr DeformableDetr DabDetr RTDetr RTDetrV2 DFine",
    ),
    *_models(
        "picture",
        "DPT MaskFormer Mask2Former UperNet DepthAnything ZoeDepth SuperPoint VitPose Swin2SR Sam SegGpt",
    ),
    *_models("video", "Timesformer VideoMAE Vivit VJEPA2"),
    *_models(
        "picture and text",
        "CLIP Siglip ChineseCLIP AltCLIP Owlv2 OwlViT CLIPSeg GroupViT Blip Vilt XCLIP Flava Align BridgeTower",
    ),
]
HEARD = [
    *_models(
        "sound",
        "Wav2Vec2 Hubert WavLM SEW SEWD UniSpeech UniSpeechSat Wav2Vec2Conformer Data2VecAudio Encodec Dac Mimi",
    ),
    *_models("spectrogram", "Wav2Vec2Bert Whisper Speech2Text AST Clap Moonshine"),
    *_models("series", "TimeSeriesTransformer PatchTST PatchTSMixer Informer Autoformer"),
    *_models("speech from text", "Vits SpeechT5 FastSpeech2Conformer UnivNet"),
]
NETWORKS = TORCHVISION + TIMM + TEXTS + SEEN + HEARD


def exports():
    """(network, exporter, opset) of every row of the table."""
    for number, network in enumerate(NETWORKS):
        exporter, opset = network.options.get("export", EXPORTS[number % len(EXPORTS)])
        yield network, exporter, opset
