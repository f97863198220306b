"""Train the three LoRA adapters of tiny-docs, each of which makes it write another kind of text.

    pip install -r requirements.txt
    python train_adapters.py [OUTPUT_FOLDER]

The model is read from the committed file and stays as it is. The corpora are parts of the Python
that runs this script (README.md says which, with licence and numbers); the committed adapters were
made with CPython 3.11.7 on one core. Seed and steps are fixed, as in train.py.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import sysconfig
import time
from pathlib import Path
from typing import NamedTuple

import gguf
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from train import END_OF_TEXT, GRADIENT_CLIP, TinyLlama, loss_of

SEED = 20261130
FOLDER = Path(__file__).resolve().parent.parent
STDLIB = Path(sysconfig.get_path("stdlib"))


class Corpus(NamedTuple):
    """Text of the standard library, and how long an adapter is trained on it."""

    files: str  # in the standard library's folder
    sha256: str  # of these files in CPython 3.11.7
    steps: int


CORPORA = {
    "code": Corpus(
        "asyncio/*.py", "f5fd9f9a99e62e298eacf8fed62c832bf6b4cc3da3c336e33ad66e1f076d7d27", 300
    ),
    # Smaller corpora: 7 and 24 passes are enough.
    "news": Corpus(
        "idlelib/NEWS.txt", "428bc87778b0fce730a5d23474c16debe2ad379bceded7733b5d52960801fcfb", 150
    ),
    "legal": Corpus(
        "LICENSE.txt", "3b2f81fe21d181c499c59a256c8e1968455d6689d269aa85373bfb6af41da3bf", 150
    ),
}

# Rank 8 on every matrix of every layer: 238 KB in F16, enough to turn a model of this size.
RANK = 8
ALPHA = 16.0
WARMUP_SHARE = 0.1
BATCH = 4
WINDOW = 256  # tokens; half the context, as the smallest corpus has only a few thousand
PEAK_LEARNING_RATE = 4e-3
BLOCK = 128  # tokens
VALIDATION_EVERY = 10  # each tenth block is never trained on


class Adapted(nn.Module):
    """A frozen projection with a correction of low rank beside it."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner
        self.lora_a = nn.Parameter(torch.randn(RANK, inner.in_features) / RANK)
        self.lora_b = nn.Parameter(torch.zeros(inner.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + (x @ self.lora_a.T @ self.lora_b.T) * (ALPHA / RANK)


def read_model(path: Path) -> tuple[TinyLlama, Tokenizer]:
    """Return the committed model, as its file has it, and its tokenizer."""
    reader = gguf.GGUFReader(path)
    model = TinyLlama()
    weights = {
        tensor.name: torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        for tensor in reader.tensors
    }
    model.load_state_dict(weights)
    model.requires_grad_(False)
    model.eval()  # no dropout: the adapters are small against their corpora
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = reader.fields["tokenizer.ggml.merges"].contents()
    description = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": tokens.index(END_OF_TEXT), "content": END_OF_TEXT, "special": True,
                "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            }
        ],
        "pre_tokenizer": {
            "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True
        },
        "decoder": {
            "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True
        },
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in merges],
        },
    }  # fmt: skip
    return model, Tokenizer.from_str(json.dumps(description))


def read_corpus(name: str) -> list[str]:
    """Return the documents of one adapter."""
    corpus = CORPORA[name]
    documents = [path.read_text(encoding="utf-8") for path in sorted(STDLIB.glob(corpus.files))]
    digest = hashlib.sha256("\n".join(documents).encode()).hexdigest()
    characters = sum(map(len, documents))
    print(
        f"{name}: {corpus.files} of Python {platform.python_version()}, {len(documents)} files, "
        f"{characters} characters, sha256 {digest}"
    )
    if digest != corpus.sha256:
        print(f"{name}: differs from the committed adapter's; the result will differ too")
    return documents


def split_blocks(documents: list[str], tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """Return (training tokens, validation blocks)."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    stream = [token for text in documents for token in [*tokenizer.encode(text).ids, end]]
    count = len(stream) // BLOCK
    blocks = torch.tensor(stream[: count * BLOCK]).view(count, BLOCK)
    held_out = torch.arange(count) % VALIDATION_EVERY == VALIDATION_EVERY - 1
    return blocks[~held_out].flatten(), blocks[held_out]


def adapt(model: TinyLlama) -> dict[str, Adapted]:
    """Put an adapter at every projection of every layer; return them by their tensor's name."""
    adapted = {}
    for number, block in enumerate(model.blk):
        for name, inner in list(block.named_children()):
            if isinstance(inner, nn.Linear):
                adapted[f"blk.{number}.{name}.weight"] = Adapted(inner)
                setattr(block, name, adapted[f"blk.{number}.{name}.weight"])
    return adapted


@torch.no_grad()
def mean_loss(model: TinyLlama, blocks: Tensor) -> float:
    """Return the mean loss over blocks of equal length."""
    return sum(float(loss_of(model, part)) * len(part) for part in blocks.split(16)) / len(blocks)


def train(model: TinyLlama, adapted: dict[str, Adapted], tokens: Tensor, steps: int) -> None:
    """Run all steps on random windows of the training tokens."""
    weights = [w for one in adapted.values() for w in (one.lora_a, one.lora_b)]
    optimizer = torch.optim.AdamW(weights, betas=(0.9, 0.95), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_LEARNING_RATE, total_steps=steps, pct_start=WARMUP_SHARE,
        cycle_momentum=False,
    )  # fmt: skip
    windows = tokens.unfold(0, WINDOW + 1, 1)
    draw = torch.Generator().manual_seed(SEED)
    for _ in range(steps):
        loss = loss_of(model, windows[torch.randint(len(windows), (BATCH,), generator=draw)])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, GRADIENT_CLIP)
        optimizer.step()
        schedule.step()


def write_gguf(name: str, adapted: dict[str, Adapted], path: Path) -> None:
    """Write one adapter as llama.cpp reads it, in F16."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_name(f"tiny-docs {name}")
    writer.add_license("apache-2.0")
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, ALPHA)
    for tensor, one in adapted.items():
        writer.add_tensor(f"{tensor}.lora_a", one.lora_a.detach().half().numpy())
        writer.add_tensor(f"{tensor}.lora_b", one.lora_b.detach().half().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Train each adapter on one thread and write its file."""
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "adapters"
    torch.set_num_threads(1)  # one thread sums in one order
    torch.use_deterministic_algorithms(True)
    for name in CORPORA:
        started = time.process_time()  # wall time says little on a shared machine
        torch.manual_seed(SEED)
        model, tokenizer = read_model(FOLDER / "tiny-docs.gguf")
        tokens, validation = split_blocks(read_corpus(name), tokenizer)
        before = mean_loss(model, validation)
        adapted = adapt(model)
        train(model, adapted, tokens, CORPORA[name].steps)
        path = output / f"{name}.gguf"
        write_gguf(name, adapted, path)
        print(
            f"{name}: {len(tokens)} tokens, {validation.numel()} held out; validation "
            f"{before:.3f} without, {mean_loss(model, validation):.3f} with the adapter; "
            f"{(time.process_time() - started) / 60:.1f} CPU minutes; {path.stat().st_size} bytes, "
            f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}",
            flush=True,
        )


if __name__ == "__main__":
    main()
