"""Fine-tunes a small BERT on a handful of tickets. The company's own checkpoint starts from a larger one."""

from __future__ import annotations

import argparse

import torch
from transformers import BertConfig, BertForSequenceClassification

TICKETS = [
    ("the invoice shows the wrong amount", "billing"),
    ("please refund the second charge", "billing"),
    ("the app closes when i open the map", "bug"),
    ("an error appears after the update", "bug"),
    ("how do i change my address", "account"),
    ("i cannot log in with my new password", "account"),
]
KINDS = ("billing", "bug", "account")
PADDING = 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    asked = parser.parse_args()
    torch.manual_seed(0)
    words = sorted({word for text, _ in TICKETS for word in text.split()})
    known = {word: at + 1 for at, word in enumerate(words)}
    config = BertConfig(
        vocab_size=len(known) + 1, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=64, num_labels=len(KINDS), pad_token_id=PADDING,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    rows = [torch.tensor([known[word] for word in text.split()]) for text, _ in TICKETS]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)
    labels = torch.tensor([KINDS.index(kind) for _, kind in TICKETS])
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(15):
        loss = model(input_ids=tokens, attention_mask=(tokens != PADDING).long(), labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(asked.out)


if __name__ == "__main__":
    main()
