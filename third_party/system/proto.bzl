"""cc_proto: C++ from one .proto file with the distribution's protoc, with gRPC stubs on request."""

load("@rules_cc//cc:defs.bzl", "cc_library")

# copts of files that are made of gRPC's headers: these trust in what the library orders between
# threads, which the thread sanitizer does not see. Such files only carry; they decide nothing.
UNINSTRUMENTED = select({
    "//third_party/system:thread_sanitizer": ["-fno-sanitize=thread"],
    "//conditions:default": [],
})

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
        copts = ["-w"] + UNINSTRUMENTED,
        visibility = visibility,
        deps = ["@system//:protobuf"],
    )
    if grpc:
        cc_library(
            name = name + "_grpc",
            srcs = [base + ".grpc.pb.cc"],
            hdrs = [base + ".grpc.pb.h"],
            copts = ["-w"] + UNINSTRUMENTED,
            visibility = grpc_visibility,
            deps = [
                ":" + name,
                "@system//:grpc",
            ],
        )
