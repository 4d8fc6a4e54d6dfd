"""Writes tiny, synthetic GGUF models that a real llama-server loads, runs and speculates with.

The weights are random but not meaningless: every token is embedded as a random vector, and the output row of its
successor points along it, so greedy decoding walks one fixed ring of printable tokens. The ring depends on the
vocabulary and the seed alone, so models of any size and architecture made with one seed agree on it. A drafter (an MTP
layer, or a smaller model for `--model-draft`) is right about as often as `agree` says: at the other tokens it prefers
a wrong successor. Blocks add a little noise that depends on the context, so attention, the KV cache and the recurrent
state are really computed.

Needs numpy and gguf. The same arguments give the same bytes, for one release of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SPACE = "\u0120"  # how byte-level BPE writes a space
FULL_VOCAB = 256 + 26 + 26 * 26 + len(SPECIAL)
HEAD_DIM = 64  # a multiple of 32, so that every KV cache type divides it
SHARPNESS = 12.0  # logit of the next token
NOISE = 0.05  # what a block adds, relative to its input
Q8_0 = gguf.GGMLQuantizationType.Q8_0

Array = np.ndarray[Any, np.dtype[np.float32]]


def write_tiny_gguf(
    path: Path | str,
    *,
    arch: Literal["llama", "qwen35"] = "llama",
    layers: int = 4,
    embd: int = 128,
    mtp: int = 0,
    agree: float | None = None,
    context: int = 131072,
    vocab: int = FULL_VOCAB,
    seed: int = 1,
) -> Path:
    """Write a model to `path` and return it.

    `qwen35` is a hybrid (three recurrent layers, then one with attention) and may carry one MTP layer. `embd` is a
    multiple of 64. `agree` is the share of tokens the drafter gets right: the MTP layer where there is one (0.8 unless
    given), else the model itself (1.0). `vocab` below the full size leaves merges out: a vocabulary of another model.
    Raises ValueError for what llama-server could not load.
    """
    if embd % HEAD_DIM or embd < HEAD_DIM:
        raise ValueError(f"embd must be a multiple of {HEAD_DIM}, not {embd}")
    if mtp and (arch != "qwen35" or mtp > 1):
        raise ValueError("only qwen35 can carry an MTP layer, and one at most")
    if not 300 <= vocab <= FULL_VOCAB:
        raise ValueError(f"vocab must lie between 300 and {FULL_VOCAB}, not {vocab}")
    agree = agree if agree is not None else 0.8 if mtp else 1.0
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_name(f"tiny {arch} {layers}x{embd}")
    words = _vocabulary(writer, vocab)
    model = _Model(writer, arch, layers, embd, mtp, agree, context, len(words), seed, np.random.default_rng([seed, 2]))
    model.metadata()
    model.tensors(words)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def _vocabulary(writer: Any, size: int) -> list[str]:
    """A byte-level BPE: all bytes, and merges of a space or a letter with a letter. Returns the words in order."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    alphabet = [chr(byte if byte in plain else next(spare)) for byte in range(256)]
    merges = [f"{SPACE} {a}" for a in LETTERS] + [f"{a} {b}" for a in LETTERS for b in LETTERS]
    merges = merges[: size - len(alphabet) - len(SPECIAL)]
    words = alphabet + [merge.replace(" ", "") for merge in merges]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*words, *SPECIAL])
    writer.add_token_types([gguf.TokenType.NORMAL] * len(words) + [gguf.TokenType.CONTROL] * len(SPECIAL))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(len(words))
    writer.add_eos_token_id(len(words))
    writer.add_add_bos_token(False)
    return [*words, *SPECIAL]


