"""Cost models that a tuning session trains on the records of its log (docs/tuning.md).

A cost model has the methods of `CostModel` in tuner/cost_model.h: `fit(rows, values)` and
`predict(rows)`. It is trained anew in each session, so that no log and no file has one.
"""

from .errors import Error

GAUSSIAN, TREES = "gaussian", "trees"
COST_MODELS = (GAUSSIAN, TREES)


class BoostedTrees:
    """Gradient-boosted trees, by LightGBM. The same rows and seed give the same predictions."""

    _ROUNDS = 200

    def __init__(self, seed):
        try:
            import lightgbm
        except ImportError:
            raise Error(
                f"the cost model {TREES!r} is made by the package lightgbm, which is not installed "
                "here: pip install 'tc-compiler[lab]'; the search works without it "
                f"(cost_model={GAUSSIAN!r})"
            ) from None
        self._library, self._trained = lightgbm, None
        self._options = {
            "objective": "regression",
            "num_leaves": 31,
            "min_data_in_leaf": 5,
            "learning_rate": 0.08,
            "seed": seed % 2**31,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        }

    def fit(self, rows, values):
        import numpy

        # What matters is which schedules are fast, not how slow the slow ones are.
        weights = numpy.exp(-numpy.array(values))
        data = self._library.Dataset(numpy.array(rows), numpy.array(values), weight=weights)
        self._trained = self._library.train(self._options, data, self._ROUNDS)

    def predict(self, rows):
        import numpy

        return self._trained.predict(numpy.array(rows), num_threads=1).tolist()


def cost_model_of(name, seed):
    """The cost model of that name; None for the Gaussian process, which every search has."""
    if name not in COST_MODELS:
        known = " or ".join(repr(each) for each in COST_MODELS)
        raise Error(f"cost_model is {name!r}; give {known}")
    return BoostedTrees(seed) if name == TREES else None
