"""Estimators of scikit-learn, XGBoost and LightGBM, exported to ONNX: equal to the libraries' own
predictions."""

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
NAMES = numpy.array(["red", "green", "blue"], object)[THREE]
NUMBERS = X @ RANDOM.standard_normal(7) + numpy.sin(X[:, 0])
HOLES = numpy.where(RANDOM.random(X.shape) < 0.1, numpy.float32("nan"), X)
# What the exporter writes that is refused, with a part of what is said.
REFUSED = {
    "GaussianProcessClassifier-2": "com.microsoft::Solve",
    "KNNImputer-holes": "the branches of output 1 give",
}


def regressors():
    from sklearn import (
        cross_decomposition,
        ensemble,
        gaussian_process,
        linear_model,
        neighbors,
        neural_network,
        svm,
        tree,
    )
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    return [
        linear_model.LinearRegression(),
        linear_model.Ridge(),
        linear_model.Lasso(0.1),
        linear_model.ElasticNet(0.1),
        linear_model.BayesianRidge(),
        linear_model.HuberRegressor(),
        linear_model.Lars(),
        linear_model.LassoLars(0.01),
        linear_model.SGDRegressor(random_state=0),
        linear_model.ARDRegression(),
        linear_model.TheilSenRegressor(random_state=0),
        linear_model.OrthogonalMatchingPursuit(),
        linear_model.RANSACRegressor(random_state=0),
        linear_model.QuantileRegressor(),
        tree.DecisionTreeRegressor(random_state=0),
        tree.ExtraTreeRegressor(random_state=0),
        ensemble.RandomForestRegressor(20, random_state=0),
        ensemble.ExtraTreesRegressor(20, random_state=0),
        ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0),
        ensemble.AdaBoostRegressor(n_estimators=5, random_state=0),
        ensemble.BaggingRegressor(random_state=0),
        svm.LinearSVR(),
        svm.SVR(),
        svm.SVR(kernel="poly"),
        svm.NuSVR(kernel="sigmoid"),
        neighbors.KNeighborsRegressor(),
        neighbors.RadiusNeighborsRegressor(4.0),
        gaussian_process.GaussianProcessRegressor(),
        neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=50, random_state=0),
        cross_decomposition.PLSRegression(2),
        make_pipeline(StandardScaler(), linear_model.Ridge()),
        make_pipeline(PolynomialFeatures(2), svm.SVR()),
    ]


def classifiers():
    from sklearn import (
        calibration,
        discriminant_analysis,
        ensemble,
        linear_model,
        multiclass,
        naive_bayes,
        neighbors,
        neural_network,
        svm,
        tree,
    )
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    voters = [
        ("a", linear_model.LogisticRegression()),
        ("b", tree.DecisionTreeClassifier(max_depth=3)),
    ]
    return [
        linear_model.LogisticRegression(),
        linear_model.SGDClassifier(random_state=0),
        linear_model.RidgeClassifier(),
        linear_model.Perceptron(random_state=0),
        tree.DecisionTreeClassifier(random_state=0),
        ensemble.RandomForestClassifier(20, random_state=0),
        ensemble.ExtraTreesClassifier(20, random_state=0),
        ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0),
        ensemble.AdaBoostClassifier(random_state=0),
        ensemble.BaggingClassifier(random_state=0),
        ensemble.VotingClassifier(voters, voting="soft", flatten_transform=False),
        ensemble.StackingClassifier(voters),
        naive_bayes.GaussianNB(),
        naive_bayes.BernoulliNB(),
        neural_network.MLPClassifier((8,), max_iter=50, random_state=0),
        svm.LinearSVC(),
        svm.SVC(),
        svm.SVC(kernel="poly"),
        svm.NuSVC(nu=0.3),
        neighbors.KNeighborsClassifier(),
        discriminant_analysis.LinearDiscriminantAnalysis(),
        discriminant_analysis.QuadraticDiscriminantAnalysis(),
        multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
        calibration.CalibratedClassifierCV(linear_model.LogisticRegression()),
        make_pipeline(StandardScaler(), linear_model.LogisticRegression()),
        make_pipeline(StandardScaler(), PCA(4), svm.SVC()),
    ]


