import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Beside the other tests: two threads measure and compile already.
os.environ.setdefault("OMP_NUM_THREADS", "2")


@pytest.fixture
def examples():
    return ROOT / "examples"


def pytest_report_header():
    try:
        import torch

        return f"torch {torch.__version__}"
    except ImportError as error:
        return f"torch cannot be imported, its tests are skipped: {error}"


sys.dont_write_bytecode = True
