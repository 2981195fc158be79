"""What users write around a library's class: a configuration, or one tensor in and one out.

Each function imports its own package only, and takes plain settings. Weights come with `--weights`.
"""

import torch
from torch import nn


def smp_unet():
    import segmentation_models_pytorch as smp

    return smp.Unet("resnet18", encoder_weights=None, classes=3)


def smp_deeplab():
    import segmentation_models_pytorch as smp

    return smp.DeepLabV3Plus("mobilenet_v2", encoder_weights=None, classes=3)


def smp_fpn():
    import segmentation_models_pytorch as smp

    return smp.FPN("timm-efficientnet-b0", encoder_weights=None, classes=3)


class ImageText(nn.Module):
    """An open_clip model: features of an image and of a text, and how well they agree."""

    def __init__(self):
        super().__init__()
        import open_clip

        vision = {"image_size": 64, "layers": 3, "width": 96, "patch_size": 16, "head_width": 32}
        text = {"context_length": 16, "vocab_size": 400, "width": 64, "heads": 4, "layers": 2}
        self.clip = open_clip.CLIP(embed_dim=48, vision_cfg=vision, text_cfg=text)

    def forward(self, image, text):
        image_features = self.clip.encode_image(image, normalize=True)
        text_features = self.clip.encode_text(text, normalize=True)
        return image_features, text_features


class Graph(nn.Module):
    """A graph network of torch_geometric and its head for nodes; `edges` holds pairs of node ids in rows."""

    def __init__(self, kind="GCN"):
        super().__init__()
        from torch_geometric import nn as graph_nn

        self.body = getattr(graph_nn, kind)(in_channels=7, hidden_channels=16, num_layers=2, out_channels=4)

    def forward(self, nodes, edges):
        return self.body(nodes, edges.T)


class Speaker(nn.Module):
    """The network of speechbrain that tells speakers apart, without relative lengths."""

    def __init__(self):
        super().__init__()
        from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

        self.body = ECAPA_TDNN(40, channels=[64] * 4 + [192], attention_channels=32, lin_neurons=48)

    def forward(self, features):
        return self.body(features)[:, 0]


class Wave2Vec(nn.Module):
    """torchaudio's wav2vec 2.0 of a small size, with a head for letters."""

    def __init__(self):
        super().__init__()
        from torchaudio.models import wav2vec2_model

        self.body = wav2vec2_model(
            extractor_mode="group_norm", extractor_conv_layer_config=[(32, 10, 5), (32, 3, 2), (32, 3, 2)],
            extractor_conv_bias=False, encoder_embed_dim=48, encoder_projection_dropout=0.0,
            encoder_pos_conv_kernel=16, encoder_pos_conv_groups=4, encoder_num_layers=2, encoder_num_heads=4,
            encoder_attention_dropout=0.0, encoder_ff_interm_features=96, encoder_ff_interm_dropout=0.0,
            encoder_dropout=0.0, encoder_layer_norm_first=False, encoder_layer_drop=0.0, aux_num_out=29,
        )  # fmt: skip

    def forward(self, wave):
        return self.body(wave)[0]


class AudioConformer(nn.Module):
    """torchaudio's Conformer over frames, with its lengths."""

    def __init__(self):
        super().__init__()
        from torchaudio.models import Conformer

        self.body = Conformer(input_dim=32, num_heads=4, ffn_dim=64, num_layers=2, depthwise_conv_kernel_size=7)

    def forward(self, frames, lengths):
        return self.body(frames, lengths)[0]


class Yolo(nn.Module):
    """The detector of ultralytics with its decoded boxes and scores, one tensor."""

    def __init__(self, config="yolov8n.yaml"):
        super().__init__()
        from ultralytics.nn.tasks import DetectionModel

        self.body = DetectionModel(config, verbose=False)

    def forward(self, image):
        return self.body(image)[0]


class Sentence(nn.Module):
    """Layers of sentence-transformers: a table of words, their mean weighed by the mask, a dense layer, its norm."""

    def __init__(self):
        super().__init__()
        from sentence_transformers.sentence_transformer import modules
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=300, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96
        )
        self.body = BertModel(config, add_pooling_layer=False)
        self.pooling = modules.Pooling(48, "mean")
        self.dense, self.norm = modules.Dense(48, 24), modules.Normalize()

    def forward(self, input_ids, attention_mask):
        words = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        features = {"token_embeddings": words, "attention_mask": attention_mask}
        return self.norm(self.dense(self.pooling(features)))["sentence_embedding"]


class TabularNet(nn.Module):
    """pytorch-tabnet's network without the loss of its sparsity."""

    def __init__(self):
        super().__init__()
        from pytorch_tabnet.tab_network import TabNet

        attention = torch.eye(10)
        self.body = TabNet(10, 3, n_d=8, n_a=8, n_steps=3, group_attention_matrix=attention)

    def forward(self, rows):
        return self.body(rows)[0]


