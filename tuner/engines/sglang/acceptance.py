"""What speculation did for one request, in the spellings that SGLang's builds have used.

Newest: `spec_num_proposed_drafts` and `spec_num_correct_drafts`. Before: `spec_draft_token_num`,
`spec_accept_token_num` or `spec_accepted_tokens`. Older: `spec_verify_ct` alone, the number of verifications. Each
verification gives the accepted drafts and one token more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DRAFTED = ("spec_num_proposed_drafts", "spec_draft_token_num", "spec_draft_tokens")
_ACCEPTED = ("spec_num_correct_drafts", "spec_accept_token_num", "spec_accepted_tokens")


def draft_tokens(meta: Mapping[str, Any], drafts_a_verification: int | None) -> tuple[int | None, int | None]:
    """Draft tokens proposed and accepted; (None, None) where the request's `meta_info` tells of no speculation.

    `drafts_a_verification` are those that the server proposes at once, for builds that count verifications only.
    """
    verified = meta.get("spec_verify_ct") or 0
    generated = meta.get("completion_tokens") or 0
    accepted = _first(meta, _ACCEPTED)
    drafted = _first(meta, _DRAFTED)
    if not verified and drafted is None:
        return None, None
    if accepted is None and verified:
        # The first token comes from the prompt, before anything is drafted.
        accepted = max(0, generated - 1 - verified)
    if drafts_a_verification and verified:
        # Builds in between counted the token that is given in any case as a draft.
        exact = verified * drafts_a_verification
        drafted = exact if drafted is None or drafted > exact else drafted
    if drafted is None:
        rate = meta.get("spec_accept_rate")
        drafted = round(accepted / rate) if rate and accepted is not None else None
    return drafted, None if accepted is None or drafted is None else min(accepted, drafted)


def _first(meta: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((int(meta[name]) for name in names if meta.get(name) is not None), None)
