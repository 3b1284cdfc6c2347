"""cc_proto: C++ from one .proto file with the distribution's protoc, with gRPC stubs on request."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def cc_proto(name, src, grpc = False, visibility = None):
    """A cc_library of the messages in `src`, and of its services where `grpc` is set."""
    base = src[:-len(".proto")]
    outs = [base + ".pb.h", base + ".pb.cc"]
    command = "protoc --proto_path=$$(dirname $(location %s)) --cpp_out=$(RULEDIR) " % src
    if grpc:
        outs += [base + ".grpc.pb.h", base + ".grpc.pb.cc"]
        command += "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=$(RULEDIR) "
    native.genrule(
        name = name + "_source",
        srcs = [src],
        outs = outs,
        cmd = command + "$(location %s)" % src,
    )
    cc_library(
        name = name,
        srcs = [out for out in outs if out.endswith(".cc")],
        hdrs = [out for out in outs if out.endswith(".h")],
        copts = ["-w"],
        strip_include_prefix = None,
        visibility = visibility,
        deps = ["@system//:grpc" if grpc else "@system//:protobuf"],
    )
