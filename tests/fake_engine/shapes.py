"""The bodies of the fake server's answers: llama-server's keys, all of them, with plausible values."""

from __future__ import annotations

import time
from typing import Any

import answers
import vocabulary
from slots import Generation, Slots
from version import BUILD

TEMPLATE = (
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n{%- if add_generation_prompt -%}\n  {{- '<|im_start|>assistant\\n' -}}\n{%- endif -%}"
)
SAMPLERS = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]


def error(status: int, kind: str, message: str) -> dict[str, Any]:
    """An `error` object."""
    return {"error": {"message": message, "type": kind, "code": status}}


def _sampling(**changed: Any) -> dict[str, Any]:
    return {
        "seed": 4294967295, "temperature": 0.8, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "top_k": 40,
        "top_p": 0.95, "min_p": 0.05, "top_n_sigma": -1.0, "xtc_probability": 0.0, "xtc_threshold": 0.1,
        "typical_p": 1.0, "repeat_last_n": 64, "repeat_penalty": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "dry_multiplier": 0.0, "dry_base": 1.75,
        "dry_allowed_length": 2, "dry_penalty_last_n": -1, "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1,
        "max_tokens": -1, "n_predict": -1, "n_keep": 0, "n_discard": 0, "ignore_eos": False, "stream": False,
        "n_probs": 0,
        "min_keep": 0, "chat_format": "Content-only", "reasoning_format": "none", "reasoning_in_content": False,
        "generation_prompt": "", "samplers": SAMPLERS, "speculative.types": "none", "timings_per_token": False,
        "post_sampling_probs": False, "backend_sampling": False, "lora": [],
    } | changed  # fmt: skip


def props(alias: str, path: str, slots: Slots, metrics: bool, endpoint_slots: bool) -> dict[str, Any]:
    """`/props`."""
    caps = ("object_arguments", "parallel_tool_calls", "preserve_reasoning", "tool_calls", "tools", "typed_content")
    return {
        "default_generation_settings": {"params": _sampling(), "n_ctx": slots.context},
        "total_slots": len(slots.all), "model_alias": alias, "model_ftype": "(guessed) Q8_0", "model_path": path,
        "modalities": {"vision": False, "video": False, "audio": False}, "media_marker": "<__media__>",
        "endpoint_slots": endpoint_slots, "endpoint_props": False, "endpoint_metrics": metrics,
        "ui": True, "ui_settings": {},
        "chat_template": TEMPLATE,
        "chat_template_caps": {f"supports_{cap}": False for cap in caps}
        | {"supports_string_content": True, "supports_system_role": True},
        "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "build_info": BUILD, "is_sleeping": False,
        "cors_proxy_enabled": False,
    }  # fmt: skip


def slot_list(slots: Slots, speculative: bool) -> list[dict[str, Any]]:
    """`/slots`. `speculative` is what really runs, not what was asked for."""
    shown = []
    for slot in slots.all:
        entry: dict[str, Any] = {
            "id": slot.id,
            "n_ctx": slots.context,
            "speculative": speculative,
            "is_processing": slot.busy,
        }
        if slot.last_task:
            entry |= slot.last_task
            entry |= {"params": _sampling(), "next_token": [
                {"has_next_token": slot.busy, "has_new_line": False, "n_remain": 0, "n_decoded": 1}]}  # fmt: skip
        shown.append(entry)
    return shown


def metrics(slots: Slots) -> str:
    """`/metrics`, in Prometheus' text format."""
    totals, busy = slots.totals, slots.busy
    prompt_s, predicted_s = totals["prompt_ms"] / 1000, totals["predicted_ms"] / 1000
    rows = (
        ("prompt_tokens_total", "counter", totals["prompt_tokens"], "Number of prompt tokens processed."),
        ("prompt_seconds_total", "counter", prompt_s, "Prompt process time"),
        ("tokens_predicted_total", "counter", totals["predicted"], "Number of generation tokens processed."),
        ("tokens_predicted_seconds_total", "counter", predicted_s, "Predict process time"),
        ("n_decode_total", "counter", totals["predicted"], "Total number of llama_decode() calls"),
        ("n_tokens_max", "counter", totals["n_max"], "Largest observed n_tokens."),
        ("prompt_tokens_seconds", "gauge", totals["prompt_tokens"] / prompt_s if prompt_s else 0,
         "Average prompt throughput in tokens/s."),
        ("predicted_tokens_seconds", "gauge", totals["predicted"] / predicted_s if predicted_s else 0,
         "Average generation throughput in tokens/s."),
        ("requests_processing", "gauge", busy, "Number of requests processing."),
        ("requests_deferred", "gauge", 0, "Number of requests deferred."),
        ("n_busy_slots_per_decode", "gauge", busy, "Average number of busy slots per llama_decode() call"),
    )  # fmt: skip
    return "".join(
        f"# HELP llamacpp:{name} {about}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value:g}\n"
        for name, kind, value, about in rows
    )


