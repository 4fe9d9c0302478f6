"""A small transformer's inference and training steps, to be recorded under a profiler with shapes.

``python transformer.py infer|train [--steps N] [--device cuda:0] [--small]``.
"""

from __future__ import annotations

import argparse
import sys

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention and a two-layer perceptron, normed before each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Transformer(nn.Module):
    """Embedding, blocks, norm, head."""

    def __init__(self, words: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.embed(tokens))))


def main() -> int:
    """Run some steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=("infer", "train"))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--small", action="store_true", help="for a try on a processor")
    asked = parser.parse_args()
    torch.manual_seed(0)
    words, width, heads, layers, batch, length = (
        (512, 64, 4, 2, 2, 32) if asked.small else (32000, 2048, 16, 8, 8, 1024)
    )
    model = Transformer(words, width, heads, layers).to(asked.device, torch.bfloat16)
    tokens = torch.randint(0, words, (batch, length), device=asked.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(asked.steps):
        with torch.profiler.record_function(f"step {step}"):
            if asked.mode == "infer":
                with torch.inference_mode():
                    model(tokens if step % 2 == 0 else tokens[:, :1])  # a prompt, then one token
            else:
                loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            if asked.device.startswith("cuda"):
                torch.cuda.synchronize(asked.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
