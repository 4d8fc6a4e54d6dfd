"""What the contract of engines asks of SGLang, fake or real."""

from tuner.domain.space import Parameter, SearchSpace

SPACE = SearchSpace(
    engine="sglang",
    parameters=(
        Parameter(
            name="context_length", about="x", flag="--context-length", choices=(2048,), default=2048, role="context"
        ),
        Parameter(
            name="max_running_requests", about="x", flag="--max-running-requests", choices=(2,), default=2,
            role="streams",
        ),
        Parameter(
            name="max_total_tokens", about="x", flag="--max-total-tokens", choices=(8192,), default=8192,
        ),
        Parameter(
            name="disable_overlap_schedule", about="x", target="switch", flag="--disable-overlap-schedule",
            choices=(False, True), default=True,
        ),
    ),
)  # fmt: skip
VALUES = {
    "context_length": 2048,
    "max_running_requests": 2,
    "max_total_tokens": 8192,
    "disable_overlap_schedule": True,
}
