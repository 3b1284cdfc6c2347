"""cc_proto: C++ from one .proto file with the distribution's protoc, with gRPC stubs on request."""

load("@rules_cc//cc:defs.bzl", "cc_library")

# copts of files that are made of gRPC's headers: these trust in what the library orders between
# threads, which the thread sanitizer does not see. Such files only carry; they decide nothing. And
# of files that have a message with a map: instrumented, it is larger than the library's.
UNINSTRUMENTED = select({
    "//third_party/system:thread_sanitizer": ["-fno-sanitize=thread"],
    "//conditions:default": [],
})

def cc_proto(name, src, grpc = False, visibility = None, grpc_visibility = None):
    """A cc_library `name` of the messages in `src`, included as "PACKAGE/BASE.pb.h".

    With `grpc` also `name`_grpc, of its services ("PACKAGE/BASE.grpc.pb.h"), apart from the
    messages because whoever only reads those should neither compile nor link gRPC.

    The descriptors are registered as "ringzero/BASE.proto": a program in which two libraries
    register a file of one name ends, and "proto/config.proto" is a name that others have too.
    """
    base = src[:-len(".proto")]
    package = native.package_name()
    outs = [base + ".pb.h", base + ".pb.cc"]
    plugin = ""
    if grpc:
        outs += [base + ".grpc.pb.h", base + ".grpc.pb.cc"]
        plugin = "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=$(@D)/" + name + " "
    command = "mkdir -p $(@D)/{name} && protoc --proto_path=ringzero={package} " + \
              "--proto_path=/usr/include --cpp_out=$(@D)/{name} {plugin}ringzero/{src} && " + \
              "for out in $(OUTS); do sed 's,include \"ringzero/,include \"{package}/,' " + \
              "$(@D)/{name}/ringzero/$${{out##*/}} > $$out; done && rm -r $(@D)/{name}"
    native.genrule(
        name = name + "_source",
        srcs = [src],
        outs = outs,
        cmd = command.format(
            name = name,
            package = package,
            plugin = plugin,
            src = src,
            base = base,
        ),
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
