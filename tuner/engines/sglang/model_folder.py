"""Reads what a model folder in Hugging Face's layout says of itself, without touching its weights.

`config.json` has the architecture, in multimodal models inside `text_config`; the weights' files give the size.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from tuner.domain.errors import MissingFile
from tuner.domain.facts import ModelFacts

_WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")
_GET = "download the whole model first (`hf download NAME`), and name its folder, or its name on the Hub"
_CONTEXT = ("max_position_embeddings", "max_sequence_length", "seq_length", "n_positions", "model_max_length")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts")
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers", "n_predict")
_RECURRENT = ("linear_attention", "mamba", "recurrent", "gated_delta")


def find_model(named: str) -> Path:
    """A model's folder: as it is named, or the newest download of that name in the Hugging Face cache of this machine.

    Nothing is downloaded.

    Raises:
        MissingFile: there is neither.
    """
    if Path(named).exists():
        return Path(named)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", named):
        downloads = _cache() / f"models--{named.replace('/', '--')}" / "snapshots"
        found = [folder for folder in downloads.glob("*") if (folder / "config.json").exists()]
        if found:
            return max(found, key=lambda folder: folder.stat().st_mtime)
    raise MissingFile(f"There is no model {named} on this machine", advice=_GET)


def _cache() -> Path:
    """Where Hugging Face's programs keep their downloads."""
    if own := os.environ.get("HF_HUB_CACHE"):
        return Path(own)
    home = os.environ.get("HF_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "huggingface") / "hub"


def read_model(path: Path) -> ModelFacts:
    """The facts of a model folder.

    Raises:
        MissingFile: it is no folder, or its `config.json` is not there or cannot be read.
    """
    if not path.is_dir():
        what = "is a file: SGLang takes a model's folder" if path.exists() else "is not there"
        raise MissingFile(f"The model folder {what}", where=str(path), advice=_GET)
    try:
        whole: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
        text: dict[str, Any] = {**whole, **whole.get("text_config", {})}
    except FileNotFoundError:
        raise MissingFile("The model folder has no config.json", where=str(path), advice=_GET) from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise MissingFile(f"The model's config.json cannot be read: {error}", where=str(path), advice=_GET) from error
    size = sum(file.stat().st_size for file in path.iterdir() if file.suffix in _WEIGHTS)
    if not size:
        raise MissingFile("The model folder holds no weights", where=str(path), advice=_GET)
    architectures = text.get("architectures") or [text.get("model_type", "unknown")]
    kinds = [str(kind) for kind in text.get("layer_types") or text.get("layers_block_type") or ()]
    return ModelFacts(
        path=str(path),
        name=path.name,
        architecture=str(architectures[0]),
        size_bytes=size,
        trained_context=_number(text, _CONTEXT),
        layers=_number(text, ("num_hidden_layers", "n_layer", "num_layers")),
        mtp_layers=_number(text, _MTP) or 0,
        experts=_number(text, _EXPERTS) or 0,
        quantisation=_quantisation(whole),
        recurrent_layers=sum(any(word in kind for word in _RECURRENT) for kind in kinds) if kinds else None,
    )


def _number(config: dict[str, Any], names: tuple[str, ...]) -> int | None:
    found = (config.get(name) for name in names)
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool)), None)


def _quantisation(config: dict[str, Any]) -> str | None:
    told = config.get("quantization_config") or {}
    bits = told.get("bits") or told.get("w_bit")
    method = told.get("quant_method")
    if method:
        return f"{method} {bits} bit" if bits else str(method)
    dtype = config.get("dtype") or config.get("torch_dtype")
    return str(dtype) if dtype else None
