"""What attention, losses, random operators and the forms of the first opsets say of nodes that they
cannot take."""

import onnx.parser
import pytest

import tc

QKV = "float[2,4,3,8] q, float[2,2,5,8] k, float[2,2,5,8] v"
FLAT = "float[2,3,32] q, float[2,5,32] k, float[2,5,32] v"
PROJECTED = "float[2,3,16] x, float[16,96] w"
GROUPED = "float[2,3,64] q, float[2,3,32] k, float[2,3,32] v, int32[2] last"
EMBEDDING = "int32[2,3] ids, float[9,8] words, float[7,8] places, float[8] g"
MS = "com.microsoft."

# Signature, node, opset, what is said behind the node's name; and initializers.
REFUSED = [
    # Attention of the standard.
    (
        "float[2,8] q, float[2,2,5,8] k, float[2,2,5,8] v",
        "y = Attention(q, k, v)",
        23,
        "Q, K and V have shapes [2, 8], [2, 2, 5, 8] and [2, 2, 5, 8]; all of rank 3 or all of rank 4 are needed",
    ),
    (
        "int64[2,4,3,8] q, float[2,2,5,8] k, float[2,2,5,8] v",
        "y = Attention(q, k, v)",
        23,
        "input 0 has type i64; a float type is needed",
    ),
    (
        "float[2,4,3,8] q, double[2,2,5,8] k, float[2,2,5,8] v",
        "y = Attention(q, k, v)",
        23,
        "input 1 has type f64; f32 is needed",
    ),
    (
        QKV + ", float8e5m2[3,5] m",
        "y = Attention(q, k, v, m)",
        23,
        "input 3 has type f8e5m2; bool, integers of 8 bits or more and floats of 16 or more are possible",
    ),
    (
        QKV + ", float[2] n",
        'y = Attention(q, k, v, "", "", "", n)',
        24,
        "input 6 has type f32; i32 or i64 is needed",
    ),
    (FLAT, "y = Attention(q, k, v)", 23, "32 elements do not divide into 0 heads"),
    (
        FLAT,
        "y = Attention<q_num_heads = 5, kv_num_heads = 4>(q, k, v)",
        23,
        "32 elements do not divide into 5 heads",
    ),
    (
        FLAT,
        "y = Attention<q_num_heads = -4, kv_num_heads = 4>(q, k, v)",
        23,
        "32 elements do not divide into -4 heads",
    ),
    (
        "float[2,4,3,8] q, float[2,3,5,8] k, float[2,3,5,8] v",
        "y = Attention(q, k, v)",
        23,
        "4 heads of queries do not share 3 heads of keys evenly",
    ),
    (
        "float[2,4,3,8] q, float[2,2,5,9] k, float[2,2,5,8] v",
        "y = Attention(q, k, v)",
        23,
        "input 1 has shape [2, 2, 5, 9]; [2, 2, 5, 8] is needed",
    ),
    (
        QKV + ", float[2,2,6,8] p",
        'y = Attention(q, k, v, "", p)',
        23,
        "past_key and past_value are given together, and never with nonpad_kv_seqlen",
    ),
    (
        QKV + ", float[2,6,8] p",
        'y = Attention(q, k, v, "", p, p)',
        23,
        "past_key has shape [2, 6, 8]; rank 4 is needed",
    ),
    (
        QKV + ", float[3,9] m",
        "y = Attention(q, k, v, m)",
        23,
        "the mask has shape [3, 9]; one that broadcasts to [2, 4, 3, 5] is needed",
    ),
    (
        QKV + ", bool[5,2,4,3,5] m",
        "y = Attention(q, k, v, m)",
        23,
        "the mask has shape [5, 2, 4, 3, 5]; one that broadcasts to [2, 4, 3, 5] is needed",
    ),
    (
        QKV,
        "y = Attention<qk_matmul_output_mode = 4>(q, k, v)",
        23,
        "qk_matmul_output_mode is 4; 0 to 3 are known",
    ),
    (
        QKV,
        "y = Attention<softmax_precision = 7>(q, k, v)",
        23,
        "softmax_precision is i64; a float type is needed",
    ),
    # Rotary positions.
    (
        "float[2,5,32] x, float[9,4] c",
        "y = RotaryEmbedding<num_heads = 4>(x, c, c)",
        23,
        "X and cos_cache have shapes [2, 5, 32] and [9, 4]; rank 3 or 4, and for the cache rank 3 are needed",
    ),
    (
        "float[2,5,32] x, float[9,3] c, int64[2,5] i",
        "y = RotaryEmbedding<num_heads = 4>(x, c, c, i)",
        23,
        "caches of shape [9, 3] do not turn 8 of the 8 elements of a head",
    ),
    (
        "float[2,5,32] x, double[9,4] c, int64[2,5] i",
        "y = RotaryEmbedding<num_heads = 4>(x, c, c, i)",
        23,
        "X and the caches have types f32 and f64; one float type is needed",
    ),
    (
        "float[2,5,32] x, float[9,4] c, int64[1] i",
        f"y = {MS}RotaryEmbedding<is_packed_batching = 1>(x, i, c, c)",
        17,
        "is_packed_batching is not supported",
    ),
    (
        "float[2,5,32] x, float[9,4] c, int64[1] i",
        f"y = {MS}RotaryEmbedding<scale = 2.0>(x, i, c, c)",
        17,
        "a scale of other than 1 is not supported",
    ),
    # The attentions of ONNX Runtime.
    (
        PROJECTED,
        f"y = {MS}Attention<num_heads = 4, do_rotary = 1>(x, w)",
        17,
        "attribute 'do_rotary' is not supported",
    ),
    (
        PROJECTED,
        f"y = {MS}Attention<num_heads = 0>(x, w)",
        17,
        "num_heads is 0; 1 or more is needed",
    ),
    (
        PROJECTED,
        f"y = {MS}Attention<num_heads = 4, qkv_hidden_sizes = [32, 16, 48]>(x, w)",
        17,
        "qkv_hidden_sizes do not divide the 96 columns of the weights into those of Q, K and V",
    ),
    (
        PROJECTED,
        f"y, p = {MS}Attention<num_heads = 4, qkv_hidden_sizes = [24, 24, 48]>(x, w)",
        17,
        "a cache needs keys and values of one size, not 6 and 12",
    ),
    (
        PROJECTED + ", int32[8] m",
        f'y = {MS}Attention<num_heads = 4>(x, w, "", m)',
        17,
        "input 3, a mask of shape [8], is not supported; [2], [4], [2, 3] or [2, 3, 3] is",
    ),
    (
        PROJECTED + ", int32[1] n",
        f'y = {MS}Attention<num_heads = 4>(x, w, "", "", "", "", n)',
        17,
        "input 6, past_sequence_length, is not supported",
    ),
    (
        "float[2,3,4,3,8] q, float[2,3,32] k",
        f"y = {MS}MultiHeadAttention<num_heads = 4>(q, k)",
        17,
        "key and value are given beside a query that holds them",
    ),
    (
        "float[2,3,32] q",
        f"y = {MS}MultiHeadAttention<num_heads = 4>(q)",
        17,
        "key is left out beside a query of shape [2, 3, 32]",
    ),
    (
        "float[2,3,32] q, float[2,3,32] k",
        f"y = {MS}MultiHeadAttention<num_heads = 4>(q, k)",
        17,
        "value is left out beside a key of shape [2, 3, 32]",
    ),
    (
        "float[2,3,32] q, float[2,5,4,2,8] k",
        f"y = {MS}MultiHeadAttention<num_heads = 4>(q, k, k)",
        17,
        "value is given beside a key that holds it",
    ),
    (
        "float[2,3,4,3,8] q, float[96] b",
        f'y = {MS}MultiHeadAttention<num_heads = 4>(q, "", "", b)',
        17,
        "a bias of packed operands is not supported",
    ),
    (
        FLAT + ", float[2,4,6,8] p",
        f'y = {MS}MultiHeadAttention<num_heads = 4>(q, k, v, "", "", "", p)',
        17,
        "past_key and past_value are given together",
    ),
    (
        FLAT,
        f"y, a, b, s = {MS}MultiHeadAttention<num_heads = 4>(q, k, v)",
        17,
        "output 3, the scores, is not computed",
    ),
    (
        FLAT + ", int32[1] n",
        f'y = {MS}MultiHeadAttention<num_heads = 4>(q, k, v, "", "", "", "", "", n)',
        17,
        "input 8, past_sequence_length, is not supported",
    ),
    (
        GROUPED,
        f'y = {MS}GroupQueryAttention<num_heads = 4, kv_num_heads = 3>(q, k, v, "", "", last, t)',
        17,
        "4 heads of queries do not share 3 heads of keys evenly",
        "int32 t = {3}",
    ),
    (
        GROUPED,
        f'y = {MS}GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(q, k, "", "", "", last, t)',
        17,
        "a key is given without a value, or the opposite",
        "int32 t = {3}",
    ),
    (
        GROUPED,
        f'y = {MS}GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>(q, k, v, "", "", last, t)',
        17,
        "do_rotary is 1, but cos_cache and sin_cache are left out",
        "int32 t = {3}",
    ),
    (
        GROUPED + ", float[9,20] c",
        f'y = {MS}GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>(q, k, v, "", "", last, t, c, c)',
        17,
        "caches of shape [9, 20] do not turn heads of 16 elements",
        "int32 t = {3}",
    ),
    (
        GROUPED + ", float[1,1,3,3] b",
        f"y = {MS}GroupQueryAttention<num_heads = 4, kv_num_heads = 2, softcap = 1.0>"
        '(q, k, v, "", "", last, t, "", "", "", b)',
        17,
        "attention_bias with a softcap is not supported",
        "int32 t = {3}",
    ),
    (
        GROUPED,
        f'y = {MS}GroupQueryAttention<num_heads = 4, kv_num_heads = 2, smooth_softmax = 1>(q, k, v, "", "", last, t)',
        17,
        "attribute 'smooth_softmax' is not supported",
        "int32 t = {3}",
    ),
    (
        GROUPED + ", float[2,2,6,16] p, int32 t",
        f"y = {MS}GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(q, k, v, p, p, last, t)",
        17,
        "total_sequence_length 't' depends on data; it must be a constant or follow from shapes",
    ),
    # Normalisations of sums, products.
    (
        "float[2,3,8] x, float[2,3,8] s, float[8] g",
        f"y, m = {MS}SkipSimplifiedLayerNormalization(x, s, g)",
        17,
        "output 1, the mean, is not computed",
    ),
    (
        "float[2,3,8] x, float[2,4,8] s, float[8] g",
        f"y = {MS}SkipLayerNormalization(x, s, g)",
        17,
        "input 1 of shape [2, 4, 8] does not broadcast to [2, 3, 8]",
    ),
    (
        EMBEDDING + ", int32[2,3] s",
        f'y = {MS}EmbedLayerNormalization(ids, s, words, places, "", g, g)',
        17,
        "segment_ids and segment_embedding are given together",
    ),
    (
        EMBEDDING,
        f'y = {MS}EmbedLayerNormalization(ids, "", g, places, "", g, g)',
        17,
        "the identifiers and the words have shapes [2, 3] and [8]; rank 2 is needed",
    ),
    (
        "int32[2,9] ids, float[9,8] words, float[7,8] places, float[8] g",
        f'y = {MS}EmbedLayerNormalization(ids, "", words, places, "", g, g)',
        17,
        "9 positions are more than the 7 embeddings of input 3",
    ),
    (
        "float a, float[3] b",
        f"y = {MS}FusedMatMul(a, b)",
        17,
        "operands of shapes [] and [3]; a matrix product needs rank 1 or more",
    ),
    (
        "float[2,3] a, float[2,3] b",
        f"y = {MS}FusedMatMul(a, b)",
        17,
        "operands of shapes [2, 3] and [2, 3] do not multiply: 3 and 2 elements meet",
    ),
    # Losses, caches, random numbers.
    (
        "float[5] x, int64[5] t",
        "y = NegativeLogLikelihoodLoss(x, t)",
        17,
        "the input has shape [5]; [batch, classes, …] is needed",
    ),
    (
        "float[5,3] x, int64[4] t",
        "y = NegativeLogLikelihoodLoss(x, t)",
        17,
        "input 1 has shape [4]; [5] is needed",
    ),
    (
        "float[5,3] x, int64[5] t",
        'y = SoftmaxCrossEntropyLoss<reduction = "max">(x, t)',
        17,
        "attribute 'reduction' is 'max'; it may be mean, none, sum",
    ),
    (
        "float[2,6,8] p, float[2,7,8] u",
        "y = TensorScatter(p, u)",
        24,
        "an update of shape [2, 7, 8] does not fit into data of shape [2, 6, 8] along axis 1",
    ),
    (
        "float[2,6,8] p, float[2,1,8] u",
        "y = TensorScatter<axis = 0>(p, u)",
        24,
        "axis is 0, that of the batch",
    ),
    ("float[6] x", "y = Multinomial(x)", 17, "the input has shape [6]; [batch, classes] is needed"),
    ("float[2] x", "y = RandomNormalLike()", 17, "has 0 inputs; it takes 1"),
    (
        "float[2] x",
        "y = RandomUniform<shape = [2], dtype = 7>()",
        17,
        "dtype is i64; a float type is needed",
    ),
    (
        "float[2] x, int64 r, bool t",
        "y = Dropout(x, r, t)",
        17,
        "input 1 is i64[]; one float is needed",
    ),
    (
        "float[2] x, bool[2] t",
        'y = Dropout(x, "", t)',
        17,
        "input 2 is bool[2]; one bool is needed",
    ),
    # The first opsets.
    (
        "float[2,3] x, float[3] b",
        "y = Add<broadcast = 1, axis = 2>(x, b)",
        6,
        "1 axes from axis 2 on do not lie in a tensor of rank 2",
    ),
    (
        "float[2,3] x, float[3] b",
        "y = Add<broadcast = 1, axis = -9>(x, b)",
        6,
        "1 axes from axis -9 on do not lie in a tensor of rank 2",
    ),
    ("float[2,3] x", 'y = Cast<to = "STRING">(x)', 5, "element type 'STRING' is not supported"),
    (
        "float[2,3] x, int64 t, int64 a",
        "y = Tile(x, t, a)",
        5,
        "input 1, 't', must be a constant of one number",
    ),
    (
        "float[2,3] x",
        "y = Tile(x, t, a)",
        5,
        "2 tiles along axis 2 of a tensor of rank 2",
        "int64 t = {2}, int64 a = {2}",
    ),
    (
        "float[1,2,4,4] x",
        "y = LpPool<kernel_shape = [2, 2], p = 1.5>(x)",
        1,
        "p is 1.5; a whole number is supported",
    ),
    (
        "float[1,2,4,4] x",
        "y = GlobalLpPool<p = 0>(x)",
        2,
        "attribute 'p' is 0; it may be 1 to 1024",
    ),
    (
        "float[1,2,4,4] x",
        "y = Upsample<height_scale = 2.0>(x)",
        6,
        "lacks attribute 'width_scale', which Upsample needs",
    ),
    (
        "float[1,2,4,4] x",
        "y = Crop<border = [1, 1]>(x)",
        6,
        "2 borders and 0 scales for a tensor of shape [1, 2, 4, 4]; rank 4, 4 borders and no scale or 2 are needed",
    ),
    (
        "float[1,2,4,4] x",
        "y = Crop<border = [1, 1, 4, 1]>(x)",
        6,
        "rows 1 to 3 and columns 1 to 0 do not lie in a tensor of shape [1, 2, 4, 4]",
    ),
    (
        "float[1,2,4,4] x",
        "y = ImageScaler<bias = [1.0]>(x)",
        6,
        "the input has shape [1, 2, 4, 4]; [batch, 1, height, width] is needed",
    ),
]


def model(signature, body, opset, constants=""):
    constants = f"<{constants}>" if constants else ""
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>\n'
        f"g ({signature}) => (float[N] y) {constants} {{ {body} }}"
    ).SerializeToString()


@pytest.mark.parametrize("row", REFUSED, ids=[f"{row[1]} {row[0]}" for row in REFUSED])
def test_refusal(row):
    signature, body, opset, told, *constants = row
    with pytest.raises(tc.Error) as caught:
        tc.compile(model(signature, body, opset, *constants), log=False)
    said = str(caught.value)
    assert said.startswith("node 'y' (") and "is malformed" not in said
    assert (
        said.split(" of model.onnx", 1)[1].removeprefix(": ").removeprefix(" ").startswith(told)
    ), said
