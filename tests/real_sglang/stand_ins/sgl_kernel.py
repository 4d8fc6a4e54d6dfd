"""Stands in for SGLang's compiled CPU kernels, which no registry has for this version: one in plain torch.

SGLang imports many of them by name and calls one of them for a dense text model without AVX-512.
"""

__version__ = "0.0"


def assign_req_to_token_pool_cpu(requests, pool, starts, ends, slots):  # type: ignore[no-untyped-def]
    """Writes each request's cache places into its row of the pool, in order."""
    done = 0
    for row, start, end in zip(requests.tolist(), starts.tolist(), ends.tolist(), strict=True):
        pool[row, start:end] = slots[done : done + end - start].to(pool.dtype)
        done += end - start


def __getattr__(name: str):  # type: ignore[no-untyped-def]
    if name.startswith("_") or not name.endswith("_cpu"):
        raise AttributeError(name)

    def missing(*_arguments, **_named):  # type: ignore[no-untyped-def]
        raise NotImplementedError(f"the stand-in for sgl_kernel has no {name}")

    return missing
