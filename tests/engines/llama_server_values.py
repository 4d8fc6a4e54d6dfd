"""What the contract of engines asks of llama-server, fake or real."""

from tuner.domain.space import Parameter, SearchSpace

SPACE = SearchSpace(
    engine="llama_server",
    parameters=(
        Parameter(name="ctx_size", about="x", flag="--ctx-size", choices=(4096,), default=4096, role="context"),
        Parameter(name="parallel", about="x", flag="--parallel", choices=(2,), default=2, role="streams"),
        Parameter(
            name="kv_unified", about="x", target="switch", flag="--kv-unified", off_flag="--no-kv-unified",
            choices=(False,), default=False,
        ),
        Parameter(name="spec_type", about="x", flag="--spec-type", choices=("none",), default="none"),
    ),
)  # fmt: skip
VALUES = {"ctx_size": 4096, "parallel": 2, "kv_unified": False, "spec_type": "none"}
