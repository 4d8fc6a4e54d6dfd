"""Whole studies run on a bench."""

from tests.bench import bench, tiny_model

__all__ = ["bench", "tiny_model"]
