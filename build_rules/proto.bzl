"""C++ from a .proto file by the system's protoc (runtime: libprotobuf-lite, libgrpc++)."""

# gRPC's headers call all of these.
_GRPC = ["-lgrpc++", "-lgrpc", "-lgpr", "-labsl_synchronization"]

def lite_proto_library(name, src, grpc = False, visibility = None):
    """A library of the messages of src and, with grpc, of its services."""
    stem = src[:-len(".proto")]
    parts = [".pb", ".grpc.pb"] if grpc else [".pb"]
    command = "/usr/bin/protoc --cpp_out=lite:$(GENDIR) -I. $(SRCS)"
    if grpc:
        command += " --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=$(GENDIR)"
    native.genrule(
        name = name + "_generate",
        srcs = [src],
        outs = [stem + part + end for part in parts for end in [".h", ".cc"]],
        cmd = command,
    )
    native.cc_library(
        name = name,
        srcs = [stem + part + ".cc" for part in parts],
        hdrs = [stem + part + ".h" for part in parts],
        copts = ["-Wno-unused-parameter"],
        # Keeps gRPC's headers from asking for more of protobuf than libprotobuf-lite has.
        defines = ["GRPC_USE_PROTO_LITE"] if grpc else [],
        linkopts = (_GRPC if grpc else []) + ["-lprotobuf-lite"],
        visibility = visibility,
    )
