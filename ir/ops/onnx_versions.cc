#include "ir/ops/onnx_versions.h"

#include <algorithm>

namespace tc {
namespace {

// clang-format off
const std::vector<OnnxVersion> kDefault = {
    {"Abs", 13}, {"Acos", 22}, {"Acosh", 22}, {"Add", 14}, {"AffineGrid", 20}, {"And", 7}, {"ArgMax", 13},
    {"ArgMin", 13}, {"Asin", 22}, {"Asinh", 22}, {"Atan", 22}, {"Atanh", 22}, {"Attention", 25},
    {"AveragePool", 22}, {"BatchNormalization", 15}, {"Bernoulli", 22}, {"BitCast", 26}, {"BitShift", 28},
    {"BitwiseAnd", 18}, {"BitwiseNot", 18}, {"BitwiseOr", 18}, {"BitwiseXor", 18}, {"BlackmanWindow", 17},
    {"Cast", 28}, {"CastLike", 25}, {"CausalConvWithState", 27}, {"Ceil", 13}, {"Celu", 28},
    {"CenterCropPad", 18}, {"Clip", 13}, {"Col2Im", 18}, {"Compress", 28}, {"Concat", 13},
    {"ConcatFromSequence", 11}, {"Constant", 25}, {"ConstantOfShape", 25}, {"Conv", 22},
    {"ConvInteger", 10}, {"ConvTranspose", 22}, {"Cos", 22}, {"Cosh", 22}, {"CumProd", 26}, {"CumSum", 14},
    {"DFT", 20}, {"DeformConv", 22}, {"DepthToSpace", 28}, {"DequantizeLinear", 28}, {"Det", 22},
    {"Div", 14}, {"Dropout", 22}, {"DynamicQuantizeLinear", 11}, {"Einsum", 28}, {"Elu", 22},
    {"Equal", 19}, {"Erf", 13}, {"Exp", 13}, {"Expand", 13}, {"EyeLike", 22}, {"Flatten", 25},
    {"Floor", 13}, {"GRU", 22}, {"Gather", 13}, {"GatherElements", 13}, {"GatherND", 13}, {"Gelu", 20},
    {"Gemm", 13}, {"GlobalAveragePool", 22}, {"GlobalLpPool", 22}, {"GlobalMaxPool", 22}, {"Greater", 13},
    {"GreaterOrEqual", 16}, {"GridSample", 22}, {"GroupNormalization", 21}, {"HammingWindow", 17},
    {"HannWindow", 17}, {"HardSigmoid", 22}, {"HardSwish", 22}, {"Hardmax", 13}, {"Identity", 25},
    {"If", 25}, {"ImageDecoder", 20}, {"InstanceNormalization", 22}, {"IsInf", 20}, {"IsNaN", 20},
    {"LRN", 13}, {"LSTM", 22}, {"LayerNormalization", 17}, {"LeakyRelu", 16}, {"Less", 13},
    {"LessOrEqual", 16}, {"LinearAttention", 27}, {"Log", 13}, {"LogSoftmax", 13}, {"Loop", 25},
    {"LpNormalization", 22}, {"LpPool", 22}, {"MatMul", 13}, {"MatMulInteger", 10}, {"Max", 13},
    {"MaxPool", 22}, {"MaxRoiPool", 22}, {"MaxUnpool", 22}, {"Mean", 13},
    {"MeanVarianceNormalization", 13}, {"MelWeightMatrix", 17}, {"Min", 13}, {"Mish", 22}, {"Mod", 28},
    {"Mul", 14}, {"Multinomial", 22}, {"Neg", 13}, {"NegativeLogLikelihoodLoss", 22},
    {"NonMaxSuppression", 11}, {"NonZero", 13}, {"Not", 1}, {"OneHot", 28}, {"Optional", 28},
    {"OptionalGetElement", 28}, {"OptionalHasElement", 28}, {"Or", 7}, {"PRelu", 16}, {"Pad", 25},
    {"Pow", 15}, {"QLinearConv", 10}, {"QLinearMatMul", 21}, {"QuantizeLinear", 28},
    {"RMSNormalization", 23}, {"RNN", 22}, {"RandomNormal", 22}, {"RandomNormalLike", 22},
    {"RandomUniform", 22}, {"RandomUniformLike", 22}, {"Range", 27}, {"Reciprocal", 13}, {"ReduceL1", 18},
    {"ReduceL2", 18}, {"ReduceLogSum", 28}, {"ReduceLogSumExp", 28}, {"ReduceMax", 20}, {"ReduceMean", 18},
    {"ReduceMin", 20}, {"ReduceProd", 18}, {"ReduceSum", 13}, {"ReduceSumSquare", 18},
    {"RegexFullMatch", 20}, {"Relu", 14}, {"Reshape", 25}, {"Resize", 19}, {"ReverseSequence", 28},
    {"RoiAlign", 22}, {"RotaryEmbedding", 23}, {"Round", 22}, {"STFT", 17}, {"Scan", 25}, {"Scatter", 11},
    {"ScatterElements", 18}, {"ScatterND", 18}, {"Selu", 22}, {"SequenceAt", 11},
    {"SequenceConstruct", 11}, {"SequenceEmpty", 11}, {"SequenceErase", 11}, {"SequenceInsert", 11},
    {"SequenceLength", 11}, {"SequenceMap", 17}, {"Shape", 25}, {"Shrink", 9}, {"Sigmoid", 13},
    {"Sign", 13}, {"Sin", 22}, {"Sinh", 22}, {"Size", 25}, {"Slice", 13}, {"Softmax", 13},
    {"SoftmaxCrossEntropyLoss", 13}, {"Softplus", 22}, {"Softsign", 22}, {"SpaceToDepth", 28},
    {"Split", 18}, {"SplitToSequence", 24}, {"Sqrt", 13}, {"Squeeze", 25}, {"StringConcat", 20},
    {"StringNormalizer", 10}, {"StringSplit", 20}, {"Sub", 14}, {"Sum", 13}, {"SwiGLU", 28}, {"Swish", 24},
    {"Tan", 22}, {"Tanh", 13}, {"TensorScatter", 24}, {"TfIdfVectorizer", 9}, {"ThresholdedRelu", 22},
    {"Tile", 13}, {"TopK", 24}, {"Transpose", 25}, {"Trilu", 14}, {"Unique", 28}, {"Unsqueeze", 25},
    {"Upsample", 10}, {"Where", 16}, {"Xor", 7}};
// clang-format on

// clang-format off
const std::vector<OnnxVersion> kLearning = {
    {"ArrayFeatureExtractor", 1}, {"Binarizer", 1}, {"CastMap", 1}, {"CategoryMapper", 1},
    {"DictVectorizer", 1}, {"FeatureVectorizer", 1}, {"Imputer", 1}, {"LabelEncoder", 4},
    {"LinearClassifier", 1}, {"LinearRegressor", 1}, {"Normalizer", 1}, {"OneHotEncoder", 1},
    {"SVMClassifier", 1}, {"SVMRegressor", 1}, {"Scaler", 1}, {"TreeEnsemble", 5},
    {"TreeEnsembleClassifier", 5}, {"TreeEnsembleRegressor", 5}, {"ZipMap", 1}};
// clang-format on

const std::vector<OnnxVersion> kPreview = {{"FlexAttention", 1}};

}  // namespace

const std::vector<OnnxDomain>& onnx_domains() {
  static const std::vector<OnnxDomain> domains = {
      {"", 28, kDefault}, {"ai.onnx.ml", 5, kLearning}, {"ai.onnx.preview", 1, kPreview}};
  return domains;
}

std::string unknown_version(const std::string& domain, const std::string& type, int opset) {
  const std::string asked = domain == "ai.onnx" ? "" : domain;
  for (const OnnxDomain& known : onnx_domains()) {
    if (known.name != asked || opset <= known.newest) continue;
    const auto found = std::find_if(known.operators.begin(), known.operators.end(),
                                    [&](const OnnxVersion& each) { return each.name == type; });
    if (found == known.operators.end()) return "";  // not an operator with versions
    return text("version ", found->version, " of ", type, " is the newest that is known, as of operator set ",
                known.newest, ", and the model asks for the one of ", opset,
                ", which may have changed; convert the model to operator set ", known.newest,
                " with onnx.version_converter, or export it for that");
  }
  return "";
}

}  // namespace tc