class DiffusersUnet(nn.Module):
    """The UNet of diffusers, conditioned on text, that returns its sample alone."""

    def __init__(self):
        super().__init__()
        from diffusers import UNet2DConditionModel

        self.body = UNet2DConditionModel(
            sample_size=16, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=24, norm_num_groups=8,
            attention_head_dim=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        )  # fmt: skip

    def forward(self, sample, timestep, states):
        return self.body(sample, timestep, states, return_dict=False)[0]


class DiffusersVae(nn.Module):
    """The autoencoder of diffusers: an image to its latent mean and back."""

    def __init__(self):
        super().__init__()
        from diffusers import AutoencoderKL

        self.body = AutoencoderKL(
            block_out_channels=(16, 32), norm_num_groups=8, layers_per_block=1, latent_channels=4,
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
        )  # fmt: skip

    def forward(self, image):
        latent = self.body.encode(image).latent_dist.mode()
        return self.body.decode(latent).sample


class Policy(nn.Module):
    """The policy of stable-baselines3's PPO: the best action's mean, and the value of the state."""

    def __init__(self, actions=3):
        super().__init__()
        from gymnasium import spaces
        from stable_baselines3.common.policies import ActorCriticPolicy

        box = spaces.Box(-1, 1, (8,))
        self.body = ActorCriticPolicy(box, spaces.Box(-1, 1, (actions,)), lambda _: 3e-4)

    def forward(self, observation):
        actions, values, _ = self.body(observation, deterministic=True)
        return actions, values


class Quality(nn.Module):
    """Values of the actions by stable-baselines3's DQN, for small pictures."""

    def __init__(self):
        super().__init__()
        from gymnasium import spaces
        from stable_baselines3.dqn.policies import CnnPolicy

        pictures = spaces.Box(0, 255, (4, 84, 84), dtype="uint8")
        self.body = CnnPolicy(pictures, spaces.Discrete(6), lambda _: 1e-4).q_net

    def forward(self, frames):
        return self.body(frames)


def vit():
    from vit_pytorch import ViT

    return ViT(image_size=32, patch_size=8, num_classes=10, dim=48, depth=2, heads=4, mlp_dim=96)


class TextDecoder(nn.Module):
    """x-transformers: a decoder with rotary positions, over tokens."""

    def __init__(self):
        super().__init__()
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(dim=48, depth=2, heads=4, rotary_pos_emb=True, attn_flash=False)
        self.body = TransformerWrapper(num_tokens=200, max_seq_len=64, attn_layers=layers)

    def forward(self, tokens):
        return self.body(tokens)


class XVit(nn.Module):
    """x-transformers: an encoder over the patches of a picture."""

    def __init__(self):
        super().__init__()
        from x_transformers import Encoder, ViTransformerWrapper

        layers = Encoder(dim=48, depth=2, heads=4)
        self.body = ViTransformerWrapper(image_size=32, patch_size=8, num_classes=10, attn_layers=layers)

    def forward(self, image):
        return self.body(image)


class Similarity(nn.Module):
    """pytorch-msssim between two pictures, a number for each pair."""

    def __init__(self):
        super().__init__()
        from pytorch_msssim import SSIM

        self.body = SSIM(data_range=1.0, size_average=False, channel=3)

    def forward(self, first, second):
        return self.body(first, second)


def ft_transformer():
    from rtdl_revisiting_models import FTTransformer

    return FTTransformer(
        n_cont_features=6, cat_cardinalities=[4, 7], d_out=3, n_blocks=2, d_block=32, attention_n_heads=4,
        attention_dropout=0.2, ffn_d_hidden_multiplier=2.0, ffn_dropout=0.1, residual_dropout=0.0,
    )  # fmt: skip


def tab_transformer():
    from tab_transformer_pytorch import TabTransformer

    return TabTransformer(
        categories=(4, 7, 3), num_continuous=5, dim=16, depth=2, heads=4, dim_head=8, mlp_act=nn.ReLU()
    )


class Periodic(nn.Module):
    """rtdl_num_embeddings before a small network."""

    def __init__(self):
        super().__init__()
        from rtdl_num_embeddings import PeriodicEmbeddings

        self.body = nn.Sequential(PeriodicEmbeddings(6, 8, lite=False), nn.Flatten(), nn.Linear(48, 3))

    def forward(self, rows):
        return self.body(rows)


class Tagger(nn.Module):
    """Emissions and the score of a sequence of tags, by pytorch-crf."""

    def __init__(self):
        super().__init__()
        from torchcrf import CRF

        self.crf = CRF(5, batch_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, words, tags):
        return self.crf(self.head(words), tags, reduction="none")


