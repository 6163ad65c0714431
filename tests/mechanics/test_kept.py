"""Values kept with a model live as long as the model, and a model does not know of them."""

import gc
import pickle

import numpy as np

from dalembert import mechanics, models
from dalembert.mechanics.kept import Kept


def test_made_once_for_every_model_and_dropped_with_it():
    made = []
    kept = Kept(lambda model: made.append(model.name) or [model.nq])
    one, same = models.n_link(2), models.n_link(2)
    assert one == same
    assert kept(one) is kept(one)
    assert kept(one) is not kept(same)  # by identity, not by value
    assert made == ["n_link_2", "n_link_2"]
    for _ in range(100):  # numbers of objects are given again
        kept(models.n_link(1))
    del one
    gc.collect()
    assert len(kept._found) == 1
    assert kept(same) == [2]


def test_models_stay_as_they_are():
    model = models.n_link(3)
    before = set(vars(model))
    mechanics.mass_matrix(model, [0.1, 0.2, 0.3])
    mechanics.compiled_joints(model)
    assert set(vars(model)) == before
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(mechanics.mass_matrix(again, [0, 0, 0]), mechanics.mass_matrix(model, [0, 0, 0]))
