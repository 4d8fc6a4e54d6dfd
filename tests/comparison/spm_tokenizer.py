"""A GGUF file's own tokenizer as a `tokenizer.json`, for clients that count tokens themselves.

For SentencePiece models of the kind that llama.cpp calls `llama` (Gemma among them): pieces are joined in the order of
their scores. The merges follow from the pieces, as in the converters of the transformers library.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gguf import GGUFReader

_CONTROL, _USER_DEFINED = 3, 4


def write_tokenizer(model: Path, folder: Path) -> None:
    """Writes `tokenizer.json` into `folder`. Raises ValueError for a model with another kind of tokenizer."""
    fields = GGUFReader(model).fields
    kind = fields["tokenizer.ggml.model"].contents()
    if kind != "llama":
        raise ValueError(f"the tokenizer is of the kind {kind}: name a folder with its tokenizer.json")
    pieces: list[str] = fields["tokenizer.ggml.tokens"].contents()
    scores: list[float] = fields["tokenizer.ggml.scores"].contents()
    types: list[int] = fields["tokenizer.ggml.token_type"].contents()
    content = _json(pieces, scores, types)
    (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _json(pieces: list[str], scores: list[float], types: list[int]) -> dict[str, Any]:
    added = [
        {"id": place, "content": piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": types[place] == _CONTROL}
        for place, piece in enumerate(pieces) if types[place] in (_CONTROL, _USER_DEFINED)
    ]  # fmt: skip
    space = {"String": " "}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": space, "content": "\u2581"},
        "pre_tokenizer": {"type": "Split", "pattern": space, "behavior": "MergedWithPrevious", "invert": False},
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
            "vocab": {piece: place for place, piece in enumerate(pieces)}, "merges": _merges(pieces, scores),
        },
    }  # fmt: skip


def _merges(pieces: list[str], scores: list[float]) -> list[list[str]]:
    """Every way to join two pieces into a third, the best third first."""
    place = {piece: number for number, piece in enumerate(pieces)}
    found = []
    for number, piece in enumerate(pieces):
        halves = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
        known = [(place[left], place[right]) for left, right in halves if left in place and right in place]
        found += [(-scores[number], number, left, right) for left, right in sorted(known)]
    return [[pieces[left], pieces[right]] for *_, left, right in sorted(found)]
