"""One module or package an engine: its flags, its HTTP routes, its logs. The name of the module is the registry.

Nothing outside an engine's own files knows what that engine's flags are called or what its log says.
"""

DEFAULT = "llama_server"
"""What a command that says nothing of the engine is taken for."""
