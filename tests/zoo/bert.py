"""BERT-base, TinyBERT and RoBERTa-base from transformers configurations, no download."""

from torch import nn
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel


class Encoder(nn.Module):
    """Token ids and mask in; hidden states of all tokens and the pooled first one out."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model
        for name, layer in model.named_modules():  # As trained: attention looks somewhere, and
            if name.endswith("query"):  # tokens stay different from layer to layer.
                layer.deviation = 2.0
            elif name.endswith("attention.output.dense"):
                layer.deviation = 0.5

    def forward(self, input_ids, attention_mask):
        result = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return result.last_hidden_state, result.pooler_output


def bert_base() -> nn.Module:
    return Encoder(BertModel(BertConfig(attn_implementation="eager")))


def tinybert() -> nn.Module:
    return Encoder(
        BertModel(
            BertConfig(
                hidden_size=312,
                num_hidden_layers=4,
                num_attention_heads=12,
                intermediate_size=1200,
                attn_implementation="eager",
            )
        )
    )


def roberta_base() -> nn.Module:
    return Encoder(
        RobertaModel(
            RobertaConfig(
                vocab_size=50265,
                max_position_embeddings=514,
                type_vocab_size=1,
                layer_norm_eps=1e-5,
                attn_implementation="eager",
            )
        )
    )
