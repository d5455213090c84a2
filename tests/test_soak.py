"""Right, wrong and hostile submissions in a row through one zygote leave nothing behind in it or in the grader."""

from __future__ import annotations

import sys

import pytest
import soaking

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a zygote"),
]
COUNT = 60
WARM_UP = 25


def test_nothing_grows() -> None:
    before, after, verdicts = soaking.soak(COUNT, WARM_UP)
    assert sum(verdicts.values()) == COUNT + WARM_UP and len(verdicts) >= 4
    assert after.descriptors == before.descriptors
    assert after.threads == before.threads
    assert after.zygote_descriptors == before.zygote_descriptors
    # Ended and waited for: not even a zombie.
    assert after.workers == 0
    # References remember their answers, of each seed and case once; a submission's own results are let go.
    assert after.grader_kb - before.grader_kb < 12_000
    assert after.zygote_kb - before.zygote_kb < 2_000
