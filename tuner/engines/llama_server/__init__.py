"""llama.cpp's llama-server: the adapter. `ENGINE` is what `tuner.wiring` finds by the module's name."""

from tuner.engines.llama_server.engine import LlamaServer

ENGINE = LlamaServer
