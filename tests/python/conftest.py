import contextlib
import functools
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Beside the other tests: two threads measure and compile already.
os.environ.setdefault("OMP_NUM_THREADS", "2")
# What a test compiles is its own, whatever another build left in the user's cache.
os.environ["LOOPWRIGHT_CACHE"] = "off"
os.environ.pop("LOOPWRIGHT_RECORD", None)


@pytest.fixture
def examples():
    return ROOT / "examples"


@functools.cache
def why_not(device):
    """Why nothing can run on `device` here, or None."""
    import loopwright

    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            return "torch finds no GPU"
    try:
        loopwright.load(loopwright.Graph.parse("graph g\ninput x: f32[2]\ny = neg(x)\noutput y"), device=device)
    except loopwright.Unsupported as error:
        return str(error)
    return None


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """Each in turn is where torch makes tensors during the test."""
    if reason := why_not(request.param):
        pytest.skip(reason)
    import torch

    with contextlib.nullcontext() if request.param == "cpu" else torch.device(request.param):
        yield request.param


def pytest_report_header():
    try:
        import torch

        return f"torch {torch.__version__}"
    except ImportError as error:
        return f"torch cannot be imported, its tests are skipped: {error}"


sys.dont_write_bytecode = True
