"""A model's folder in Hugging Face's layout, without a model in it: enough for what only reads `config.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_model_folder(
    folder: Path, *, layers: int = 2, context: int = 8192, mtp: int = 0, recurrent: int = 0, **more: Any
) -> Path:
    """A folder with a configuration and a file of weights; `recurrent` layers keep a state and no cache."""
    folder.mkdir(parents=True)
    kinds = ["linear_attention"] * recurrent + ["full_attention"] * (layers - recurrent)
    config = {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5", "num_hidden_layers": layers,
        "max_position_embeddings": context, "layer_types": kinds, "dtype": "bfloat16",
        **({"mtp_num_hidden_layers": mtp} if mtp else {}), **more,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(bytes(4096))
    return folder
