"""Train tiny-docs, a small Llama that writes like Python's manual, and save it as a GGUF file.

    pip install -r requirements.txt
    python train.py [OUTPUT.gguf]

The corpus is the text behind `help("topics")` of the Python that runs this script; the committed
model was made with CPython 3.11.7 on one core (README.md has the numbers). A fixed seed and a fixed
number of steps make the run repeatable on one machine; another processor rounds differently and
gives a model of the same quality, not the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
import time
from pathlib import Path
from pydoc_data.topics import topics

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional as F

SEED = 20261129
CORPUS_SHA256 = "2a95af4ac93f5b719944030ce3769070ddf827d847cba42192afa8da989e5dc4"  # CPython 3.11.7

# Shape of the model: 2.2 M parameters are 2.3 MB in Q8_0, whose blocks want widths divisible by 32.
VOCABULARY = 2048
WIDTH = 192
LAYERS = 4
HEADS = 6
HEAD_WIDTH = WIDTH // HEADS
FEED_FORWARD = 512
CONTEXT = 512  # tokens
ROPE_BASE = 10_000.0
NORM_EPSILON = 1e-5

# Training: few passes over a small corpus, so dropout and weight decay hold back memorising.
STEPS = 500
WARMUP_STEPS = 50
BATCH = 4  # windows of CONTEXT tokens a step
PEAK_LEARNING_RATE = 3e-3
WEIGHT_DECAY = 0.1
DROPOUT = 0.1
GRADIENT_CLIP = 1.0
VALIDATION_EVERY = 20  # each 20th block of CONTEXT tokens is never trained on

END_OF_TEXT = "<|endoftext|>"
# The model knows no roles: each message becomes a paragraph, and the answer is the next paragraph.
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}"


# --- corpus and tokenizer -----------------------------------------------------------------------


def read_corpus() -> list[str]:
    """Return the manual's topics in alphabetical order of their keys."""
    documents = [topics[key] for key in sorted(topics)]
    digest = hashlib.sha256("\n".join(documents).encode()).hexdigest()
    print(f"corpus: Python {platform.python_version()}, {len(documents)} topics, sha256 {digest}")
    if digest != CORPUS_SHA256:
        print("corpus: differs from the committed model's; the result will differ too")
    return documents


def train_tokenizer(documents: list[str]) -> Tokenizer:
    """Learn a byte-level BPE that splits words as GPT-2 does (llama.cpp: `gpt2`, pre `gpt-2`)."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


def split_blocks(documents: list[str], tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """Return (training tokens, validation blocks); validation is every 20th block of the text."""
    stream = [
        token
        for document in documents
        for token in [*tokenizer.encode(document).ids, tokenizer.token_to_id(END_OF_TEXT)]
    ]
    count = (len(stream) - 1) // CONTEXT
    blocks = torch.tensor(stream[: count * CONTEXT]).view(count, CONTEXT)
    held_out = torch.arange(count) % VALIDATION_EVERY == VALIDATION_EVERY - 1
    return blocks[~held_out].flatten(), blocks[held_out]


# --- model --------------------------------------------------------------------------------------


def rope_angles() -> Tensor:
    """Return the rotation of each position and channel pair, complex, [CONTEXT, HEAD_WIDTH / 2]."""
    frequencies = ROPE_BASE ** (-torch.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
    angles = torch.outer(torch.arange(CONTEXT), frequencies)
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x: Tensor, rope: Tensor) -> Tensor:
    """Rotate neighbouring channels of [batch, head, time, channel] by their position.

    Neighbours, as llama.cpp pairs them: the projections need no permutation on export.
    """
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rope[: x.shape[-2]]).flatten(-2)


class Block(nn.Module):
    """One Llama layer: attention, then a gated feed-forward, each added to the residual."""

    def __init__(self) -> None:
        super().__init__()
        self.attn_norm = nn.RMSNorm(WIDTH, NORM_EPSILON)
        self.attn_q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.attn_k = nn.Linear(WIDTH, WIDTH, bias=False)
        self.attn_v = nn.Linear(WIDTH, WIDTH, bias=False)
        self.attn_output = nn.Linear(WIDTH, WIDTH, bias=False)
        self.ffn_norm = nn.RMSNorm(WIDTH, NORM_EPSILON)
        self.ffn_gate = nn.Linear(WIDTH, FEED_FORWARD, bias=False)
        self.ffn_up = nn.Linear(WIDTH, FEED_FORWARD, bias=False)
        self.ffn_down = nn.Linear(FEED_FORWARD, WIDTH, bias=False)

    def forward(self, x: Tensor, rope: Tensor) -> Tensor:
        x = x + self.dropped(self.attention(self.attn_norm(x), rope))
        return x + self.dropped(self.feed_forward(self.ffn_norm(x)))

    def attention(self, x: Tensor, rope: Tensor) -> Tensor:
        q, k, v = (
            projection(x).unflatten(-1, (HEADS, HEAD_WIDTH)).transpose(1, 2)
            for projection in (self.attn_q, self.attn_k, self.attn_v)
        )
        mixed = F.scaled_dot_product_attention(rotate(q, rope), rotate(k, rope), v, is_causal=True)
        return self.attn_output(mixed.transpose(1, 2).flatten(-2))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.ffn_down(F.silu(self.ffn_gate(x)) * self.ffn_up(x))

    def dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, DROPOUT, self.training)


class TinyLlama(nn.Module):
    """A Llama with tied embeddings; its attributes carry GGUF's tensor names."""

    def __init__(self) -> None:
        super().__init__()
        self.token_embd = nn.Embedding(VOCABULARY, WIDTH)
        self.blk = nn.ModuleList(Block() for _ in range(LAYERS))
        self.output_norm = nn.RMSNorm(WIDTH, NORM_EPSILON)
        self.register_buffer("rope", rope_angles(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                # Layers that write to the residual start smaller, so that depth does not add up.
                writes_residual = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * LAYERS if writes_residual else 1))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token_embd(tokens)
        for block in self.blk:
            x = block(x, self.rope)
        return F.linear(self.output_norm(x), self.token_embd.weight)


