"""The example learns: a few rounds already balance what the untrained network drops."""

import importlib.util

import pytest

from dalembert.cli import example_files

torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")


def test_learn_policy():
    path = next(p for p in example_files() if p.stem == "learn_policy")
    spec = importlib.util.spec_from_file_location("learn_policy", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    system, law, history = example.learn(rounds=60, batch=24)
    torch.manual_seed(3)
    starts = example.starts(50, angle=0.3)
    with torch.no_grad():
        after = example.costs(*example.episodes(system, law, starts)).median()
        before = example.costs(*example.episodes(system, example.learned(example.network()), starts)).median()
    assert len(history) == 60
    assert after < 0.2 * before
