"""Every family that is read, by the ``model_type`` of its configs, and what is refused by name."""

from __future__ import annotations

from typing import Final

from perfmodel.sources.huggingface.families.decoders import DECODERS
from perfmodel.sources.huggingface.families.multimodal import MULTIMODAL
from perfmodel.sources.huggingface.families.parts import Family

FAMILIES: Final[dict[str, Family]] = dict(sorted((DECODERS | MULTIMODAL).items()))

NO_DECODERS: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "albert", "align_text_model", "altclip_text_model", "bert", "bert-generation",
            "big_bird", "blip_text_model", "bros", "camembert", "canine", "chinese_clip_text_model",
            "clip_text_model", "clipseg_text_model", "convbert", "data2vec-text", "deberta",
            "deberta-v2", "distilbert", "dpr", "electra", "ernie", "ernie_m", "esm", "esmc",
            "eurobert", "flaubert", "fnet", "funnel", "gte", "ibert", "jina_embeddings_v3",
            "layoutlm", "layoutlmv2", "layoutlmv3", "layoutxlm", "lilt", "longformer", "luke",
            "lxmert", "markuplm", "mega", "megatron-bert", "mobilebert", "modernbert",
            "modernvbert", "mpnet", "mra", "neomme", "nezha", "nomic_bert", "nystromformer",
            "openai_privacy_filter", "perceiver", "qdqbert", "realm", "rembert", "retribert",
            "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "siglip2_text_model",
            "siglip_text_model", "splinter", "squeezebert", "tapas", "tipsv2_text_model",
            "ultrabert", "ultravbert", "visual_bert", "xlm", "xlm-roberta", "xlm-roberta-xl",
            "xmod", "yoso",
        ),
        "encoder-only",
    ),
    **dict.fromkeys(
        (
            "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "blip", "canary",
            "cohere_asr", "dia", "encoder-decoder", "florence2", "fsmt", "led", "longt5", "m2m_100",
            "marian", "mbart", "moonshine", "moonshine_streaming", "mt5", "musicgen",
            "musicgen_melody", "mvp", "nllb-moe", "nougat", "pegasus", "pegasus_x", "pix2struct",
            "plbart", "pop2piano", "pp_formulanet", "prophetnet", "rag", "seamless_m4t",
            "seamless_m4t_v2", "speech-encoder-decoder", "speech_to_text", "speech_to_text_2",
            "speecht5", "switch_transformers", "t5", "t5gemma", "t5gemma2", "trocr", "udop", "umt5",
            "vision-encoder-decoder", "whisper", "xlm-prophetnet",
        ),
        "an encoder-decoder model",
    ),
    **dict.fromkeys(
        (
            "aimv2", "aimv2_vision_model", "align", "altclip", "altclip_vision_model", "beit",
            "bit", "blip_vision_model", "bridgetower", "chinese_clip", "chinese_clip_vision_model",
            "chmv2", "clip", "clip_vision_model", "clipseg", "clipseg_vision_model",
            "conditional_detr", "convnext", "convnextv2", "cvt", "d_fine", "dab-detr",
            "data2vec-vision", "deformable_detr", "deimv2", "deit", "depth_anything", "depth_pro",
            "deta", "detr", "dinat", "dinov2", "dinov2_with_registers", "dinov3_convnext",
            "dinov3_vit", "donut-swin", "dpt", "edgetam", "edgetam_video", "efficientformer",
            "efficientloftr", "efficientnet", "eomt", "eomt_dinov3", "flava", "focalnet", "glpn",
            "grounding-dino", "groupvit", "hgnet_v2", "hiera", "ijepa", "imagegpt", "levit",
            "lightglue", "lw_detr", "mask2former", "maskformer", "maskformer-swin", "metaclip_2",
            "mgp-str", "mlcd", "mlcd_vision_model", "mm-grounding-dino", "mobilenet_v1",
            "mobilenet_v2", "mobilevit", "mobilevitv2", "nat", "omdet-turbo", "oneformer", "owlv2",
            "owlvit", "pixio", "pixtral", "poolformer", "pp_doclayout_v2", "pp_doclayout_v3",
            "pp_doclayout_v4", "pp_lcnet", "pp_lcnet_v3", "pp_lcnet_v4", "prompt_depth_anything",
            "pvt", "pvt_v2", "radio", "regnet", "resnet", "rf_detr", "rt_detr", "rt_detr_v2", "sam",
            "sam2", "sam2_video", "sam3", "sam3_video", "sam_hq", "sapiens2", "segformer", "seggpt",
            "siglip", "siglip2", "siglip2_vision_model", "siglip_vision_model", "slanet", "slanext",
            "superglue", "superpoint", "swiftformer", "swin", "swin2sr", "swinv2",
            "table-transformer", "textnet", "timesformer", "timm_backbone", "timm_wrapper",
            "tipsv2", "tipsv2_vision_model", "tvlt", "tvp", "upernet", "uvdoc", "van", "videomae",
            "videomt", "videoprism", "vilt", "vision-text-dual-encoder", "vit", "vit_hybrid",
            "vit_mae", "vit_msn", "vitdet", "vitmatte", "vitpose", "vivit", "vjepa2", "xclip",
            "yolos", "zoedepth",
        ),
        "an image model",
    ),
    **dict.fromkeys(
        (
            "audio-spectrogram-transformer", "bark", "clap", "clap_audio_model", "clvp", "csm",
            "dac", "data2vec-audio", "encodec", "fastspeech2_conformer", "gradium_phonon_tts",
            "granite_speech5_ctc", "higgs_audio_v2", "hubert", "jukebox", "lasr_ctc", "mctct",
            "mimi", "moshi", "nemotron3_5_asr", "nemotron_asr_streaming", "neucodec", "omniasr_ctc",
            "parakeet_ctc", "parakeet_rnnt", "parakeet_tdt", "pe_audio", "pocket_tts", "sew",
            "sew-d", "unispeech", "unispeech-sat", "univnet", "vits", "wav2vec2", "wav2vec2-bert",
            "wav2vec2-conformer", "wavlm", "wavtokenizer", "xcodec", "xcodec2",
        ),
        "an audio model",
    ),
    **dict.fromkeys(
        (
            "autoformer", "informer", "patchtsmixer", "patchtst", "time_series_transformer",
            "timesfm", "timesfm2_5",
        ),
        "a time series model",
    ),
    "decision_transformer": "a model of actions",
    "reformer": "a model of hashed attention",
    "transfo-xl": "a model with a memory of segments",
    "xlnet": "a model of permuted text",
}  # fmt: skip
