"""SGLang: the adapter. `ENGINE` is what `tuner.wiring` finds by the module's name."""

from tuner.engines.sglang.engine import Sglang

ENGINE = Sglang
