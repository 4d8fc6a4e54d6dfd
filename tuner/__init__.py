"""Finds the launch flags with which a local LLM engine is fastest on this machine, by measuring the real server."""

__version__ = "0.1.0"
