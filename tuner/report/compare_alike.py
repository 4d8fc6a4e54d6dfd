"""How cells were measured: only what was measured alike is set side by side."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

from tuner.domain.frozen import FrozenStudy
from tuner.domain.profile import Profile
from tuner.domain.workload import Content


@dataclass(frozen=True)
class How:
    """What must be the same for two figures to stand side by side, beside content, depth and streams.

    None: it does not matter for this figure.
    """

    texts: str | None = None
    """Fingerprint of the tuner's texts; `not recorded` in studies of older tuners."""
    tokens: int | None = None
    """Generated in each request."""
    sampling: str | None = None
    prompts: str | None = None
    """Fingerprint of the user's own prompts."""

    def unlike(self, other: How) -> str:
        """In what it differs from another one: `256 tokens an answer instead of 128`."""
        told = []
        for one in fields(self):
            ours, theirs = getattr(self, one.name), getattr(other, one.name)
            if ours != theirs:
                told.append(_TOLD[one.name].format(ours=ours, theirs=theirs))
        return ", ".join(told)

    def told(self) -> str:
        """For a row that others like it stand beside: `128 tokens an answer, greedy`."""
        tokens = None if self.tokens is None else f"{self.tokens} tokens an answer"
        texts = None if self.texts is None else f"texts {self.texts}"
        prompts = None if self.prompts is None else f"prompts {self.prompts}"
        return ", ".join(part for part in (tokens, self.sampling, texts, prompts) if part is not None)


_TOLD = {
    "texts": "other texts ({ours} instead of {theirs})",
    "tokens": "{ours} tokens an answer instead of {theirs}",
    "sampling": "sampling {ours} instead of {theirs}",
    "prompts": "other prompts of your own",
}


def how_prefilled(frozen: FrozenStudy) -> How:
    """For prefill: how long and how sampled an answer is does not touch it."""
    return How(texts=frozen.texts or "not recorded")


def how_decoded(frozen: FrozenStudy, content: Content) -> How:
    """For everything that comes from the generated tokens of a kind of text."""
    workload = frozen.workload
    own = content is Content.OWN
    return How(
        texts=frozen.texts or "not recorded",
        tokens=workload.predict_tokens,
        sampling=str(workload.sampling),
        prompts=prompts_fingerprint(frozen) if own else None,
    )


def how_scored(frozen: FrozenStudy, profile: Profile) -> How:
    """For a profile's score: everything that it weighs."""
    if not profile.decode:
        return how_prefilled(frozen)
    own = Content.OWN in profile.contents
    return how_decoded(frozen, Content.OWN if own else Content.CODE)


def prompts_fingerprint(frozen: FrozenStudy) -> str | None:
    """Of the user's own prompts; None where there are none."""
    if not frozen.workload.conversations:
        return None
    told = "\n".join(one.model_dump_json() for one in frozen.workload.conversations)
    return hashlib.sha256(told.encode()).hexdigest()[:12]