def transformers():
    """With what they take."""
    from sklearn import decomposition, feature_selection, impute, preprocessing

    for transformer in (
        preprocessing.StandardScaler(),
        preprocessing.MinMaxScaler(),
        preprocessing.MaxAbsScaler(),
        preprocessing.RobustScaler(),
        preprocessing.Normalizer(),
        preprocessing.Binarizer(),
        preprocessing.PolynomialFeatures(2),
        preprocessing.PowerTransformer(),
        preprocessing.QuantileTransformer(n_quantiles=20),
        decomposition.PCA(3),
        decomposition.TruncatedSVD(3),
        decomposition.IncrementalPCA(3),
        decomposition.KernelPCA(3, kernel="rbf"),
        feature_selection.VarianceThreshold(),
    ):
        yield name_of(transformer), transformer, X
    yield "SimpleImputer-holes", impute.SimpleImputer(), HOLES
    yield "KNNImputer-holes", impute.KNNImputer(), HOLES


def estimators():
    """Name of a case: an estimator and what it is trained for."""
    from sklearn import ensemble, gaussian_process, linear_model, svm, tree

    for regressor in regressors():
        label = name_of(regressor)
        kernel = getattr(regressor, "kernel", None)
        yield f"{label}-{kernel}" if isinstance(kernel, str) else label, regressor, NUMBERS
    for classifier in classifiers():
        label = name_of(classifier) + (
            f"-{classifier.kernel}" if hasattr(classifier, "kernel") else ""
        )
        # skl2onnx 1.20 writes a softmax of both signs of the score, which is not what it predicts.
        if label != "LinearDiscriminantAnalysis":
            yield f"{label}-2", classifier, TWO
        yield f"{label}-3", classifier, THREE
    for classifier in (
        linear_model.LogisticRegression(),
        svm.SVC(),
        tree.DecisionTreeClassifier(random_state=0),
        ensemble.RandomForestClassifier(10, random_state=0),
    ):
        yield f"{name_of(classifier)}-names", classifier, NAMES
    yield "GaussianProcessClassifier-2", gaussian_process.GaussianProcessClassifier(), TWO


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
        scores = results[1]
        if isinstance(scores, list):
            scores = numpy.array([[row[label] for label in estimator.classes_] for row in scores])
        assert numpy.abs(scores - estimator.predict_proba(X)).max() <= tolerance


def refused(name, model):
    if name not in REFUSED:
        return False
    with pytest.raises(tc.UnsupportedError, match=REFUSED[name]):
        tc.compile(model.SerializeToString(), log=False)
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", list(estimators()), ids=lambda case: case[0])
def test_scikit_learn(case):
    """As the exporter writes them: where that gives a list of maps, with these."""
    name, estimator, wanted = case
    estimator = sklearn.base.clone(estimator).fit(X, wanted)
    model = skl2onnx.to_onnx(estimator, X[:1])
    if not refused(name, model):
        agrees(estimator, model)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", list(transformers()), ids=lambda case: case[0])
def test_transformers(case):
    name, transformer, x = case
    transformer = sklearn.base.clone(transformer).fit(x)
    model = skl2onnx.to_onnx(transformer, x[:1])
    if not refused(name, model):
        expected = transformer.transform(x)
        assert (
            numpy.abs(tc.compile(model.SerializeToString(), log=False)(x) - expected).max()
            <= 1e-4 * numpy.abs(expected).max()
        )


def test_the_list_of_refusals_is_of_cases():
    assert set(REFUSED) <= {name for name, *_ in [*estimators(), *transformers()]}


def test_probabilities_of_support_vectors():
    from sklearn import svm

    for wanted in (TWO, THREE):
        estimator = svm.SVC(probability=True, random_state=0).fit(X, wanted)
        agrees(estimator, skl2onnx.to_onnx(estimator, X[:1]), tolerance=1e-3)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("task", ["numbers", "two", "three"])
def test_boosted_trees(library, task):
    made = pytest.importorskip(library, reason=f"{library} is not installed")
    converters = pytest.importorskip("onnxmltools", reason="onnxmltools is not installed").convert
    from onnxmltools.convert.common.data_types import FloatTensorType

    wanted = {"numbers": NUMBERS, "two": TWO, "three": THREE}[task]
    if library == "xgboost":
        estimator = (made.XGBRegressor if task == "numbers" else made.XGBClassifier)(
            n_estimators=20, max_depth=4
        ).fit(X, wanted)
        model = converters.convert_xgboost(
            estimator, initial_types=[("x", FloatTensorType([None, 7]))]
        )
    else:
        kind = made.LGBMRegressor if task == "numbers" else made.LGBMClassifier
        estimator = kind(n_estimators=20, verbose=-1).fit(X, wanted)
        model = converters.convert_lightgbm(
            estimator, initial_types=[("x", FloatTensorType([None, 7]))], zipmap=False
        )
    agrees(estimator, model)
