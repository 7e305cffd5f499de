"""torch's own samples of each covered op. LOOPWRIGHT_OPINFO=all runs all of them, which takes an hour;
LOOPWRIGHT_OPINFO_PART=k/n a part of the ops."""
import os
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
import opinfo  # noqa: E402

MOST = opinfo.MOST_SAMPLES if os.environ.get("LOOPWRIGHT_OPINFO") == "all" else opinfo.FEW_SAMPLES
PART, PARTS = map(int, os.environ.get("LOOPWRIGHT_OPINFO_PART", "0/1").split("/"))
OPS = opinfo.find_ops()


@pytest.mark.parametrize("name", opinfo.read_table()[PART::PARTS])
def test_samples_agree_with_eager(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count, differing, reasons = opinfo.run_op(name, OPS[name], MOST)
    assert not differing, "\n".join(differing)
    assert count, f"nothing is covered any more: {dict(reasons)}"
