"""Times of the layer, in processor time so that other programs disturb less; run by `pytest -m bench`."""

import time

import pytest

import dalembert.trep as trep

from .systems import marionette, pendulum, walk

TREP_STEP, TREP_DERIVATIVES = 1.4e-3, 0.66e-3  # seconds, recorded for the marionette


def best(run, repeats=5):
    """Least processor time of several runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.bench
def test_marionette_with_linearization_is_15_times_faster_than_trep():
    puppet = marionette()
    q0 = puppet.q
    mvi = trep.MidpointVI(puppet)
    strings = [walk(puppet, q0[22:], 0.01 * k) for k in range(1000)]

    def run():
        mvi.initialize_from_configs(0.0, q0, 0.01, q0)
        for k in range(1000):
            mvi.step(0.01 * (k + 2), (), strings[k])
            for name in ("q2_dq1", "q2_dp1", "q2_dk2", "p2_dq1", "p2_dp1", "p2_dk2"):
                getattr(mvi, name)()

    each = best(run) / 1000
    print(f"step with linearization: {each * 1e6:.1f} us, {(TREP_STEP + TREP_DERIVATIVES) / each:.1f} times faster")
    assert each * 15 < TREP_STEP + TREP_DERIVATIVES


@pytest.mark.bench
def test_overhead_of_a_step():
    system = pendulum()
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_state(0.0, [0.2], [0.5])
    mvi.step(0.01, (0.1,))
    d, n = system._dynamics(), 2000
    options = d.options(200, mvi.tolerance)

    def layer():
        mvi.initialize_from_state(0.0, [0.2], [0.5])
        for k in range(n):
            mvi.step(0.01 * (k + 1), (0.1,))

    def core():
        q, p, u, lam = mvi._q2, mvi._p2, mvi._u1, mvi._lambda1
        for _ in range(n):
            q, p, *_ = d.core.step(options, 0.01, q, p, u, q, lam)

    overhead = (best(layer) - best(core)) / n
    print(f"overhead of the layer: {overhead * 1e6:.1f} us per step")
    assert overhead < 20e-6
