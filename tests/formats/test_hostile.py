"""Reading takes time and memory in proportion to the text, within a budget that `dalembert.formats` states."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dalembert import formats

sys.path.insert(0, str(Path(__file__).parent))
import hostile

SECONDS, MEGABYTES = 20.0, 1500.0  # for the largest file; a quiet machine needs less than half


@pytest.mark.parametrize("name", hostile.TEXTS)
def test_a_small_one_is_read_at_once(name):
    seconds, result = hostile.read(name, 100_000)
    assert seconds < 2.0, result[:200]
    assert len(result) < 2000, result[:200]  # a message, not a list of everything


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile.TEXTS)
def test_the_largest_one_stays_within_the_budget(name):
    program = [sys.executable, hostile.__file__, name, str(formats.MAX_BYTES - 2000)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=True)
    seconds, megabytes, result = json.loads(done.stdout)
    assert seconds < SECONDS, result[:200]
    assert megabytes < MEGABYTES, result[:200]
