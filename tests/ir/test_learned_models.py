"""Estimators of scikit-learn, XGBoost and LightGBM, exported to ONNX: equal to the libraries' own predictions."""

import numpy
import pytest

import tc

pytestmark = pytest.mark.full

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is not installed")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")

RANDOM = numpy.random.default_rng(0)
X = RANDOM.standard_normal((300, 7)).astype(numpy.float32)
TWO = (X[:, 0] + X[:, 1] ** 2 / 2 > 0.3).astype(numpy.int64)
THREE = numpy.digitize(X[:, 0] + X[:, 2], [-0.5, 0.5])
NUMBERS = X @ RANDOM.standard_normal(7) + numpy.sin(X[:, 0])


def estimators():
    """Name of a case: an estimator and what it is trained for."""
    from sklearn import ensemble, linear_model, naive_bayes, neural_network, svm, tree
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regressors = [linear_model.LinearRegression(), linear_model.Ridge(), linear_model.Lasso(0.1), linear_model.ElasticNet(0.1),
                  linear_model.BayesianRidge(), linear_model.HuberRegressor(), linear_model.Lars(), linear_model.LassoLars(0.01),
                  linear_model.SGDRegressor(random_state=0), linear_model.ARDRegression(), linear_model.TheilSenRegressor(random_state=0),
                  linear_model.OrthogonalMatchingPursuit(), tree.DecisionTreeRegressor(random_state=0),
                  tree.ExtraTreeRegressor(random_state=0), ensemble.RandomForestRegressor(20, random_state=0),
                  ensemble.ExtraTreesRegressor(20, random_state=0), ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0),
                  ensemble.BaggingRegressor(random_state=0),
                  svm.LinearSVR(), make_pipeline(StandardScaler(), linear_model.Ridge())]
    classifiers = [linear_model.LogisticRegression(), linear_model.SGDClassifier(random_state=0), linear_model.RidgeClassifier(),
                   linear_model.Perceptron(random_state=0), linear_model.PassiveAggressiveClassifier(random_state=0),
                   tree.DecisionTreeClassifier(random_state=0), ensemble.RandomForestClassifier(20, random_state=0),
                   ensemble.ExtraTreesClassifier(20, random_state=0), ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0),
                   ensemble.AdaBoostClassifier(random_state=0), ensemble.BaggingClassifier(random_state=0),
                   naive_bayes.GaussianNB(), neural_network.MLPClassifier((8,), max_iter=50, random_state=0), svm.LinearSVC(),
                   make_pipeline(StandardScaler(), linear_model.LogisticRegression())]
    for regressor in regressors:
        yield name_of(regressor), regressor, NUMBERS
    for classifier in classifiers:
        yield f"{name_of(classifier)}-2", classifier, TWO
        yield f"{name_of(classifier)}-3", classifier, THREE


def name_of(estimator):
    steps = getattr(estimator, "steps", None)
    return "+".join(type(step).__name__ for _, step in steps) if steps else type(estimator).__name__


def agrees(estimator, model, tolerance=1e-4):
    results = tc.compile(model.SerializeToString(), log=False)(X)
    results = results if isinstance(results, tuple) else (results,)
    predicted = estimator.predict(X)
    if not hasattr(estimator, "classes_"):
        scale = numpy.abs(predicted).max()
        assert numpy.abs(results[0].ravel() - predicted.ravel()).max() <= tolerance * scale
        return
    # Labels of samples that lie on a border may differ; scores may not.
    assert (results[0].ravel() == predicted).mean() >= 0.99
    if hasattr(estimator, "predict_proba"):
        assert numpy.abs(results[1] - estimator.predict_proba(X)).max() <= tolerance


@pytest.mark.parametrize("case", list(estimators()), ids=lambda case: case[0])
def test_scikit_learn(case):
    _, estimator, wanted = case
    estimator = sklearn.base.clone(estimator).fit(X, wanted)
    # The only classifier here of which no list of maps is exported.
    maps = hasattr(estimator, "classes_") and type(estimator).__name__ != "LinearSVC"
    options = {"zipmap": False} if maps else None
    agrees(estimator, skl2onnx.to_onnx(estimator, X[:1], options=options))


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("task", ["numbers", "two", "three"])
def test_boosted_trees(library, task):
    made = pytest.importorskip(library, reason=f"{library} is not installed")
    converters = pytest.importorskip("onnxmltools", reason="onnxmltools is not installed").convert
    from onnxmltools.convert.common.data_types import FloatTensorType

    wanted = {"numbers": NUMBERS, "two": TWO, "three": THREE}[task]
    if library == "xgboost":
        estimator = (made.XGBRegressor if task == "numbers" else made.XGBClassifier)(n_estimators=20, max_depth=4).fit(X, wanted)
        model = converters.convert_xgboost(estimator, initial_types=[("x", FloatTensorType([None, 7]))])
    else:
        kind = made.LGBMRegressor if task == "numbers" else made.LGBMClassifier
        estimator = kind(n_estimators=20, verbose=-1).fit(X, wanted)
        model = converters.convert_lightgbm(estimator, initial_types=[("x", FloatTensorType([None, 7]))], zipmap=False)
    agrees(estimator, model)
