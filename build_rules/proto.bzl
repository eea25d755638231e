"""C++ from a .proto file by the system's protoc (runtime: libprotobuf-lite)."""

def lite_proto_library(name, src):
    stem = src[:-len(".proto")]
    native.genrule(
        name = name + "_generate",
        srcs = [src],
        outs = [stem + ".pb.h", stem + ".pb.cc"],
        cmd = "/usr/bin/protoc --cpp_out=lite:$(GENDIR) -I. $(SRCS)",
    )
    native.cc_library(
        name = name,
        srcs = [stem + ".pb.cc"],
        hdrs = [stem + ".pb.h"],
        copts = ["-Wno-unused-parameter"],
        linkopts = ["-lprotobuf-lite"],
    )
