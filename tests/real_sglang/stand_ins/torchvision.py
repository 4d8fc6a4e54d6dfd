"""Stands in for torchvision, which SGLang and transformers import for pictures that no test sends."""

import enum
import importlib.abc
import importlib.machinery
import sys
import types

__version__ = "0.0"
__path__: list[str] = []


class _Empty(types.ModuleType):
    """A module that has whatever is asked of it."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[:1].isupper():
            made: object = type(name, (), {"__init__": lambda *_given, **_named: None})
        else:
            made = _unusable
        setattr(self, name, made)
        return made


def _unusable(*_given: object, **_named: object) -> None:
    raise RuntimeError("the stand-in for torchvision has no pictures")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def] # noqa: ARG002
        if name.startswith("torchvision."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        module = _Empty(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        modes = ("nearest", "nearest-exact", "bilinear", "bicubic", "box", "hamming", "lanczos")
        module.InterpolationMode = enum.Enum(
            "InterpolationMode", {mode.upper().replace("-", "_"): mode for mode in modes}
        )


sys.meta_path.insert(0, _Finder())