def models(aliases: list[str], context: int, trained: int) -> dict[str, Any]:
    """`/v1/models`."""
    details = {
        "parent_model": "",
        "format": "gguf",
        "family": "",
        "families": [""],
        "parameter_size": "",
        "quantization_level": "",
    }
    empty = dict.fromkeys(("modified_at", "size", "digest", "description", "parameters"), "")
    meta = {"vocab_type": 2, "n_vocab": vocabulary.LIMIT, "n_ctx": context, "n_ctx_train": trained, "n_embd": 4096,
            "n_params": 9_000_000_000, "size": 9_000_000_000, "ftype": "(guessed) Q8_0"}  # fmt: skip
    return {
        "models": [empty | {"name": aliases[0], "model": aliases[0], "type": "model", "tags": [""],
                            "capabilities": ["completion"], "details": details}],
        "object": "list",
        "data": [{"id": aliases[0], "aliases": aliases, "tags": [], "object": "model", "created": int(time.time()),
                  "owned_by": "llamacpp", "meta": meta}],
    }  # fmt: skip


def chat_prompt(messages: list[dict[str, Any]]) -> str:
    """The chat template, applied. Content may be text or a list of text parts."""
    parts = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        parts.append(f"<|im_start|>{message['role']}\n{content}<|im_end|>\n")
    return "".join(parts) + "<|im_start|>assistant\n"


def chunk(task: Generation, token: int, text: str, chances: list[dict[str, Any]]) -> dict[str, Any]:
    """One event of a streamed `/completion`."""
    body = {"index": 0, "content": text, "tokens": [token], "stop": False, "id_slot": -1,
            "tokens_predicted": task.predicted, "tokens_evaluated": len(task.prompt)}  # fmt: skip
    return body | ({"completion_probabilities": [with_top(token, chances)]} if chances else {})


def with_top(token: int, chances: list[dict[str, Any]]) -> dict[str, Any]:
    """The chosen token with the most probable ones; without those its probability counts as one."""
    chosen = next((each for each in chances if each["id"] == token), answers.entry(token, 0.0))
    return chosen | {"top_logprobs": chances}


def final(task: Generation, request: dict[str, Any], alias: str, spec: tuple[str, ...], text: str) -> dict[str, Any]:
    """The last event of `/completion`, or its whole answer."""
    chosen = _sampling(
        max_tokens=task.n_predict, n_predict=task.n_predict, ignore_eos=task.ignore_eos, n_probs=task.n_probs,
        stream=bool(request.get("stream")), temperature=request.get("temperature", 0.8),
        seed=request.get("seed", 4294967295),
        stop=[], logit_bias=[], grammar="", grammar_lazy=False, grammar_triggers=[], preserved_tokens=[],
        dry_sequence_breakers=["\n", ":", '"', "*"], dry_penalty_last_n=64,
        **{"speculative.types": ",".join(("none", *spec))},
    )  # fmt: skip
    return {
        "index": 0, "content": text, "tokens": [], "id_slot": task.slot, "stop": True, "model": alias,
        "tokens_predicted": task.predicted, "tokens_evaluated": len(task.prompt), "generation_settings": chosen,
        "prompt": task.text, "has_new_line": "\n" in text, "truncated": task.truncated, "stop_type": task.stop_type,
        "stopping_word": "", "tokens_cached": len(task.prompt) + max(0, task.predicted - 1), "timings": task.timings(),
    }  # fmt: skip


def openai(
    task: Generation, alias: str, identity: str, kind: str, choice: dict[str, Any], last: bool
) -> dict[str, Any]:
    """One body of the OpenAI routes: the whole answer, or one event; `last` ones carry usage and timings."""
    ended = ("stop" if task.stop_type == "eos" else "length") if last else None
    body = {"choices": [{"index": 0, "finish_reason": ended} | choice], "created": int(time.time()), "model": alias,
            "system_fingerprint": BUILD, "object": kind, "id": identity}  # fmt: skip
    if last:
        if kind != "chat.completion.chunk":
            body["usage"] = usage(task)
        body["timings"] = task.timings()
    return body


def usage(task: Generation) -> dict[str, Any]:
    """The `usage` object."""
    prompt = len(task.prompt)
    return {"completion_tokens": task.predicted, "prompt_tokens": prompt, "total_tokens": prompt + task.predicted,
            "prompt_tokens_details": {"cached_tokens": task.cached}}  # fmt: skip