class Separator(nn.Module):
    """asteroid's ConvTasNet: two voices of one wave."""

    def __init__(self):
        super().__init__()
        from asteroid.models import ConvTasNet

        self.body = ConvTasNet(
            n_src=2, n_filters=32, kernel_size=16, stride=8, n_blocks=2, n_repeats=1, bn_chan=16, hid_chan=32,
            skip_chan=16,
        )  # fmt: skip

    def forward(self, wave):
        return self.body(wave)


class Demucs(nn.Module):
    """demucs in the wave domain, with four sources."""

    def __init__(self):
        super().__init__()
        from demucs.demucs import Demucs as Network

        self.body = Network(["a", "b"], channels=8, depth=3, lstm_layers=1, resample=False, normalize=True)

    def forward(self, mix):
        return self.body(mix)


class CodecEncoder(nn.Module):
    """encodec's convolutions with their LSTM: a wave to its latent and back."""

    def __init__(self):
        super().__init__()
        from encodec.modules import SEANetDecoder, SEANetEncoder

        size = {"dimension": 16, "n_filters": 8, "ratios": [4, 2], "norm": "weight_norm", "lstm": 1}
        self.encoder, self.decoder = SEANetEncoder(**size), SEANetDecoder(**size)

    def forward(self, wave):
        return self.decoder(self.encoder(wave))


class Perceptual(nn.Module):
    """The distance of two pictures by lpips."""

    def __init__(self):
        super().__init__()
        from lpips import LPIPS

        self.body = LPIPS(net="squeeze", pretrained=False, pnet_rand=True, verbose=False)

    def forward(self, first, second):
        return self.body(first, second)


class Liquid(nn.Module):
    """A closed-form continuous network of ncps over a series."""

    def __init__(self):
        super().__init__()
        from ncps.torch import CfC

        self.body = CfC(5, 12)

    def forward(self, series):
        return self.body(series)[0]


class Vocoder(nn.Module):
    """vocos without its transform back to a wave: magnitude and phase."""

    def __init__(self):
        super().__init__()
        from vocos.models import VocosBackbone

        self.body = VocosBackbone(input_channels=20, dim=32, intermediate_dim=64, num_layers=2)

    def forward(self, mel):
        return self.body(mel)


class Voice(nn.Module):
    """The network of the silero-vad package, with the weights inside: is there a voice in the chunk?"""

    def __init__(self):
        super().__init__()
        from silero_vad import load_silero_vad

        self.body = load_silero_vad()

    def forward(self, chunk):
        self.body.reset_states()
        return self.body(chunk, 16000)


class Forecast(nn.Module):
    """N-BEATS blocks of pytorch-forecasting: a backcast and a forecast."""

    def __init__(self):
        super().__init__()
        from pytorch_forecasting.models.nbeats.sub_modules import NBEATSGenericBlock, NBEATSTrendBlock

        size = {"units": 32, "thetas_dim": 4, "num_block_layers": 2, "backcast_length": 12, "forecast_length": 4}
        self.blocks = nn.ModuleList([NBEATSTrendBlock(**size), NBEATSGenericBlock(**size)])

    def forward(self, series):
        forecast = 0
        for block in self.blocks:
            backcast, part = block(series)
            series, forecast = series - backcast, forecast + part
        return forecast


class Selection(nn.Module):
    """The gated residual network and the variable selection of pytorch-forecasting's TFT."""

    def __init__(self):
        super().__init__()
        from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import (
            GatedResidualNetwork,
            InterpretableMultiHeadAttention,
        )

        self.gate = GatedResidualNetwork(8, 16, 8, dropout=0.1)
        self.attention = InterpretableMultiHeadAttention(n_head=2, d_model=8, dropout=0.0)

    def forward(self, series):
        x = self.gate(series)
        return self.attention(x, x, x)[0]


class Unmix(nn.Module):
    """openunmix over magnitudes of a spectrum."""

    def __init__(self):
        super().__init__()
        from openunmix.model import OpenUnmix

        self.body = OpenUnmix(nb_bins=33, nb_channels=2, hidden_size=24, nb_layers=1)

    def forward(self, magnitude):
        return self.body(magnitude)


class Fno(nn.Module):
    """A Fourier neural operator of neuraloperator."""

    def __init__(self):
        super().__init__()
        from neuralop.models import FNO

        self.body = FNO(n_modes=(6, 6), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2)

    def forward(self, field):
        return self.body(field)


class Edges(nn.Module):
    """kornia: blur, Sobel edges and a warp of a picture."""

    def __init__(self):
        super().__init__()
        from kornia import filters

        self.blur, self.sobel = filters.GaussianBlur2d((5, 5), (1.5, 1.5)), filters.Sobel()

    def forward(self, image):
        return self.sobel(self.blur(image))
