"""cc_proto: C++ from one .proto file with the distribution's protoc, with gRPC stubs on request."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def cc_proto(name, src, grpc = False, visibility = None, grpc_visibility = None):
    """A cc_library `name` of the messages in `src`, included as "PACKAGE/BASE.pb.h".

    With `grpc` also `name`_grpc, of its services ("PACKAGE/BASE.grpc.pb.h"), apart from the
    messages because whoever only reads those should neither compile nor link gRPC.
    """
    base = src[:-len(".proto")]
    path = native.package_name() + "/" + src
    outs = [base + ".pb.h", base + ".pb.cc"]
    command = "protoc --proto_path=. --cpp_out=$(BINDIR) "
    if grpc:
        outs += [base + ".grpc.pb.h", base + ".grpc.pb.cc"]
        command += "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=$(BINDIR) "
    native.genrule(
        name = name + "_source",
        srcs = [src],
        outs = outs,
        cmd = command + path,
    )
    cc_library(
        name = name,
        srcs = [base + ".pb.cc"],
        hdrs = [base + ".pb.h"],
        copts = ["-w"],
        visibility = visibility,
        deps = ["@system//:protobuf"],
    )
    if grpc:
        cc_library(
            name = name + "_grpc",
            srcs = [base + ".grpc.pb.cc"],
            hdrs = [base + ".grpc.pb.h"],
            copts = ["-w"],
            visibility = grpc_visibility,
            deps = [
                ":" + name,
                "@system//:grpc",
            ],
        )
