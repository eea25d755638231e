"""Variables: what a model keeps from one run to the next.

A variable that a run reads and changes is an input of the description with its value before the run
(`state.NAME`) and an output with its value after it (`next.NAME`). A variable to which no operator
assigns is a constant.
"""

from ..describe import Refusal, State
from .table import operator


def key_of(operator):
    """The key of a variable in a file: (container, name)."""
    return operator.options.get("Container", ""), operator.options.get("SharedName", "")


@operator("VAR_HANDLE", options="VarHandleOptions", inputs=(0, 0), resources=True)
def var_handle(g, call):
    key = key_of(call.operator)
    call.out.handle = key
    if key not in g.states:
        g.states[key] = State(
            name=key[1] or f"variable_{len(g.states)}", is_assigned=key in g.assigned
        )


def _state_of(g, value):
    if value.handle is None:
        raise Refusal(f"'{value.tensor.name}' is no variable that an operator VAR_HANDLE names")
    return g.states[value.handle]


def _check_type(state, value):
    if value.dtype != state.dtype or (
        state.shape is not None and value.shape not in ((), state.shape)
    ):
        raise Refusal(
            f"variable '{state.name}' is {state.dtype} of shape {list(state.shape)}, and '{value.tensor.name}' is {value.dtype} of "
            f"shape {list(value.shape)}"
        )


@operator("READ_VARIABLE", resources=True)
def read_variable(g, call):
    state, out = _state_of(g, call.inputs[0]), call.out
    if state.current is None and state.initial is None:
        raise Refusal(f"variable '{state.name}' is read before anything is assigned to it")
    if state.dtype is None:
        state.dtype, state.shape = state.kind_of_initial
    _check_type(state, out)
    out.tensor.shape = state.shape  # the file may leave its shape out
    if state.current is None and not state.is_assigned:
        out.tensor.data = state.initial
        return
    g.give(out, g.current(state))


@operator("ASSIGN_VARIABLE", inputs=(2, 2), resources=True)
def assign_variable(g, call):
    state, value = _state_of(g, call.inputs[0]), call.inputs[1]
    if state.dtype is None:
        state.dtype, state.shape = (
            (value.dtype, value.shape) if state.initial is None else state.kind_of_initial
        )
    _check_type(state, value)
    state.current = g.plain(value)


@operator("CALL_ONCE", options="CallOnceOptions", inputs=(0, 0), resources=True)
def call_once(g, call):
    """Runs the graph that initialises variables: its operators name them and assign constants to
    them."""
    number = int(call.option("InitSubgraphIndex"))
    if not 0 < number < len(g.file.subgraphs):
        raise Refusal(f"it calls graph {number}, and the file has {len(g.file.subgraphs)}")
    graph, handles, constants = g.file.subgraphs[number], {}, {}
    for each in graph.operators:
        if each.name == "VAR_HANDLE" and each.outputs:
            handles[each.outputs[0]] = key_of(each)
        elif each.name == "DENSIFY" and each.inputs and each.outputs:
            constants[each.outputs[0]] = graph.tensors[each.inputs[0]]
        elif each.name == "ASSIGN_VARIABLE" and len(each.inputs) == 2 and each.inputs[0] in handles:
            _set(
                g,
                handles[each.inputs[0]],
                constants.get(each.inputs[1], graph.tensors[each.inputs[1]]),
                each,
            )
        else:
            raise Refusal(
                f"graph {number} has the operator {each.name}; only variables that get constants are supported where it is called once"
            )


def _set(g, key, tensor, operator):
    state = g.states.setdefault(
        key, State(name=key[1] or f"variable_{len(g.states)}", is_assigned=key in g.assigned)
    )
    if tensor.data is None or tensor.dtype is None:
        raise Refusal(
            f"what operator {operator.number} assigns to variable '{state.name}' is no constant"
        )
    state.initial, state.kind_of_initial = tensor.data, (tensor.dtype, tensor.shape)