@dataclass
class _Model:
    """Collects the metadata and tensors of one model."""

    writer: Any
    arch: str
    layers: int
    embd: int
    mtp: int
    agree: float
    context: int
    vocab: int
    seed: int
    rng: np.random.Generator

    @property
    def heads(self) -> int:
        return max(2, self.embd // HEAD_DIM)

    @property
    def heads_kv(self) -> int:
        return self.heads // 2 if self.heads % 2 == 0 else self.heads

    def metadata(self) -> None:
        for key, value in {
            "context_length": self.context, "embedding_length": self.embd, "block_count": self.layers + self.mtp,
            "feed_forward_length": 2 * self.embd, "vocab_size": self.vocab, "attention.head_count": self.heads,
            "attention.head_count_kv": self.heads_kv, "attention.key_length": HEAD_DIM,
            "attention.value_length": HEAD_DIM, "rope.dimension_count": HEAD_DIM,
        }.items():  # fmt: skip
            self.writer.add_uint32(f"{self.arch}.{key}", value)
        self.writer.add_float32(f"{self.arch}.attention.layer_norm_rms_epsilon", 1e-6)
        self.writer.add_float32(f"{self.arch}.rope.freq_base", 1e6)
        if self.mtp:
            self.writer.add_uint32(f"{self.arch}.nextn_predict_layers", self.mtp)
        if self.arch == "qwen35":
            third = HEAD_DIM // 2 // 3
            self.writer.add_array(f"{self.arch}.rope.dimension_sections", [HEAD_DIM // 2 - 2 * third, third, third, 0])
            self.writer.add_uint32(f"{self.arch}.full_attention_interval", 4)
            for key, value in {"conv_kernel": 4, "state_size": HEAD_DIM, "group_count": self.heads_kv,
                               "time_step_rank": self.heads, "inner_size": self.heads * HEAD_DIM}.items():  # fmt: skip
                self.writer.add_uint32(f"{self.arch}.ssm.{key}", value)

    def tensors(self, words: list[str]) -> None:
        rng = np.random.default_rng([self.seed, 1])
        printable = [
            i for i, word in enumerate(words) if word not in SPECIAL and all(" " < c <= "~" or c == SPACE for c in word)
        ]
        ring = rng.permutation(printable)
        place = rng.integers(len(ring), size=self.vocab)  # tokens outside the ring act like one of it
        place[ring] = np.arange(len(ring))
        embedding = self.rng.standard_normal((len(ring), self.embd), np.float32)
        embedding[:, 0] = 1  # the same for all, see _head
        self._put("token_embd.weight", embedding[place])
        self._ones("output_norm.weight", self.embd)
        self._put("output.weight", self._head(ring, embedding, 1.0 if self.mtp else self.agree))
        for i in range(self.layers + self.mtp):
            self._block(i, nextn=i >= self.layers)
            if i >= self.layers:
                state = self._random(self.embd, self.embd, scale=NOISE)
                self._put(f"blk.{i}.nextn.eh_proj.weight", np.hstack([np.eye(self.embd, dtype=np.float32), state]))
                for name in ("enorm", "hnorm", "shared_head_norm"):
                    self._ones(f"blk.{i}.nextn.{name}.weight", self.embd)
                self._put(f"blk.{i}.nextn.shared_head_head.weight", self._head(ring, embedding, self.agree))

    def _head(self, ring: Any, embedding: Array, agree: float) -> Array:
        """Output rows: each token's successor along its own embedding; where it errs, another one is preferred."""
        rng = np.random.default_rng([self.seed, 3])
        wrong = rng.random(len(ring)) >= agree
        share = np.where(wrong, rng.uniform(0.55, 0.75, len(ring)), 0.0).astype(np.float32)[:, None]
        rows = np.zeros((self.vocab, self.embd), np.float32)
        rows[np.roll(ring, -1)] = (1 - share) * embedding
        rows[rng.permutation(ring)] += share * embedding
        rows[:, 0] = -self.embd  # never a control token or a stray byte
        rows[ring, 0] = 0
        return rows * np.float32(SHARPNESS / self.embd)

    def _block(self, i: int, nextn: bool) -> None:
        name = f"blk.{i}"
        hybrid = self.arch == "qwen35"
        self._ones(f"{name}.attn_norm.weight", self.embd)
        if hybrid and not nextn and (i + 1) % 4:
            self._recurrent(name)
        else:
            self._attention(name, hybrid)
        self._ones(f"{name}.{'post_attention_norm' if hybrid else 'ffn_norm'}.weight", self.embd)
        self._put(f"{name}.ffn_gate.weight", self._random(2 * self.embd, self.embd))
        self._put(f"{name}.ffn_up.weight", self._random(2 * self.embd, self.embd))
        self._put(f"{name}.ffn_down.weight", self._random(self.embd, 2 * self.embd, scale=NOISE))

    def _attention(self, name: str, hybrid: bool) -> None:
        query, key = self.heads * HEAD_DIM, self.heads_kv * HEAD_DIM
        self._put(
            f"{name}.attn_q.weight", self._random(query * (2 if hybrid else 1), self.embd)
        )  # a gate for each head
        self._put(f"{name}.attn_k.weight", self._random(key, self.embd))
        self._put(f"{name}.attn_v.weight", self._random(key, self.embd))
        if hybrid:
            self._ones(f"{name}.attn_q_norm.weight", HEAD_DIM)
            self._ones(f"{name}.attn_k_norm.weight", HEAD_DIM)
        self._put(f"{name}.attn_output.weight", self._random(self.embd, query, scale=NOISE))

    def _recurrent(self, name: str) -> None:
        value, key = self.heads * HEAD_DIM, self.heads_kv * HEAD_DIM
        self._put(f"{name}.attn_qkv.weight", self._random(value + 2 * key, self.embd))
        self._put(f"{name}.attn_gate.weight", self._random(value, self.embd))
        self._put(f"{name}.ssm_conv1d.weight", self._random(value + 2 * key, 4), plain=True)
        self._put(f"{name}.ssm_dt.bias", np.zeros(self.heads, np.float32))
        self._put(f"{name}.ssm_a", -np.linspace(0.05, 1.0, self.heads, dtype=np.float32))
        self._put(f"{name}.ssm_alpha.weight", self._random(self.heads, self.embd))
        self._put(f"{name}.ssm_beta.weight", self._random(self.heads, self.embd))
        self._ones(f"{name}.ssm_norm.weight", HEAD_DIM)
        # Plain: a quantised ssm_out, repacked for the CPU, gave NaN with several sequences at once (b10434).
        self._put(f"{name}.ssm_out.weight", self._random(self.embd, value, scale=NOISE), plain=True)

    def _random(self, *shape: int, scale: float = 1.0) -> Array:
        """Weights that keep the size of what they multiply, times `scale`."""
        return self.rng.standard_normal(shape, np.float32) * np.float32(scale / shape[-1] ** 0.5)

    def _ones(self, name: str, size: int) -> None:
        self._put(name, np.ones(size, np.float32))

    def _put(self, name: str, data: Array, plain: bool = False) -> None:
        data = np.ascontiguousarray(data, np.float32)
        if plain or data.ndim < 2:
            self.writer.add_tensor(name, data)
        else:
            self.writer.add_tensor(name, gguf.quants.quantize(data, Q8_0), raw_dtype=Q8_0)