# --- training -----------------------------------------------------------------------------------


def loss_of(model: TinyLlama, windows: Tensor) -> Tensor:
    """Return the mean cross entropy (nats a token) of predicting each window's next tokens."""
    logits = model(windows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def learning_rate(step: int) -> float:
    """Return the rate of a step: linear warm-up, then a cosine down to a hundredth."""
    if step < WARMUP_STEPS:
        return PEAK_LEARNING_RATE * (step + 1) / WARMUP_STEPS
    progress = (step - WARMUP_STEPS) / (STEPS - WARMUP_STEPS)
    return PEAK_LEARNING_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


@torch.no_grad()
def mean_loss(model: TinyLlama, blocks: Tensor) -> float:
    """Return the mean loss over blocks, without dropout."""
    model.eval()
    losses = [loss_of(model, batch) * len(batch) for batch in blocks.split(BATCH)]
    model.train()
    return float(sum(losses)) / len(blocks)


def train(model: TinyLlama, tokens: Tensor, validation: Tensor) -> None:
    """Run all steps on random windows of the training tokens, printing losses on the way."""
    matrices = [weight for weight in model.parameters() if weight.ndim == 2]
    gains = [weight for weight in model.parameters() if weight.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": gains, "weight_decay": 0}],
        betas=(0.9, 0.95),
    )
    windows = tokens.unfold(0, CONTEXT + 1, 1)
    draw = torch.Generator().manual_seed(SEED)
    started = time.process_time()  # wall time says little on a shared machine
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        loss = loss_of(model, windows[torch.randint(len(windows), (BATCH,), generator=draw)])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_CLIP)
        optimizer.step()
        if (step + 1) % 100 == 0:
            minutes = (time.process_time() - started) / 60
            print(
                f"step {step + 1}/{STEPS}: batch loss {loss:.3f},"
                f" validation {mean_loss(model, validation):.3f}, {minutes:.1f} CPU minutes",
                flush=True,
            )
    seen = tokens[: len(tokens) // CONTEXT * CONTEXT].view(-1, CONTEXT)
    print(
        f"final: train {mean_loss(model, seen):.3f}, validation {mean_loss(model, validation):.3f}"
    )


# --- export -------------------------------------------------------------------------------------


def write_gguf(model: TinyLlama, tokenizer: Tokenizer, path: Path) -> None:
    """Write the model as llama.cpp reads it: matrices in Q8_0, gains in F32."""
    writer = gguf.GGUFWriter(path, "llama")
    write_description(writer)
    write_tokenizer(writer, tokenizer)
    for name, weight in model.named_parameters():
        values = weight.detach().numpy().astype(np.float32)
        kind = gguf.GGMLQuantizationType.Q8_0 if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_description(writer: gguf.GGUFWriter) -> None:
    """Describe the model: who it is, and the shape llama.cpp needs to build its graph."""
    writer.add_name("tiny-docs")
    writer.add_description("A tiny Llama trained on the topics of Python's manual")
    writer.add_license("apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_vocab_size(VOCABULARY)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_rope_freq_base(ROPE_BASE)


def write_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    """Write vocabulary, merges and chat template."""
    end_of_text = tokenizer.token_to_id(END_OF_TEXT)
    kinds = [gguf.TokenType.NORMAL] * VOCABULARY
    kinds[end_of_text] = gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([tokenizer.id_to_token(token) for token in range(VOCABULARY)])
    writer.add_token_types(kinds)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(end_of_text)
    writer.add_eos_token_id(end_of_text)
    writer.add_add_bos_token(False)  # a prompt continues a text, it need not open one
    writer.add_chat_template(CHAT_TEMPLATE)


def main() -> None:
    """Train on one thread and write the file."""
    default = Path(__file__).resolve().parent.parent / "tiny-docs.gguf"
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    torch.set_num_threads(1)  # one thread sums in one order
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(SEED)

    documents = read_corpus()
    tokenizer = train_tokenizer(documents)
    tokens, validation = split_blocks(documents, tokenizer)
    model = TinyLlama()
    parameters = sum(weight.numel() for weight in model.parameters())
    print(f"model: {parameters} parameters; {len(tokens)} tokens, {validation.numel()} held out")
    train(model, tokens, validation)
    write_gguf(model, tokenizer, output)
    print(f"wrote {output}: {output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
